// Used by text/chat/templates, text/tokenizer and text/vocabulary_files.
#include "text/vocabulary_files/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <limits>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "files/gguf/gguf_fields.h"
#include "files/json.h"

namespace sluice {
namespace {

namespace json = boost::json;

// Values of tokenizer.ggml.token_type; tokens of every other type are plain ones.
constexpr std::int64_t kControl = 3, kUserDefined = 4, kUnused = 5;

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

// The id that a text becomes where several tokens have it: the last one's, but an unused one's only if all are unused.
using Winners = std::unordered_map<std::string_view, std::size_t>;

Winners find_winners(const std::vector<std::string_view>& tokens, const std::vector<std::int64_t>& types) {
  Winners winners;
  winners.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::size_t& winner = winners.try_emplace(tokens[i], i).first->second;
    if (types[i] != kUnused || types[winner] == kUnused) winner = i;
  }
  return winners;
}

// Control tokens (special) and user-defined ones are found in the text as they are written; the others make up the
// vocabulary of bytes. No text becomes a spare token, but the model may answer it.
Status write_tokens(const GgufModel& model, GgufFields& fields, const std::vector<std::string_view>& tokens,
                    json::object& vocabulary, json::array& added, json::array& spares) {
  std::vector<std::int64_t> types(tokens.size(), 1);
  fields.read("token_type", types, INT32_MIN, INT32_MAX);
  if (types.size() != tokens.size()) {
    fields.fail("token_type", fmt::format("an array of {} types, one a token", tokens.size()));
  }
  SLUICE_RETURN_IF_ERROR(fields.status());
  const Winners winners = find_winners(tokens, types);
  vocabulary.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::int64_t>(i);
    if (tokens[i].empty() || winners.at(tokens[i]) != i) {
      spares.push_back({{"id", id}, {"content", tokens[i]}});
    } else if (types[i] == kControl || types[i] == kUserDefined) {
      added.push_back({{"id", id}, {"content", tokens[i]}, {"special", types[i] == kControl}, {"normalized", false}});
    } else {
      vocabulary.emplace(tokens[i], id);
    }
  }
  if (!spares.empty()) {
    log_warning(
        "{}: key 'tokenizer.ggml.tokens': {} tokens have no text, or that of another token, as {}: no text "
        "becomes them",
        model.path(), spares.size(), describe_json(&spares.front()));
  }
  return {};
}

json::array to_json(const std::vector<std::string_view>& texts) {
  json::array array;
  array.reserve(texts.size());
  for (const std::string_view text : texts) array.emplace_back(text);
  return array;
}

// The text of the token whose id the key holds. An id that no token has, as some files write for none, names none.
void write_token(GgufFields& fields, std::string_view key, const std::vector<std::string_view>& tokens,
                 std::string_view official, bool warns, json::object& config) {
  std::int64_t id = -1;
  const bool is_given = fields.has(key);
  fields.read(key, id, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
  if (!is_given || !fields.status().ok()) return;
  if (id >= 0 && id < static_cast<std::int64_t>(tokens.size())) {
    config[official] = tokens[static_cast<std::size_t>(id)];
  } else if (warns) {
    log_warning("key 'tokenizer.ggml.{}': {} is the id of no token; the file has {}, so there is no {}", key, id,
                tokens.size(), official);
  }
}

// Tokens without rows cannot be read by the model, and rows without tokens have no text.
void compare_rows(const GgufModel& model, std::size_t tokens) {
  const TensorView* rows = model.find("token_embd.weight");
  if (rows == nullptr || rows->shape.size() != 2 || rows->shape[0] == static_cast<std::int64_t>(tokens)) return;
  log_warning("{}: key 'tokenizer.ggml.tokens' has {} tokens, and token_embd.weight rows for {}: {}", model.path(),
              tokens, rows->shape[0],
              static_cast<std::int64_t>(tokens) > rows->shape[0] ? "texts with the last tokens are refused"
                                                                 : "the last ids of answers have no text");
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

// The metadata that both files are made of.
struct Source {
  const GgufModel& model;
  GgufFields fields;
  bool is_sentencepiece = false;
  const GgufPretokenizer* pre = nullptr;
  const std::vector<std::string_view>* tokens = nullptr;
  bool warns;  // warns of odd values; both files are read at a start, and once is enough

  Source(const GgufModel& from, bool may_warn) : model(from), fields(from, "tokenizer.ggml."), warns(may_warn) {}
  Status read() {
    std::string kind, pre_name = "default";
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
    if (!fields.has("pre")) pre_name = guess_pretokenizer();
    fields.read("pre", pre_name);
    pre = find_gguf_pretokenizer(pre_name);
    if (pre == nullptr) fields.fail("pre", fmt::format("a supported pre-tokenizer ({})", gguf_pretokenizer_names()));
    tokens = read_strings(fields, "tokens");
    return fields.status();
  }

  // Files of before May 2024 name none. Where the architecture or the tokens tell, it is the family's.
  std::string guess_pretokenizer() const {
    const GgufValue* architecture = GgufFields(model, "general.").find("architecture");
    const auto* name = architecture == nullptr ? nullptr : std::get_if<std::string_view>(architecture);
    const auto has = [this](std::string_view text) {
      const GgufValue* value = fields.find("tokens");
      const auto* array = value == nullptr ? nullptr : std::get_if<GgufArray>(value);
      return array != nullptr && array->type == GgufType::kString &&
             std::ranges::find(array->strings, text) != array->strings.end();
    };
    std::string found = "default";
    if (name != nullptr && name->starts_with("qwen")) found = "qwen2";
    if (has("<|begin_of_text|>") && has("<|eot_id|>")) found = "llama-bpe";
    if (!warns) return found;
    log_warning("{}: no key 'tokenizer.ggml.pre' says how texts are cut into words; '{}' is taken{}", model.path(),
                found, found == "default" ? ", which may differ from how the model was trained" : "");
    return found;
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
  write_token(fields, "bos_token_id", *source.tokens, "bos_token", source.warns, config);
  write_token(fields, "eos_token_id", *source.tokens, "eos_token", source.warns, config);
  write_token(fields, "unknown_token_id", *source.tokens, "unk_token", source.warns, config);
  write_token(fields, "padding_token_id", *source.tokens, "pad_token", source.warns, config);
  bool add_bos = source.pre->add_bos, add_eos = false, add_space = false;
  fields.read("add_bos_token", add_bos);
  fields.read("add_eos_token", add_eos);
  fields.read("add_space_prefix", add_space);
  if (add_space && !source.is_sentencepiece) fields.fail("add_space_prefix", "false");
  add_bos = add_bos && config.contains("bos_token");
  add_eos = add_eos && config.contains("eos_token");
  config["add_bos_token"] = add_bos;
  config["add_eos_token"] = add_eos;
  SLUICE_RETURN_IF_ERROR(fields.status());
  SLUICE_RETURN_IF_ERROR(write_templates(source.model, config));
  return json::value(std::move(config));
}

}  // namespace

Result<json::value> gguf_tokenizer_config(const GgufModel& model) {
  Source source(model, /*may_warn=*/false);
  SLUICE_RETURN_IF_ERROR(source.read());
  return write_config(source);
}

Result<GgufTokenizerJson> gguf_tokenizer_json(const GgufModel& model) {
  Source source(model, /*may_warn=*/true);
  SLUICE_RETURN_IF_ERROR(source.read());
  if (source.is_sentencepiece) {
    GgufTokenizerJson out;
    SLUICE_ASSIGN_OR_RETURN(out.config, write_config(source));
    SLUICE_ASSIGN_OR_RETURN(out.tokenizer, gguf_sentencepiece_json(model));
    return out;
  }
  const std::vector<std::string_view> no_merges;
  const bool has_merges = source.fields.has("merges");
  if (!has_merges) log_warning("{}: no key 'tokenizer.ggml.merges': every byte is a token of its own", model.path());
  const auto* merges = has_merges ? read_strings(source.fields, "merges") : &no_merges;
  SLUICE_RETURN_IF_ERROR(source.fields.status());
  GgufTokenizerJson out;
  SLUICE_ASSIGN_OR_RETURN(out.config, write_config(source));
  json::object vocabulary;
  json::array added, spares;
  SLUICE_RETURN_IF_ERROR(write_tokens(model, source.fields, *source.tokens, vocabulary, added, spares));
  compare_rows(model, source.tokens->size());
  json::object bpe{{"type", "BPE"}, {"ignore_merges", source.pre->ignore_merges}};
  bpe["vocab"] = std::move(vocabulary);
  bpe["merges"] = to_json(*merges);
  json::object tokenizer{{"pre_tokenizer", source.pre->pre_tokenizer()}};
  if (source.pre->nfc) tokenizer["normalizer"] = {{"type", "NFC"}};
  tokenizer["added_tokens"] = std::move(added);
  if (!spares.empty()) tokenizer["spare_tokens"] = std::move(spares);
  tokenizer["model"] = std::move(bpe);
  out.tokenizer = std::move(tokenizer);
  return out;
}

}  // namespace sluice
