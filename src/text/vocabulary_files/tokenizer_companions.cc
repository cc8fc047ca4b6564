// Used by cli, text/chat/templates, text/tokenizer and text/vocabulary_files.
#include "text/vocabulary_files/tokenizer_companions.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <charconv>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "files/json.h"
#include "text/bpe/bpe_vocabulary.h"
#include "text/tokenizer/added_vocabulary.h"
#include "text/tokenizer/special_tokens.h"
#include "text/vocabulary_files/gguf_tokenizer.h"

namespace sluice {
namespace {

namespace json = boost::json;

using TokensById = std::map<std::int32_t, AddedToken>;

bool flag(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

// Returns the tokens that tokenizer.json itself adds, in its order.
Result<std::vector<AddedToken>> own_tokens(const json::object& tokenizer) {
  std::vector<AddedToken> tokens;
  const json::value* list = tokenizer.if_contains("added_tokens");
  if (list == nullptr || !list->is_array()) return tokens;  // the parser of tokenizer.json reports any other value
  for (std::size_t i = 0; i < list->get_array().size(); ++i) {
    const json::value& item = list->get_array()[i];
    const std::string what = fmt::format("tokenizer.json: key 'added_tokens'[{}]", i);
    SLUICE_ASSIGN_OR_RETURN(AddedToken token, read_token(item, what, /*special=*/false));
    const json::value* id = item.is_object() ? item.get_object().if_contains("id") : nullptr;
    if (id == nullptr || !id->is_int64() || id->get_int64() < 0 || id->get_int64() > kMaxTokenId) {
      return invalid_argument(fmt::format("{}: key 'id': expected an integer from 0 to {}, found {}", what, kMaxTokenId,
                                          describe_json(id)));
    }
    token.id = static_cast<std::int32_t>(id->get_int64());
    if (token.content.empty()) {
      return invalid_argument(what + ": key 'content': expected a text that is not empty, found \"\"");
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// added_tokens_decoder: {"463": {"content": "<tool>", ...}}.
Status read_decoder(const json::value& value, TokensById& out) {
  const std::string what = "tokenizer_config.json: key 'added_tokens_decoder'";
  if (!value.is_object()) {
    return invalid_argument(what + ": expected an object of tokens by their ids, found " + describe_json(&value));
  }
  for (const auto& [key, item] : value.get_object()) {
    const std::string_view text(key.data(), key.size());
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc() || end != text.data() + text.size() || id < 0 || id > kMaxTokenId) {
      return invalid_argument(fmt::format("{}: expected ids from 0 to {}, found \"{}\"", what, kMaxTokenId, text));
    }
    SLUICE_ASSIGN_OR_RETURN(out[id], read_token(item, fmt::format("{}: key '{}'", what, text), /*special=*/false));
  }
  return {};
}

// added_tokens.json: {"<tool>": 463}. A token is special if a name or list of tokenizer_config.json has it.
Status read_added_file(const TokenizerFiles& files, const SpecialTokens& special, TokensById& out) {
  for (const auto& [key, value] : files.added_tokens) {
    if (!value.is_int64() || value.get_int64() < 0 || value.get_int64() > kMaxTokenId) {
      return invalid_argument(fmt::format("added_tokens.json: key '{}': expected an id from 0 to {}, found {}",
                                          std::string_view(key.data(), key.size()), kMaxTokenId,
                                          describe_json(&value)));
    }
    AddedToken token{.content = std::string(key.data(), key.size())};
    bool is_special = false;
    for (const NamedToken& one : special.named) is_special |= !one.by_class && one.token.content == token.content;
    const bool has_own_list =
        files.config.contains("additional_special_tokens") || files.config.contains("extra_special_tokens");
    if (has_own_list || files.special_tokens_map.contains("extra_special_tokens")) {
      for (const NamedToken& one : special.extra) is_special |= one.token.content == token.content;
    }
    token.special = is_special;
    token.normalized = !is_special;
    out[static_cast<std::int32_t>(value.get_int64())] = std::move(token);
  }
  return {};
}

// Returns the tokens of added_tokens_decoder. Without that key: those of added_tokens.json, overridden by `own` at the
// same id.
Result<TokensById> companion_tokens(const TokenizerFiles& files, const SpecialTokens& special,
                                    const std::vector<AddedToken>& own) {
  TokensById tokens;
  if (const json::value* decoder = files.config.if_contains("added_tokens_decoder")) {
    SLUICE_RETURN_IF_ERROR(read_decoder(*decoder, tokens));
    return tokens;
  }
  SLUICE_RETURN_IF_ERROR(read_added_file(files, special, tokens));
  for (const AddedToken& token : own) tokens[token.id] = token;
  return tokens;
}

// Adds the token that tokenizer.json pads with, if no file and no class names one.
void add_padding(const TokenizerFiles& files, SpecialTokens& special) {
  const bool reads_map = !files.config.contains("added_tokens_decoder");
  const bool is_set = files.kind == TokenizerClass::kQwen2 || files.kind == TokenizerClass::kGpt2 ||
                      files.config.contains("pad_token") ||
                      (reads_map && files.special_tokens_map.contains("pad_token"));
  const json::object* tokenizer = files.tokenizer.if_object();
  const json::value* padding = tokenizer == nullptr ? nullptr : tokenizer->if_contains("padding");
  if (is_set || padding == nullptr || !padding->is_object()) return;
  const json::value* text = padding->get_object().if_contains("pad_token");
  if (text == nullptr || !text->is_string() || text->get_string().empty()) return;
  // The library's order of names: bos, eos, unk, sep, pad, and then the others.
  const auto place = std::ranges::find_if(special.named, [](const NamedToken& one) {
    return one.name != "bos_token" && one.name != "eos_token" && one.name != "unk_token" && one.name != "sep_token";
  });
  const AddedToken token{.content = std::string(text->get_string()), .special = true};
  special.named.insert(place, {.name = "pad_token", .token = token});
}

void add_all(const TokenizerFiles& files, const SpecialTokens& special, const TokensById& tokens,
             AddedVocabulary& vocabulary) {
  std::vector<AddedToken> batch;
  std::set<std::string> known, texts;
  for (const auto& [id, token] : tokens) {
    known.insert(token.content);
    if (!token.content.empty()) batch.push_back(token);
  }
  // A token given both as a string and as an object with flags is added twice; the second one's flags win.
  const auto add = [&](const NamedToken& one) {
    const std::string& text = one.token.content;
    if (known.contains(text) || vocabulary.contains(text) || (one.by_text && !texts.insert(text).second)) return;
    batch.push_back(one.token);
  };
  std::ranges::for_each(special.named, add);
  std::ranges::for_each(special.extra, add);
  for (AddedToken& token : batch) {
    token.special |= special.has_name_of(token.content);
    vocabulary.add(token);
  }
  if (files.kind != TokenizerClass::kQwen2) return;
  // Qwen2's class adds its special tokens once more, without their flags.
  for (const NamedToken& one : special.named) vocabulary.add({.content = one.token.content, .special = true});
  for (const NamedToken& one : special.extra) vocabulary.add({.content = one.token.content, .special = true});
}

void warn_of_ids(const std::vector<AddedToken>& own, const AddedVocabulary& vocabulary, const std::string& folder) {
  for (const AddedToken& token : own) {
    const std::int32_t id = vocabulary.id_of(token.content);
    if (id == token.id) continue;
    log_warning(
        "{}: tokenizer.json gives the added token \"{}\" the id {}; it gets {}, as the library numbers added "
        "tokens one after the other",
        folder, token.content, token.id, id);
    return;
  }
}

// Applies the cuts that the class itself makes in texts, whatever tokenizer.json says.
void apply_class(const TokenizerFiles& files, json::object& tokenizer) {
  const bool prefix = flag(files.config, "add_prefix_space");
  if (files.kind == TokenizerClass::kQwen2) {
    tokenizer["normalizer"] = {{"type", "NFC"}};
    tokenizer["pre_tokenizer"] = find_gguf_pretokenizer("qwen2")->pre_tokenizer();
    // Step 0 of the sequence splits by the pattern; step 1 is ByteLevel.
    tokenizer["pre_tokenizer"].as_object()["pretokenizers"].as_array()[1].as_object()["add_prefix_space"] = prefix;
  } else if (files.kind == TokenizerClass::kGpt2) {
    tokenizer["normalizer"] = nullptr;
    tokenizer["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"use_regex", true}};
  } else {
    return;
  }
  tokenizer["decoder"] = {{"type", "ByteLevel"}};
  json::object& model = tokenizer["model"].as_object();
  for (const char* key : {"ignore_merges", "unk_token", "fuse_unk", "byte_fallback", "dropout"}) model.erase(key);
}

// Returns the settings that add BOS and EOS. Mostly tokenizer.json's post-processor adds them. DeepSeek's adds no BOS,
// but names Llama's class, which adds BOS by its flag.
json::object text_ends(const TokenizerFiles& files, const SpecialTokens& special) {
  json::object config;
  for (const NamedToken& one : special.named) {
    if (one.name == "bos_token" || one.name == "eos_token") config[one.name] = one.token.content;
  }
  const bool counts = files.is_converted || files.class_name.starts_with("LlamaTokenizer");
  for (const char* key : {"add_bos_token", "add_eos_token"}) {
    if (counts && flag(files.config, key)) config[key] = true;
  }
  return config;
}

}  // namespace

Result<MergedTokenizer> merge_tokenizer_files(TokenizerFiles files) {
  SLUICE_ASSIGN_OR_RETURN(SpecialTokens special, read_special_tokens(files));
  add_padding(files, special);
  MergedTokenizer out;
  out.config = text_ends(files, special);
  json::object* tokenizer = files.tokenizer.if_object();
  json::value* model = tokenizer == nullptr ? nullptr : tokenizer->if_contains("model");
  const json::value* vocab =
      model != nullptr && model->is_object() ? model->get_object().if_contains("vocab") : nullptr;
  if (vocab == nullptr || !vocab->is_object()) {  // the parser reports what is wrong, or it is no BPE
    out.tokenizer = std::move(files.tokenizer);
    return out;
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<AddedToken> own, own_tokens(*tokenizer));
  SLUICE_ASSIGN_OR_RETURN(const TokensById tokens, companion_tokens(files, special, own));
  AddedVocabulary added(vocab->get_object());
  // Qwen2's and GPT-2's classes rebuild their vocabulary without the tokens that tokenizer.json adds.
  if (files.kind == TokenizerClass::kBackend) {
    for (const AddedToken& token : own) added.add(token);
  }
  add_all(files, special, tokens, added);
  if (files.kind == TokenizerClass::kBackend) warn_of_ids(own, added, files.folder);
  const json::value* list = tokenizer->if_contains("added_tokens");
  const bool is_wrong = list != nullptr && !list->is_array() && !list->is_null();  // the parser reports this
  if (!is_wrong) (*tokenizer)["added_tokens"] = added.to_json();
  apply_class(files, *tokenizer);
  out.tokenizer = std::move(files.tokenizer);
  return out;
}

}  // namespace sluice
