// Used by tokenizer.cc, tokenizer_bpe_parser.cc and tokenizer_template.cc.
#include "text/tokenizer/tokenizer_parser.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/log.h"
#include "files/json.h"
#include "files/json_fields.h"
#include "text/bpe/bpe_vocabulary.h"

namespace sluice {
namespace {

constexpr std::string_view kFile = "tokenizer.json";
constexpr std::string_view kConfigFile = "tokenizer_config.json";

Result<std::vector<AddedToken>> parse_added_tokens(JsonFields& root) {
  std::vector<AddedToken> tokens;
  const boost::json::value* list = root.find("added_tokens");
  if (list == nullptr) return tokens;
  if (!list->is_array()) {
    root.fail("added_tokens", "an array of added tokens");
    return root.status();
  }
  for (std::size_t i = 0; i < list->get_array().size(); ++i) {
    JsonFields fields(list->get_array()[i], fmt::format("{}: key 'added_tokens'[{}]", kFile, i));
    AddedToken token;
    fields.require("id", token.id, 0, kMaxTokenId);
    fields.require("content", token.content);
    fields.read("special", token.special);
    token.normalized = !token.special;  // the default of the format
    fields.read("normalized", token.normalized);
    fields.read("single_word", token.single_word);
    fields.read("lstrip", token.lstrip);
    fields.read("rstrip", token.rstrip);
    if (fields.status().ok() && token.content.empty()) fields.fail("content", "a text that is not empty");
    SLUICE_RETURN_IF_ERROR(fields.status());
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// The id that the base vocabulary gives a text, else kNoToken.
std::int32_t find_base_token(std::string_view text, const TokenizerParts& parts) {
  if (!parts.pretokenizer->byte_level()) return parts.vocabulary->find(text);
  std::string bytes;
  return append_alphabet_bytes(text, bytes) ? parts.vocabulary->find(bytes) : kNoToken;
}

// Enters the added tokens into the tables; those that the base vocabulary lacks become tokens of it.
Status register_added_tokens(const std::unordered_map<std::string_view, std::int32_t>& literal_ids,
                             TokenizerParts& parts) {
  NormalizerScratch scratch;
  for (std::size_t i = 0; i < parts.added_tokens.size(); ++i) {
    const AddedToken& token = parts.added_tokens[i];
    const auto clash = [&](std::string_view found) {
      return invalid_argument(
          fmt::format("{}: key 'added_tokens'[{}] (\"{}\", id {}): expected an id and a text that "
                      "agree with the other tokens, found {}",
                      kFile, i, token.content, token.id, found));
    };
    if (!parts.added_by_id.emplace(token.id, i).second) return clash("another added token with this id");
    if (!parts.added_by_content.emplace(token.content, i).second) return clash("another added token with this text");
    std::int32_t base_id = find_base_token(token.content, parts);
    if (const auto found = literal_ids.find(token.content); base_id == kNoToken && found != literal_ids.end()) {
      base_id = found->second;
    }
    if (base_id != kNoToken && base_id != token.id)
      return clash(fmt::format("the text in 'model.vocab' as {}", base_id));
    if (base_id == kNoToken && parts.vocabulary->has_id(token.id)) return clash("the id taken in 'model.vocab'");
    if (token.normalized) {
      SLUICE_ASSIGN_OR_RETURN(const std::string_view pattern, parts.normalizer.apply(token.content, scratch));
      if (!pattern.empty()) parts.normalized_tokens.add(pattern, token);
      if (pattern != token.content) parts.added_texts.emplace(token.id, pattern);
    } else {
      parts.raw_tokens.add(token.content, token);
    }
  }
  // Added tokens come last, so that none is taken for one of the base vocabulary.
  for (const AddedToken& token : parts.added_tokens) {
    if (!parts.vocabulary->has_id(token.id)) parts.vocabulary->add(token.id, token.content, false);
  }
  return {};
}

// The key "spare_tokens", which only a GGUF file's tokens have (gguf_tokenizer.h): ids with a text and no way to them.
Status register_spare_tokens(JsonFields& root, BpeVocabulary& vocabulary) {
  const boost::json::value* list = root.find("spare_tokens");
  if (list == nullptr || !list->is_array()) return {};
  std::string bytes;
  for (const boost::json::value& item : list->get_array()) {
    JsonFields fields(item, std::string(kFile) + ": key 'spare_tokens'");
    std::int32_t id = 0;
    std::string content;
    fields.require("id", id, 0, kMaxTokenId);
    fields.require("content", content);
    if (fields.status().ok() && vocabulary.has_id(id)) fields.fail("id", "an id of its own");
    SLUICE_RETURN_IF_ERROR(fields.status());
    bytes.clear();
    vocabulary.add(id, append_alphabet_bytes(content, bytes) ? bytes : content, /*findable=*/false);
  }
  return {};
}

// Finds by way of the decoder what the tokens of a vocabulary of characters stand for.
Status spell_tokens(TokenizerParts& parts) {
  if (parts.pretokenizer->byte_level()) return {};
  const BpeVocabulary& tokens = *parts.vocabulary;
  parts.spellings = std::make_unique<BpeVocabulary>();
  RegexScratch scratch;
  std::string text;
  std::vector<std::int32_t> bytes;  // tokens of bytes, which are found only where no other is
  const auto spell = [&](std::int32_t id, bool first) -> Status {
    text.clear();
    const auto added = parts.added_texts.find(id);
    const std::string_view token =
        added != parts.added_texts.end() ? std::string_view(added->second) : tokens.bytes(id);
    return parts.decoder.append_token(token, first, scratch, text);
  };
  for (std::int32_t id = 0; id < tokens.size(); ++id) {
    if (!tokens.has_id(id)) continue;
    SLUICE_RETURN_IF_ERROR(spell(id, false));
    const bool is_byte = text.size() == 1 && tokens.bytes(id).size() > 1;
    if (is_byte) {
      bytes.push_back(id);
    } else {
      parts.spellings->add(id, text, !parts.added_by_id.contains(id));
    }
    if (!parts.decoder.first_differs()) continue;
    SLUICE_RETURN_IF_ERROR(spell(id, true));
    if (is_byte || text != parts.spellings->bytes(id)) parts.first_spellings.emplace(id, text);
  }
  for (const std::int32_t id : bytes) {
    SLUICE_RETURN_IF_ERROR(spell(id, false));
    parts.spellings->add(id, text, true);
  }
  return {};
}

// The id of a token that tokenizer_config.json names by its text, or by an object with the key "content".
Status read_named_token(JsonFields& config, std::string_view key, const TokenizerParts& parts,
                        std::optional<std::int32_t>& id) {
  const boost::json::value* value = config.find(key);
  if (value == nullptr) return {};
  std::string text;
  if (value->is_object()) {
    JsonFields fields = config.child(key);
    fields.require("content", text);
    SLUICE_RETURN_IF_ERROR(fields.status());
  } else {
    config.read(key, text);
    SLUICE_RETURN_IF_ERROR(config.status());
  }
  if (const auto added = parts.added_by_content.find(text); added != parts.added_by_content.end()) {
    id = parts.added_tokens[added->second].id;
    return {};
  }
  if (const std::int32_t found = find_base_token(text, parts); found != kNoToken) {
    id = found;
    return {};
  }
  log_warning("{}: key '{}': no token has the text {}; there is none then", kConfigFile, key, describe_json(value));
  return {};
}

Status read_config(const boost::json::value& value, TokenizerParts& parts) {
  JsonFields config(value, std::string(kConfigFile));
  SLUICE_RETURN_IF_ERROR(config.status());
  bool add_bos = false;
  bool add_eos = false;
  config.read("add_bos_token", add_bos);
  config.read("add_eos_token", add_eos);
  SLUICE_RETURN_IF_ERROR(config.status());
  SLUICE_RETURN_IF_ERROR(read_named_token(config, "bos_token", parts, parts.bos));
  SLUICE_RETURN_IF_ERROR(read_named_token(config, "eos_token", parts, parts.eos));
  // A template in tokenizer.json already says it all.
  const bool has_template = !parts.prefix.empty() || !parts.suffix.empty();
  if (add_bos && parts.bos && !has_template) parts.prefix.push_back(*parts.bos);
  if (add_eos && parts.eos && !has_template) parts.suffix.push_back(*parts.eos);
  return {};
}

}  // namespace

Result<TokenizerParts> parse_tokenizer(std::string_view text, std::string_view config_text) {
  SLUICE_ASSIGN_OR_RETURN(const boost::json::value value, parse_json(text, kFile));
  if (config_text.empty()) return parse_tokenizer(value, nullptr);
  SLUICE_ASSIGN_OR_RETURN(const boost::json::value config, parse_json(config_text, kConfigFile));
  return parse_tokenizer(value, &config);
}

Result<TokenizerParts> parse_tokenizer(const boost::json::value& value, const boost::json::value* config) {
  JsonFields root(value, std::string(kFile));
  SLUICE_RETURN_IF_ERROR(root.status());
  TokenizerParts parts;
  const boost::json::value null;
  const auto value_of = [&](std::string_view key) -> const boost::json::value& {
    const boost::json::value* found = root.find(key);
    return found != nullptr ? *found : null;
  };
  SLUICE_ASSIGN_OR_RETURN(parts.normalizer, TokenizerNormalizer::from_json(value_of("normalizer"),
                                                                           fmt::format("{}: key 'normalizer'", kFile)));
  SLUICE_ASSIGN_OR_RETURN(parts.pretokenizer, Pretokenizer::from_json(value_of("pre_tokenizer"),
                                                                      fmt::format("{}: key 'pre_tokenizer'", kFile)));
  const bool byte_level = parts.pretokenizer->byte_level();
  SLUICE_ASSIGN_OR_RETURN(
      parts.decoder, TokenDecoder::from_json(value_of("decoder"), byte_level, fmt::format("{}: key 'decoder'", kFile)));
  SLUICE_ASSIGN_OR_RETURN(BpeParts model,
                          parse_bpe_model(value_of("model"), byte_level, fmt::format("{}: key 'model'", kFile)));
  parts.vocabulary = std::move(model.vocabulary);
  parts.bpe = std::move(model.bpe);
  SLUICE_ASSIGN_OR_RETURN(parts.added_tokens, parse_added_tokens(root));
  SLUICE_RETURN_IF_ERROR(register_added_tokens(model.literal_ids, parts));
  SLUICE_RETURN_IF_ERROR(register_spare_tokens(root, *parts.vocabulary));
  SLUICE_RETURN_IF_ERROR(spell_tokens(parts));
  const auto is_token = [&](std::int32_t id) { return parts.vocabulary->has_id(id); };
  SLUICE_RETURN_IF_ERROR(parse_post_processor(value_of("post_processor"),
                                              fmt::format("{}: key 'post_processor'", kFile), is_token, parts.prefix,
                                              parts.suffix));
  if (config != nullptr) SLUICE_RETURN_IF_ERROR(read_config(*config, parts));
  return parts;
}

}  // namespace sluice
