// Used by template_chat.h and text/chat/chat.cc.
#include "text/chat/templates/chat_templates.h"

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <utility>

#include "base/storage/mapped_file.h"
#include "files/json.h"
#include "files/json_fields.h"
#include "files/model_path.h"
#include "jinja/parser.h"
#include "text/vocabulary_files/gguf_tokenizer.h"
#include "text/vocabulary_files/tokenizer_companions.h"

namespace sluice {

namespace {

namespace json = boost::json;

constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;

// A token is given as its text or as {"content": text, ...}.
const json::value* token_text(const json::value& token) {
  const json::value* text = token.is_object() ? token.get_object().if_contains("content") : &token;
  return text != nullptr && text->is_string() ? text : nullptr;
}

void read_special_tokens(const json::object& config, ChatTemplates& out) {
  for (const auto& [key, value] : config) {
    if (!key.ends_with("_token")) continue;
    if (const json::value* text = token_text(value)) out.special_tokens[key] = *text;
  }
  const json::value* others = config.if_contains("additional_special_tokens");
  if (others == nullptr || !others->is_array()) return;
  json::array texts;
  for (const json::value& token : others->get_array()) {
    if (const json::value* text = token_text(token)) texts.push_back(*text);
  }
  if (!texts.empty()) out.special_tokens["additional_special_tokens"] = std::move(texts);
}

Status read_template_list(const json::array& list, const std::string& what, ChatTemplates& out) {
  for (const json::value& entry : list) {
    const std::string entry_name = what + ": key 'chat_template'[" + std::to_string(out.templates.size()) + "]";
    JsonFields fields(entry, entry_name);
    std::string name;
    std::string text;
    fields.require("name", name);
    fields.require("template", text);
    SLUICE_RETURN_IF_ERROR(fields.status());
    const std::string template_name = what + ": chat template '" + name + "'";
    SLUICE_RETURN_IF_ERROR(add_chat_template(out, std::move(name), text, template_name));
  }
  return {};
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

Status read_template_file(const std::string& path, const std::string& name, ChatTemplates& out) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, jinja::kMaxTemplateBytes));
  // Errors of a rendering go to clients: they name the file, not the folder where it lies.
  const std::filesystem::path file(path);
  const Status added = add_chat_template(out, name, text, file.filename().string());
  return added.ok() ? added : added.with_context(file.parent_path().string());
}

// The files additional_chat_templates/NAME.jinja, in the order of their names.
Status read_additional_templates(const std::string& folder, ChatTemplates& out) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/additional_chat_templates", error)) {
    if (entry.path().extension() == ".jinja") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  for (const std::filesystem::path& path : paths) {
    std::erase_if(out.templates, [&](const NamedChatTemplate& named) { return named.name == path.stem(); });
    SLUICE_RETURN_IF_ERROR(read_template_file(path.string(), path.stem().string(), out));
  }
  return {};
}

// `config` is the tokenizer_config.json.
Result<ChatTemplates> read_folder_templates(const std::string& folder, json::object config) {
  const std::string template_path = folder + "/chat_template.jinja", old_path = folder + "/chat_template.json";
  const json::value* given = config.if_contains("chat_template");
  ChatTemplates templates;
  if (exists(template_path)) {
    SLUICE_RETURN_IF_ERROR(read_template_file(template_path, "default", templates));
  } else if ((given == nullptr || given->is_null()) && exists(old_path)) {
    SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(old_path, kMaxConfigBytes));
    SLUICE_ASSIGN_OR_RETURN(const json::value file, parse_json(text, old_path));
    SLUICE_ASSIGN_OR_RETURN(templates, parse_chat_templates(file, "chat_template.json"));
  } else {
    SLUICE_ASSIGN_OR_RETURN(templates, parse_chat_templates(std::move(config), "tokenizer_config.json"));
  }
  SLUICE_RETURN_IF_ERROR(read_additional_templates(folder, templates));
  return templates;
}

}  // namespace

const jinja::Template* ChatTemplates::find(bool has_tools) const {
  const auto named = [&](std::string_view name) -> const jinja::Template* {
    const auto found = std::ranges::find(templates, name, &NamedChatTemplate::name);
    return found == templates.end() ? nullptr : &found->text;
  };
  const jinja::Template* with_tools = has_tools ? named("tool_use") : nullptr;
  return with_tools != nullptr ? with_tools : named("default");
}

Status add_chat_template(ChatTemplates& templates, std::string name, std::string_view text, std::string_view what) {
  SLUICE_ASSIGN_OR_RETURN(jinja::Template parsed, jinja::Template::parse(text, what));
  templates.templates.push_back({.name = std::move(name), .text = std::move(parsed)});
  return {};
}

Status replace_chat_templates(ChatTemplates& templates, const std::string& path) {
  templates.templates.clear();
  const Status read = read_template_file(path, "default", templates);
  // kNotFound would mean a model without a template, which can do without.
  if (read.code() == StatusCode::kNotFound) return invalid_argument("--chat-template: " + std::string(read.message()));
  return read;
}

Result<ChatTemplates> parse_chat_templates(const json::value& tokenizer_config, const std::string& what) {
  ChatTemplates templates;
  if (!tokenizer_config.is_object()) {
    return invalid_argument(what + ": expected an object, found " + describe_json(&tokenizer_config));
  }
  read_special_tokens(tokenizer_config.get_object(), templates);
  const json::value* given = tokenizer_config.get_object().if_contains("chat_template");
  if (given == nullptr || given->is_null()) return templates;
  if (given->is_string()) {
    SLUICE_RETURN_IF_ERROR(
        add_chat_template(templates, "default", std::string_view(given->get_string()), what + ": chat template"));
  } else if (given->is_array()) {
    SLUICE_RETURN_IF_ERROR(read_template_list(given->get_array(), what, templates));
  } else {
    return invalid_argument(what + ": key 'chat_template': expected a text or a list of templates, found " +
                            describe_json(given));
  }
  return templates;
}

Result<ChatTemplates> load_chat_templates(const std::string& folder, bool only_tokens) {
  if (is_gguf_path(folder)) {
    SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<GgufModel> model, GgufModel::open(folder));
    SLUICE_ASSIGN_OR_RETURN(json::value config, gguf_tokenizer_config(*model));
    if (only_tokens) config.as_object().erase("chat_template");
    return parse_chat_templates(config, std::filesystem::path(folder).filename().string());
  }
  Result<TokenizerFiles> files = read_tokenizer_files(folder, /*with_vocabulary=*/false);
  if (!files.ok()) return files.status().with_context(folder);
  Result<json::object> tokens = special_tokens(*files);
  if (!tokens.ok()) return tokens.status().with_context(folder);
  ChatTemplates templates;
  if (!only_tokens) {
    SLUICE_ASSIGN_OR_RETURN(templates, read_folder_templates(folder, std::move(files->config)));
  }
  templates.special_tokens = std::move(tokens).value();
  return templates;
}

}  // namespace sluice
