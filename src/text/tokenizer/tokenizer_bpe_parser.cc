#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <limits>
#include <span>

#include "files/json.h"
#include "files/json_fields.h"
#include "text/bpe/bpe_vocabulary.h"
#include "text/tokenizer/tokenizer_parser.h"

namespace sluice {
namespace {

// Options that change what BPE does in ways that byte-level vocabularies never use.
Status check_options(JsonFields& fields) {
  std::string type = "BPE";  // files without the key are all BPE
  fields.read("type", type);
  if (fields.status().ok() && type != "BPE") fields.fail("type", "the only supported BPE");
  double dropout = 0;
  fields.read("dropout", dropout, 0.0, 1.0);
  if (fields.status().ok() && dropout != 0) fields.fail("dropout", "null or 0");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    std::string affix;
    fields.read(key, affix);
    if (fields.status().ok() && !affix.empty()) fields.fail(key, "null or \"\"");
  }
  return fields.status();
}

// Bytes that text has all the time must be tokens; else this is no byte-level vocabulary.
Status check_byte_tokens(const BpeVocabulary& vocabulary, const std::string& what) {
  for (char byte = ' '; byte <= '~'; ++byte) {
    if (vocabulary.find(std::string_view(&byte, 1)) != kNoToken) continue;
    return invalid_argument(
        fmt::format("{}: key 'vocab': expected a byte-level vocabulary with a token for every printable byte, found "
                    "none for byte 0x{:02X} (\"{}\")",
                    what, static_cast<unsigned>(byte), alphabet_character(static_cast<unsigned char>(byte))));
  }
  return {};
}

// The id of "unk_token", else kNoToken. It counts only where the vocabulary lacks the token of a byte.
std::int32_t read_unknown(JsonFields& fields, const BpeParts& parts) {
  std::string text, bytes;
  bool fused = false;
  fields.read("unk_token", text);
  fields.read("fuse_unk", fused);
  std::int32_t id = kNoToken;
  if (append_alphabet_bytes(text, bytes)) {
    id = parts.vocabulary->find(bytes);
  } else if (const auto literal = parts.literal_ids.find(text); literal != parts.literal_ids.end()) {
    id = literal->second;
  }
  bool byte_fallback = false;
  fields.read("byte_fallback", byte_fallback);
  if (has_every_byte(*parts.vocabulary)) return kNoToken;
  if (byte_fallback) fields.fail("byte_fallback", "false, as in 'vocab' some bytes have no token");
  if (text.empty()) return kNoToken;
  if (id == kNoToken) fields.fail("unk_token", "null or a token of 'vocab', as there some bytes have no token");
  if (fused) fields.fail("fuse_unk", "false, as in 'vocab' some bytes have no token");
  return id;
}

// Reads what becomes of characters that are no tokens.
BpeCharacters::Options read_fallbacks(JsonFields& fields, const BpeParts& parts) {
  BpeCharacters::Options options;
  std::string text;
  fields.read("unk_token", text);
  fields.read("fuse_unk", options.fuse_unknown);
  fields.read("byte_fallback", options.byte_fallback);
  if (text.empty()) return options;
  options.unknown = parts.vocabulary->find(text);
  if (options.unknown == kNoToken) fields.fail("unk_token", "null or a token of 'vocab'");
  return options;
}

Status read_vocabulary(JsonFields& fields, bool byte_level, const std::string& what, BpeParts& parts) {
  const boost::json::value* value = fields.find("vocab");
  if (value == nullptr || !value->is_object()) {
    fields.fail("vocab", "an object that gives each token its id");
    return fields.status();
  }
  const boost::json::object& vocab = value->get_object();
  parts.vocabulary = std::make_unique<BpeVocabulary>();
  parts.vocabulary->reserve(vocab.size(), 8 * vocab.size());
  std::string bytes;
  for (const auto& [key, id_value] : vocab) {
    const std::string_view token(key.data(), key.size());
    const std::int64_t* id = id_value.if_int64();
    if (id == nullptr || *id < 0 || *id > kMaxTokenId) {
      return invalid_argument(fmt::format("{}: key 'vocab': token \"{}\": expected an id from 0 to {}, found {}", what,
                                          token, kMaxTokenId, describe_json(&id_value)));
    }
    const auto narrow_id = static_cast<std::int32_t>(*id);
    if (parts.vocabulary->has_id(narrow_id)) {
      return invalid_argument(
          fmt::format("{}: key 'vocab': token \"{}\": expected an id of its own, found {}, which "
                      "another token has",
                      what, token, narrow_id));
    }
    bytes.clear();
    if (!byte_level) {
      parts.vocabulary->add(narrow_id, token, true);
      continue;
    }
    const bool in_alphabet = append_alphabet_bytes(token, bytes);
    parts.vocabulary->add(narrow_id, in_alphabet ? std::string_view(bytes) : token, in_alphabet);
    if (!in_alphabet) parts.literal_ids.emplace(token, narrow_id);
  }
  return {};
}

// The two sides of a merge: "a b", or ["a", "b"].
bool merge_sides(const boost::json::value& value, std::string_view& left, std::string_view& right) {
  if (value.is_string()) {
    const std::string_view text = value.get_string();
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) return false;
    left = text.substr(0, space);
    right = text.substr(space + 1);
  } else {
    if (!value.is_array() || value.get_array().size() != 2) return false;
    const boost::json::array& pair = value.get_array();
    if (!pair[0].is_string() || !pair[1].is_string()) return false;
    left = pair[0].get_string();
    right = pair[1].get_string();
  }
  return !left.empty() && !right.empty();
}

// Appends the bytes of a token as the vocabulary has them; false if it can be no byte-level token.
bool append_bytes(std::string_view token, bool byte_level, std::string& bytes) {
  if (byte_level) return append_alphabet_bytes(token, bytes);
  bytes += token;
  return true;
}

Status read_merges(const boost::json::array& merges, std::span<const std::int32_t> ranks, bool byte_level,
                   const std::string& what, BpeParts& parts) {
  std::string bytes;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto failure = [&](std::string_view expected) {
      return invalid_argument(
          fmt::format("{}: key 'merges'[{}]: expected {}, found {}", what, i, expected, describe_json(&merges[i])));
    };
    std::string_view left, right;
    if (!merge_sides(merges[i], left, right)) return failure("two tokens, as \"a b\" or [\"a\", \"b\"]");
    bytes.clear();
    const bool left_in_alphabet = append_bytes(left, byte_level, bytes);
    const std::size_t left_size = bytes.size();
    const bool right_in_alphabet = append_bytes(right, byte_level, bytes);
    if (!left_in_alphabet || !right_in_alphabet) {
      // Such a rule can never apply, but what it names must be there all the same.
      const bool known = parts.literal_ids.contains(std::string(left) + std::string(right));
      if (!known) return failure("tokens that are in 'vocab', alone and joined");
      continue;
    }
    const std::string_view joined = bytes;
    const std::int32_t left_id = parts.vocabulary->find(joined.substr(0, left_size));
    const std::int32_t right_id = parts.vocabulary->find(joined.substr(left_size));
    const std::int32_t joined_id = parts.vocabulary->find(joined);
    if (left_id == kNoToken || right_id == kNoToken || joined_id == kNoToken) {
      return failure("tokens that are in 'vocab', alone and joined");
    }
    if (ranks.empty()) {
      parts.bpe->add_merge(left_id, right_id, joined_id);
    } else {
      parts.bpe->add_merge(left_id, right_id, joined_id, static_cast<std::uint32_t>(ranks[i]));
    }
  }
  return {};
}

}  // namespace

Result<BpeParts> parse_bpe_model(const boost::json::value& value, bool byte_level, const std::string& what) {
  JsonFields fields(value, what);
  SLUICE_RETURN_IF_ERROR(fields.status());
  SLUICE_RETURN_IF_ERROR(check_options(fields));
  bool ignore_merges = false;
  std::vector<std::int32_t> ranks;
  fields.read("ignore_merges", ignore_merges);
  fields.read("merge_ranks", ranks, 0, std::numeric_limits<std::int32_t>::max());
  SLUICE_RETURN_IF_ERROR(fields.status());
  const boost::json::value* merges = fields.find("merges");
  if (merges == nullptr || !merges->is_array()) {
    fields.fail("merges", "an array of pairs of tokens");
    return fields.status();
  }
  const std::size_t merge_count = merges->get_array().size();
  if (!ranks.empty() && ranks.size() != merge_count) {
    fields.fail("merge_ranks", fmt::format("an array of {} ranks, one a merge", merge_count));
    return fields.status();
  }
  BpeParts parts;
  SLUICE_RETURN_IF_ERROR(read_vocabulary(fields, byte_level, what, parts));
  if (byte_level) {
    SLUICE_RETURN_IF_ERROR(check_byte_tokens(*parts.vocabulary, what));
    const std::int32_t unknown = read_unknown(fields, parts);
    SLUICE_RETURN_IF_ERROR(fields.status());
    parts.bpe = Bpe::create(*parts.vocabulary, ignore_merges, merge_count, unknown);
  } else {
    const BpeCharacters::Options fallbacks = read_fallbacks(fields, parts);
    SLUICE_RETURN_IF_ERROR(fields.status());
    parts.bpe = Bpe::create(*parts.vocabulary, ignore_merges, merge_count, BpeCharacters(*parts.vocabulary, fallbacks));
  }
  SLUICE_RETURN_IF_ERROR(read_merges(merges->get_array(), ranks, byte_level, what, parts));
  return parts;
}

}  // namespace sluice
