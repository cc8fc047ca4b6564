#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "files/json.h"
#include "files/json_fields.h"
#include "text/bpe_vocabulary.h"
#include "text/tokenizer_parser.h"

namespace sluice {
namespace {

// Options that change what BPE does in ways that byte-level vocabularies never use.
Status check_options(JsonFields& fields) {
  std::string type = "BPE";  // files of before the key have no other kind
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
  bool byte_fallback = false;
  fields.read("byte_fallback", byte_fallback);
  if (fields.status().ok() && byte_fallback) fields.fail("byte_fallback", "false, as bytes are tokens already");
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
  if (text.empty() || has_every_byte(*parts.vocabulary)) return kNoToken;
  if (id == kNoToken) fields.fail("unk_token", "null or a token of 'vocab', as there some bytes have no token");
  if (fused) fields.fail("fuse_unk", "false, as in 'vocab' some bytes have no token");
  return id;
}

Status read_vocabulary(JsonFields& fields, const std::string& what, BpeParts& parts) {
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

Status read_merges(const boost::json::array& merges, const std::string& what, BpeParts& parts) {
  std::string bytes;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto failure = [&](std::string_view expected) {
      return invalid_argument(
          fmt::format("{}: key 'merges'[{}]: expected {}, found {}", what, i, expected, describe_json(&merges[i])));
    };
    std::string_view left, right;
    if (!merge_sides(merges[i], left, right)) return failure("two tokens, as \"a b\" or [\"a\", \"b\"]");
    bytes.clear();
    const bool left_in_alphabet = append_alphabet_bytes(left, bytes);
    const std::size_t left_size = bytes.size();
    const bool right_in_alphabet = append_alphabet_bytes(right, bytes);
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
    parts.bpe->add_merge(left_id, right_id, joined_id);
  }
  return {};
}

}  // namespace

Result<BpeParts> parse_bpe_model(const boost::json::value& value, const std::string& what) {
  JsonFields fields(value, what);
  SLUICE_RETURN_IF_ERROR(fields.status());
  SLUICE_RETURN_IF_ERROR(check_options(fields));
  bool ignore_merges = false;
  fields.read("ignore_merges", ignore_merges);
  SLUICE_RETURN_IF_ERROR(fields.status());
  const boost::json::value* merges = fields.find("merges");
  if (merges == nullptr || !merges->is_array()) {
    fields.fail("merges", "an array of pairs of tokens");
    return fields.status();
  }
  BpeParts parts;
  SLUICE_RETURN_IF_ERROR(read_vocabulary(fields, what, parts));
  SLUICE_RETURN_IF_ERROR(check_byte_tokens(*parts.vocabulary, what));
  const std::int32_t unknown = read_unknown(fields, parts);
  SLUICE_RETURN_IF_ERROR(fields.status());
  parts.bpe = Bpe::create(*parts.vocabulary, ignore_merges, merges->get_array().size(), unknown);
  SLUICE_RETURN_IF_ERROR(read_merges(merges->get_array(), what, parts));
  return parts;
}

}  // namespace sluice
