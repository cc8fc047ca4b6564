// Used by tokenizer_files.cc.
#include "text/vocabulary_files/tiktoken_file.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <charconv>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "files/json_fields.h"
#include "text/bpe/bpe_vocabulary.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr std::string_view kTiktokenFile = "tiktoken.model";

// The words of Kimi-K2 and Moonlight.
constexpr std::string_view kKimiPattern = R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
                                          R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
                                          R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
                                          R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
                                          R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// The number of special tokens that follow the vocabulary, whether they have a name or not.
constexpr std::int64_t kKimiSpecialTokens = 256 + 2;

// A token that is longer could make reading quadratic; those of Kimi have 128 bytes at most.
constexpr std::size_t kMaxTokenBytes = 1024;

std::optional<std::string> decode_base64(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  if (text.size() % 4 != 0) return std::nullopt;
  while (text.ends_with('=')) text.remove_suffix(1);
  static constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (const char c : text) {
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<char>(bits >> count & 0xFFU));
  }
  return out;
}

struct Token {
  std::string bytes;
  std::int32_t rank = 0;
};

Status read_line(std::string_view line, std::size_t number, std::vector<Token>& tokens) {
  const auto failure = [&](std::string_view expected) {
    return invalid_argument(
        fmt::format("{}: line {}: expected {}, found \"{}\"", kTiktokenFile, number, expected, line.substr(0, 60)));
  };
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return failure("a token in base64, a space and its rank");
  std::optional<std::string> bytes = decode_base64(line.substr(0, space));
  if (!bytes || bytes->empty() || bytes->size() > kMaxTokenBytes) {
    return failure(fmt::format("a token of 1 to {} bytes in base64", kMaxTokenBytes));
  }
  const std::string_view digits = line.substr(space + 1);
  std::int32_t rank = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (error != std::errc() || end != digits.data() + digits.size() || rank < 0 || rank > kMaxTokenId) {
    return failure(fmt::format("a rank from 0 to {}", kMaxTokenId));
  }
  tokens.push_back({std::move(*bytes), rank});
  return {};
}

Result<std::vector<Token>> read_lines(std::string_view text) {
  std::vector<Token> tokens;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) SLUICE_RETURN_IF_ERROR(read_line(line, number, tokens));
  }
  return tokens;
}

std::string spell(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += alphabet_character(static_cast<unsigned char>(c));
  return out;
}

// Tokens merge by the rank of what they make, the leftmost first.
Result<json::object> bpe_model(const std::vector<Token>& tokens) {
  std::unordered_map<std::string_view, std::int32_t> ranks;
  json::object vocab;
  vocab.reserve(tokens.size());
  for (const Token& token : tokens) {
    if (!ranks.emplace(token.bytes, token.rank).second) {
      return invalid_argument(
          fmt::format("{}: expected tokens that differ, found one twice, at rank {}", kTiktokenFile, token.rank));
    }
    vocab.emplace(spell(token.bytes), token.rank);
  }
  json::array merges, merge_ranks;
  for (const Token& token : tokens) {
    const std::string_view bytes = token.bytes;
    for (std::size_t at = 1; at < bytes.size(); ++at) {
      if (!ranks.contains(bytes.substr(0, at)) || !ranks.contains(bytes.substr(at))) continue;
      merges.emplace_back(spell(bytes.substr(0, at)) + " " + spell(bytes.substr(at)));
      merge_ranks.emplace_back(token.rank);
    }
  }
  return json::object{{"type", "BPE"},
                      {"vocab", std::move(vocab)},
                      {"merges", std::move(merges)},
                      {"merge_ranks", std::move(merge_ranks)},
                      {"ignore_merges", true}};
}

// The special tokens, whose names are in the config; the others are reserved.
Result<json::array> special_tokens(std::int64_t first, const json::object& config) {
  json::array added;
  const json::value value(config);
  JsonFields fields(value, "tokenizer_config.json");
  const bool named = fields.has("added_tokens_decoder");
  JsonFields names = named ? fields.child("added_tokens_decoder") : fields;
  SLUICE_RETURN_IF_ERROR(names.status());
  for (std::int64_t id = first; id < first + kKimiSpecialTokens; ++id) {
    std::string text = fmt::format("<|reserved_token_{}|>", id);
    bool special = true;
    if (const std::string key = std::to_string(id); named && names.has(key)) {
      JsonFields token = names.child(key);
      token.require("content", text);
      token.read("special", special);
      if (token.status().ok() && text.empty()) token.fail("content", "a text that is not empty");
      SLUICE_RETURN_IF_ERROR(token.status());
    }
    added.push_back(json::object{{"id", id}, {"content", text}, {"special", special}, {"normalized", false}});
  }
  return added;
}

}  // namespace

Result<json::value> tiktoken_tokenizer_json(std::string_view text, const json::object& config) {
  const json::value value(config);
  JsonFields fields(value, "tokenizer_config.json");
  std::string type;
  fields.read("tokenizer_class", type);
  if (fields.status().ok() && type != "TikTokenTokenizer") {
    fields.fail("tokenizer_class", "TikTokenTokenizer (Kimi's), the only class whose tiktoken.model is supported");
  }
  SLUICE_RETURN_IF_ERROR(fields.status());
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Token> tokens, read_lines(text));
  SLUICE_ASSIGN_OR_RETURN(json::object model, bpe_model(tokens));
  SLUICE_ASSIGN_OR_RETURN(json::array added, special_tokens(static_cast<std::int64_t>(tokens.size()), config));
  json::array splits;
  splits.push_back({{"type", "Split"}, {"pattern", {{"Regex", kKimiPattern}}}, {"behavior", "Isolated"}});
  splits.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  return json::value{{"added_tokens", std::move(added)},
                     {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", std::move(splits)}}},
                     {"decoder", {{"type", "ByteLevel"}}},
                     {"model", std::move(model)}};
}

}  // namespace sluice
