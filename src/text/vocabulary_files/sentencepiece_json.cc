// The tokenizer.json of a SentencePiece vocabulary.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cctype>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "base/utf8.h"
#include "files/json_fields.h"
#include "text/vocabulary_files/sentencepiece_file.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr std::string_view kSpace = "▁";

// Longer pieces would make a vocabulary's reading quadratic; SentencePiece's own limit is 16 characters by default.
constexpr std::size_t kMaxMergedBytes = 1024;

using Ids = std::unordered_map<std::string_view, std::int32_t>;

struct Merge {
  std::string_view left, right;
  std::int32_t left_id, right_id, id;  // ids of the parts and of the whole
};

// Every way to make a token of `ids` from two of them.
Result<std::vector<Merge>> all_merges(const std::vector<SentencePiece>& pieces, const Ids& ids) {
  std::vector<Merge> merges;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view text = pieces[i].text;
    const auto known = ids.find(text);
    if (known == ids.end() || known->second != static_cast<std::int32_t>(i)) continue;
    if (text.size() > kMaxMergedBytes) {
      return invalid_argument(fmt::format("token {} of the vocabulary: expected at most {} bytes, found {}", i,
                                          kMaxMergedBytes, text.size()));
    }
    for (std::size_t at = decode_utf8(text).length; at < text.size(); at += decode_utf8(text.substr(at)).length) {
      const auto left = ids.find(text.substr(0, at));
      const auto right = left == ids.end() ? ids.end() : ids.find(text.substr(at));
      if (right == ids.end()) continue;
      merges.push_back({left->first, right->first, left->second, right->second, known->second});
    }
  }
  return merges;
}

json::array to_json(const std::vector<Merge>& merges) {
  json::array out;
  out.reserve(merges.size());
  for (const Merge& merge : merges) out.push_back(json::array{merge.left, merge.right});
  return out;
}

std::int64_t characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; });
}

json::object bpe_model(const std::vector<SentencePiece>& pieces) {
  json::object vocab;
  vocab.reserve(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) vocab.emplace(pieces[i].text, static_cast<std::int64_t>(i));
  return {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"byte_fallback", true}, {"fuse_unk", true}};
}

json::object added_token(std::int64_t id, std::string_view text, bool special) {
  return {{"id", id}, {"content", text}, {"special", special}, {"normalized", false}};
}

json::value metaspace(std::string_view scheme) {
  return {{"type", "Metaspace"}, {"replacement", kSpace}, {"prepend_scheme", scheme}, {"split", false}};
}

json::value replace(std::string_view kind, std::string_view pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

json::value sequence(std::string_view key, json::array parts) {
  return {{"type", "Sequence"}, {key, std::move(parts)}};
}

// Makes of the file what class LlamaTokenizer makes of it: tokens merge in the order of their ids, and spaces stay as
// they are.
Result<json::value> llama_tokenizer(const SentencePieceFile& file, const json::object& config) {
  bool legacy = false, adds_space = true;
  const json::value value(config);
  JsonFields fields(value, "tokenizer_config.json");
  fields.read("legacy", legacy);
  fields.read("add_prefix_space", adds_space);
  SLUICE_RETURN_IF_ERROR(fields.status());
  Ids ids;
  json::array added;
  for (std::size_t i = 0; i < file.pieces.size(); ++i) {
    const SentencePiece& piece = file.pieces[i];
    if (!ids.emplace(piece.text, static_cast<std::int32_t>(i)).second) continue;
    if (piece.type == PieceType::kUnknown || piece.type == PieceType::kControl ||
        piece.type == PieceType::kUserDefined) {
      added.push_back(added_token(static_cast<std::int64_t>(i), piece.text, piece.type != PieceType::kUserDefined));
    }
  }
  SLUICE_ASSIGN_OR_RETURN(std::vector<Merge> merges, all_merges(file.pieces, ids));
  std::ranges::sort(merges, {}, [](const Merge& merge) {
    return std::tuple(merge.id, characters(merge.left), characters(merge.right));
  });
  json::object model = bpe_model(file.pieces);
  model["merges"] = to_json(merges);
  return json::value{{"added_tokens", std::move(added)},
                     {"pre_tokenizer", metaspace(!adds_space ? "never"
                                                 : legacy    ? "always"
                                                             : "first")},
                     {"decoder", sentencepiece_decoder(true, adds_space)},
                     {"model", std::move(model)}};
}

// A pattern of the user-defined pieces, the longest first; empty if there are none.
std::string user_defined_pattern(const std::vector<SentencePiece>& pieces) {
  std::vector<std::string_view> texts;
  for (const SentencePiece& piece : pieces) {
    if (piece.type == PieceType::kUserDefined) texts.push_back(piece.text);
  }
  std::ranges::stable_sort(texts, std::greater<>(), characters);
  std::string pattern;
  for (const std::string_view text : texts) {
    if (!pattern.empty()) pattern += '|';
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x80 && std::isalnum(byte) == 0 && c != '_' && std::isprint(byte) != 0) pattern += '\\';
      pattern += c;
    }
  }
  return pattern;
}

json::array normalizers_of(const SentencePieceFile& file, bool legacy) {
  json::array out;
  if (file.remove_extra_whitespaces) {
    out.push_back(replace("Regex", R"(\A +| +\z)", ""));
    out.push_back(replace("Regex", " {2,}", " "));
  }
  if (file.escape_whitespaces) out.push_back(replace("String", " ", kSpace));
  if (file.add_dummy_prefix && legacy) out.push_back(replace("Regex", R"(\A▁)", "▁▁"));
  return out;
}

// Makes of the file what every other class, and SentencePiece itself, makes of it.
Result<json::value> other_tokenizer(const SentencePieceFile& file, const json::object& config) {
  if (file.has_character_map) {
    return invalid_argument(
        "tokenizer.model: normalizer_spec.precompiled_charsmap: expected none, as only the identity is supported, "
        "found "
        "a map; convert the tokenizer with transformers' save_pretrained, or name LlamaTokenizer as tokenizer_class, "
        "which ignores it");
  }
  bool legacy = true;
  const json::value value(config);
  JsonFields fields(value, "tokenizer_config.json");
  fields.read("legacy", legacy);
  SLUICE_RETURN_IF_ERROR(fields.status());
  Ids normal;
  json::array added;
  for (std::size_t i = 0; i < file.pieces.size(); ++i) {
    const SentencePiece& piece = file.pieces[i];
    const auto id = static_cast<std::int32_t>(i);
    if (piece.type == PieceType::kNormal) normal.emplace(piece.text, id);
    if (id == file.unk_id || id == file.bos_id || id == file.eos_id) added.push_back(added_token(id, piece.text, true));
  }
  SLUICE_ASSIGN_OR_RETURN(std::vector<Merge> merges, all_merges(file.pieces, normal));
  std::ranges::sort(merges, {}, [&](const Merge& merge) {
    return std::tuple(-file.pieces[static_cast<std::size_t>(merge.id)].score, merge.id, merge.left, merge.right);
  });
  const std::string user_defined = user_defined_pattern(file.pieces);
  json::object model = bpe_model(file.pieces);
  model["merges"] = to_json(merges);
  model["byte_fallback"] = file.byte_fallback;
  model["ignore_merges"] = !user_defined.empty();
  model["unk_token"] = file.unk_piece;
  json::array splits;
  if (file.add_dummy_prefix) splits.push_back(metaspace(legacy ? "always" : "first"));
  if (!user_defined.empty()) {
    splits.push_back({{"type", "Split"}, {"pattern", {{"Regex", user_defined}}}, {"behavior", "Isolated"}});
  }
  return json::value{{"added_tokens", std::move(added)},
                     {"normalizer", sequence("normalizers", normalizers_of(file, legacy))},
                     {"pre_tokenizer", sequence("pretokenizers", std::move(splits))},
                     {"decoder", sentencepiece_decoder(file.byte_fallback, file.add_dummy_prefix)},
                     {"model", std::move(model)}};
}

}  // namespace

json::value sentencepiece_decoder(bool byte_fallback, bool strips) {
  json::array parts{replace("String", kSpace, " ")};
  if (byte_fallback) parts.push_back(json::object{{"type", "ByteFallback"}});
  parts.push_back(json::object{{"type", "Fuse"}});
  if (strips) parts.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return sequence("decoders", std::move(parts));
}

Result<json::object> scored_bpe_model(const std::vector<SentencePiece>& pieces, std::int64_t unknown) {
  Ids ids;
  std::vector<float> scores;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    // Text never becomes a token that marks structure, whatever its characters merge to.
    if (pieces[i].type != PieceType::kNormal && pieces[i].type != PieceType::kUnused) continue;
    ids.emplace(pieces[i].text, static_cast<std::int32_t>(i));
    scores.push_back(pieces[i].score);
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Merge> merges, all_merges(pieces, ids));
  std::ranges::sort(scores, std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  json::array ranks;
  ranks.reserve(merges.size());
  for (const Merge& merge : merges) {
    const float score = pieces[static_cast<std::size_t>(merge.id)].score;
    ranks.emplace_back(std::ranges::lower_bound(scores, score, std::greater<>()) - scores.begin());
  }
  json::object model = bpe_model(pieces);
  model["merges"] = to_json(merges);
  model["merge_ranks"] = std::move(ranks);
  if (unknown >= 0 && unknown < static_cast<std::int64_t>(pieces.size())) {
    model["unk_token"] = pieces[static_cast<std::size_t>(unknown)].text;
  }
  return model;
}

Result<json::value> sentencepiece_tokenizer_json(const SentencePieceFile& file, json::object& config) {
  const auto name = [&](std::string_view key, std::int32_t id, const std::string& text) {
    const bool exists = id >= 0 && static_cast<std::size_t>(id) < file.pieces.size();
    if (exists && !config.contains(key)) config[key] = text;
  };
  name("bos_token", file.bos_id, file.bos_piece);
  name("eos_token", file.eos_id, file.eos_piece);
  const json::value* type = config.if_contains("tokenizer_class");
  const bool is_llama =
      type != nullptr && type->is_string() && std::string_view(type->get_string()).starts_with("LlamaTokenizer");
  return is_llama ? llama_tokenizer(file, config) : other_tokenizer(file, config);
}

}  // namespace sluice
