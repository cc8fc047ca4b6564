// Reading the files of a tokenizer, and which class they choose.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <filesystem>
#include <string>
#include <utility>

#include "base/storage/mapped_file.h"
#include "files/json.h"
#include "files/json_fields.h"
#include "text/vocabulary_files/tokenizer_companions.h"
#include "text/vocabulary_files/tokenizer_files.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxSmallFileBytes = std::size_t{16} << 20;

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// The object that a file holds; an empty one where there is no file.
Result<json::object> read_object(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  if (!exists(path)) return json::object();
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMaxSmallFileBytes));
  SLUICE_ASSIGN_OR_RETURN(json::value value, parse_json(text, name));
  if (value.is_object()) return std::move(value.get_object());
  return invalid_argument(fmt::format("{}: expected an object, found {}", name, describe_json(&value)));
}

std::string_view text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return {};
  return std::string_view(value->get_string());
}

// The lines of a merges.txt.
Result<json::array> read_merges(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  json::array merges;
  std::size_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      const json::value found(line);
      return invalid_argument(fmt::format("merges.txt: line {}: expected two tokens with a space between, found {}",
                                          number, describe_json(&found)));
    }
    merges.emplace_back(line);
  }
  return merges;
}

// vocab.json and merges.txt, as the model of a tokenizer.json.
Result<json::value> read_vocabulary(const std::string& folder) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(folder + "/vocab.json"));
  SLUICE_ASSIGN_OR_RETURN(json::value vocab, parse_json(text, "vocab.json"));
  SLUICE_ASSIGN_OR_RETURN(json::array merges, read_merges(folder + "/merges.txt"));
  json::object model{{"type", "BPE"}};
  model["vocab"] = std::move(vocab);
  model["merges"] = std::move(merges);
  json::object tokenizer;
  tokenizer["model"] = std::move(model);
  return json::value(std::move(tokenizer));
}

TokenizerClass class_named(std::string_view name) {
  if (name == "LlamaTokenizer") return TokenizerClass::kLlama;
  if (name == "Qwen2Tokenizer") return TokenizerClass::kQwen2;
  if (name == "GPT2Tokenizer") return TokenizerClass::kGpt2;
  return TokenizerClass::kBackend;
}

// As AutoTokenizer chooses: the families' own classes count where the files name none, and Qwen2's always.
TokenizerClass choose_class(const TokenizerFiles& files, bool is_byte_level) {
  std::string_view name = files.class_name;
  if (name.ends_with("Fast")) name.remove_suffix(4);
  const std::string& model = files.model_type;
  const bool is_qwen = model == "qwen2" || model == "qwen2_moe" || model == "qwen3" || model == "qwen3_moe";
  if (model == "qwen2" || (is_qwen && name.empty())) return TokenizerClass::kQwen2;
  if (model == "gpt2" && name.empty()) return TokenizerClass::kGpt2;
  if (model == "mistral" || model == "mixtral") return TokenizerClass::kBackend;
  const TokenizerClass chosen = class_named(name);
  // Llama's class is for SentencePiece vocabularies, and byte-level files that name it are read as they are.
  if (chosen == TokenizerClass::kLlama && is_byte_level) return TokenizerClass::kBackend;
  return chosen;
}

// Nothing but the class says what cuts a text into words.
Status check_vocabulary_class(const TokenizerFiles& files) {
  if (files.kind == TokenizerClass::kQwen2 || files.kind == TokenizerClass::kGpt2) return {};
  return invalid_argument(fmt::format(
      "tokenizer_config.json: key 'tokenizer_class': expected Qwen2Tokenizer or GPT2Tokenizer, as there is no "
      "tokenizer.json and only the class says how words are cut before vocab.json applies; found {}; add the model's "
      "tokenizer.json",
      files.class_name.empty() ? "none" : files.class_name));
}

}  // namespace

bool has_json_tokenizer(const std::string& folder) {
  return exists(folder + "/tokenizer.json") || (exists(folder + "/vocab.json") && exists(folder + "/merges.txt"));
}

bool has_tokenizer_files(const std::string& folder) {
  return has_json_tokenizer(folder) || has_other_tokenizer(folder);
}

Result<TokenizerFiles> read_tokenizer_files(const std::string& folder, bool with_vocabulary) {
  TokenizerFiles files;
  files.folder = folder;
  SLUICE_ASSIGN_OR_RETURN(files.config, read_object(folder, "tokenizer_config.json"));
  SLUICE_ASSIGN_OR_RETURN(files.special_tokens_map, read_object(folder, "special_tokens_map.json"));
  SLUICE_ASSIGN_OR_RETURN(const json::object model, read_object(folder, "config.json"));
  files.model_type = text_of(model, "model_type");
  files.class_name = text_of(files.config, "tokenizer_class");
  if (files.class_name.empty()) files.class_name = text_of(model, "tokenizer_class");
  std::string text;
  const bool has_tokenizer = exists(folder + "/tokenizer.json");
  // A name can mean several classes; of these only Llama's depends on the vocabulary's kind.
  if (has_tokenizer && (with_vocabulary || files.class_name.starts_with("LlamaTokenizer"))) {
    SLUICE_ASSIGN_OR_RETURN(text, read_text_file(folder + "/tokenizer.json"));
  }
  files.kind = choose_class(files, text.find("\"ByteLevel\"") != std::string::npos);
  if (!with_vocabulary) return files;
  SLUICE_ASSIGN_OR_RETURN(files.added_tokens, read_object(folder, "added_tokens.json"));
  files.is_converted = !has_tokenizer;
  if (has_tokenizer) {
    SLUICE_ASSIGN_OR_RETURN(files.tokenizer, parse_json(text, "tokenizer.json"));
  } else {
    if (!has_json_tokenizer(folder)) return not_found("expected a tokenizer.json, found none");
    SLUICE_RETURN_IF_ERROR(check_vocabulary_class(files));
    SLUICE_ASSIGN_OR_RETURN(files.tokenizer, read_vocabulary(folder));
  }
  return files;
}

}  // namespace sluice
