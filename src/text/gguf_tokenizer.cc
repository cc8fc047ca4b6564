#include "text/gguf_tokenizer.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <vector>

#include "files/gguf_fields.h"
#include "files/json.h"

namespace sluice {
namespace {

namespace json = boost::json;

// Of tokenizer.ggml.token_type; every other is a token like any other.
constexpr std::int64_t kControl = 3, kUserDefined = 4;

// The strings of an array; null, with a failure, if the key holds something else.
const std::vector<std::string_view>* read_strings(GgufFields& fields, std::string_view key) {
  const GgufValue* value = fields.find(key);
  const auto* array = value == nullptr ? nullptr : std::get_if<GgufArray>(value);
  if (array == nullptr || array->type != GgufType::kString) {
    fields.fail(key, "an array of strings");
    return nullptr;
  }
  return &array->strings;
}

// Control tokens (special) and user-defined ones are found in the text as they are written; the others make up the
// vocabulary of bytes.
Status write_tokens(const GgufModel& model, GgufFields& fields, const std::vector<std::string_view>& tokens,
                    json::object& vocabulary, json::array& added) {
  std::vector<std::int64_t> types(tokens.size(), 1);
  fields.read("token_type", types, INT32_MIN, INT32_MAX);
  if (types.size() != tokens.size()) {
    fields.fail("token_type", fmt::format("an array of {} types, one a token", tokens.size()));
  }
  SLUICE_RETURN_IF_ERROR(fields.status());
  vocabulary.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::int64_t>(i);
    if (types[i] == kControl || types[i] == kUserDefined) {
      added.push_back({{"id", id}, {"content", tokens[i]}, {"special", types[i] == kControl}, {"normalized", false}});
    } else if (const auto [place, is_new] = vocabulary.emplace(tokens[i], id); !is_new) {
      const json::value text(tokens[i]);
      return invalid_argument(
          fmt::format("{}: key 'tokenizer.ggml.tokens': expected tokens that differ, found {} at {} "
                      "and {}",
                      model.path(), describe_json(&text), place->value().as_int64(), id));
    }
  }
  return {};
}

json::array to_json(const std::vector<std::string_view>& texts) {
  json::array array;
  array.reserve(texts.size());
  for (const std::string_view text : texts) array.emplace_back(text);
  return array;
}

// The text of the token whose id the key holds.
void write_token(GgufFields& fields, std::string_view key, const std::vector<std::string_view>& tokens,
                 std::string_view official, json::object& config) {
  std::int64_t id = -1;
  fields.read(key, id, 0, static_cast<std::int64_t>(tokens.size()) - 1);
  if (id >= 0) config[official] = tokens[static_cast<std::size_t>(id)];
}

// "tokenizer.chat_template" and "tokenizer.chat_template.NAME".
Status write_templates(const GgufModel& model, json::object& config) {
  constexpr std::string_view kDefault = "tokenizer.chat_template", kNamed = "tokenizer.chat_template.";
  json::array list;
  for (const auto& [key, value] : model.metadata()) {
    if (key != kDefault && !key.starts_with(kNamed)) continue;
    const auto* text = std::get_if<std::string_view>(&value);
    if (text == nullptr) {
      return invalid_argument(
          fmt::format("{}: key '{}': expected a string, found {}", model.path(), key, describe_gguf(&value)));
    }
    list.push_back({{"name", key == kDefault ? "default" : key.substr(kNamed.size())}, {"template", *text}});
  }
  if (!list.empty()) config["chat_template"] = std::move(list);
  return {};
}

// What both files are made of.
struct Source {
  const GgufModel& model;
  GgufFields fields;
  bool is_sentencepiece = false;
  const GgufPretokenizer* pre = nullptr;
  const std::vector<std::string_view>* tokens = nullptr;

  explicit Source(const GgufModel& from) : model(from), fields(from, "tokenizer.ggml.") {}
  Status read() {
    std::string kind, pre_name;
    fields.require("model", kind);
    is_sentencepiece = kind == "llama";
    if (fields.status().ok() && kind != "gpt2" && !is_sentencepiece) {
      fields.fail("model", "one of the supported gpt2 (byte-level BPE), llama (SentencePiece's BPE)");
    }
    if (is_sentencepiece) {
      static constexpr GgufPretokenizer kNone = {.name = "", .pre_tokenizer = nullptr, .add_bos = true};
      pre = &kNone;
      tokens = read_strings(fields, "tokens");
      return fields.status();
    }
    fields.require("pre", pre_name);
    pre = find_gguf_pretokenizer(pre_name);
    if (pre == nullptr) fields.fail("pre", fmt::format("a supported pre-tokenizer ({})", gguf_pretokenizer_names()));
    tokens = read_strings(fields, "tokens");
    return fields.status();
  }
};

Result<json::value> write_config(Source& source) {
  GgufFields& fields = source.fields;
  json::object config;
  if (source.is_sentencepiece) {  // what llama.cpp takes where the keys are not there
    for (const auto& [key, id] : {std::pair("bos_token", 1U), std::pair("eos_token", 2U)}) {
      const bool named = fields.find(std::string(key) + "_id") != nullptr;
      if (!named && id < source.tokens->size()) config[key] = (*source.tokens)[id];
    }
  }
  write_token(fields, "bos_token_id", *source.tokens, "bos_token", config);
  write_token(fields, "eos_token_id", *source.tokens, "eos_token", config);
  write_token(fields, "unknown_token_id", *source.tokens, "unk_token", config);
  write_token(fields, "padding_token_id", *source.tokens, "pad_token", config);
  bool add_bos = source.pre->add_bos, add_eos = false, add_space = false;
  fields.read("add_bos_token", add_bos);
  fields.read("add_eos_token", add_eos);
  fields.read("add_space_prefix", add_space);
  if (add_space && !source.is_sentencepiece) fields.fail("add_space_prefix", "false");
  if (add_bos && !config.contains("bos_token")) fields.fail("bos_token_id", "the token that begins a text");
  if (add_eos && !config.contains("eos_token")) fields.fail("eos_token_id", "the token that ends a text");
  config["add_bos_token"] = add_bos;
  config["add_eos_token"] = add_eos;
  SLUICE_RETURN_IF_ERROR(fields.status());
  SLUICE_RETURN_IF_ERROR(write_templates(source.model, config));
  return json::value(std::move(config));
}

}  // namespace

Result<json::value> gguf_tokenizer_config(const GgufModel& model) {
  Source source(model);
  SLUICE_RETURN_IF_ERROR(source.read());
  return write_config(source);
}

Result<GgufTokenizerJson> gguf_tokenizer_json(const GgufModel& model) {
  Source source(model);
  SLUICE_RETURN_IF_ERROR(source.read());
  if (source.is_sentencepiece) {
    GgufTokenizerJson out;
    SLUICE_ASSIGN_OR_RETURN(out.config, write_config(source));
    SLUICE_ASSIGN_OR_RETURN(out.tokenizer, gguf_sentencepiece_json(model));
    return out;
  }
  const auto* merges = read_strings(source.fields, "merges");
  SLUICE_RETURN_IF_ERROR(source.fields.status());
  GgufTokenizerJson out;
  SLUICE_ASSIGN_OR_RETURN(out.config, write_config(source));
  json::object vocabulary;
  json::array added;
  SLUICE_RETURN_IF_ERROR(write_tokens(model, source.fields, *source.tokens, vocabulary, added));
  json::object bpe{{"type", "BPE"}, {"ignore_merges", source.pre->ignore_merges}};
  bpe["vocab"] = std::move(vocabulary);
  bpe["merges"] = to_json(*merges);
  json::object tokenizer{{"pre_tokenizer", source.pre->pre_tokenizer()}};
  if (source.pre->nfc) tokenizer["normalizer"] = {{"type", "NFC"}};
  tokenizer["added_tokens"] = std::move(added);
  tokenizer["model"] = std::move(bpe);
  out.tokenizer = std::move(tokenizer);
  return out;
}

}  // namespace sluice
