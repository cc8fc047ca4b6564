// The tokenizer of a GGUF file whose "tokenizer.ggml.model" is llama: SentencePiece's BPE, as llama.cpp reads it.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <cmath>
#include <vector>

#include "base/utf8.h"
#include "files/gguf/gguf_fields.h"
#include "text/bpe/bpe_vocabulary.h"
#include "text/vocabulary_files/gguf_tokenizer.h"
#include "text/vocabulary_files/sentencepiece_file.h"

namespace sluice {
namespace {

namespace json = boost::json;

Result<std::vector<SentencePiece>> read_pieces(const GgufModel& model, GgufFields& fields) {
  const GgufValue* tokens = fields.find("tokens");
  const auto* texts = tokens == nullptr ? nullptr : std::get_if<GgufArray>(tokens);
  if (texts == nullptr || texts->type != GgufType::kString) fields.fail("tokens", "an array of strings");
  SLUICE_RETURN_IF_ERROR(fields.status());
  const std::size_t count = texts->strings.size();
  std::vector<double> scores;
  std::vector<std::int64_t> types(count, 1);
  fields.read("scores", scores);
  fields.read("token_type", types, INT32_MIN, INT32_MAX);
  if (scores.size() != count) fields.fail("scores", fmt::format("an array of {} numbers, one a token", count));
  if (types.size() != count) fields.fail("token_type", fmt::format("an array of {} types, one a token", count));
  SLUICE_RETURN_IF_ERROR(fields.status());
  std::vector<SentencePiece> pieces(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view text = texts->strings[i];
    if (text.empty() || valid_utf8_prefix(text) != text.size()) {
      return invalid_argument(
          fmt::format("{}: key 'tokenizer.ggml.tokens': expected texts in UTF-8, found none at {}", model.path(), i));
    }
    if (std::isnan(scores[i])) fields.fail("scores", "an array of numbers");
    const bool known = types[i] >= 1 && types[i] <= 6;
    pieces[i] = {std::string(text), static_cast<float>(scores[i]),
                 known ? static_cast<PieceType>(types[i]) : PieceType::kNormal};
  }
  SLUICE_RETURN_IF_ERROR(fields.status());
  return pieces;
}

json::value replace_spaces() {
  return {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
}

}  // namespace

Result<json::value> gguf_sentencepiece_json(const GgufModel& model) {
  GgufFields fields(model, "tokenizer.ggml.");
  SLUICE_ASSIGN_OR_RETURN(const std::vector<SentencePiece> pieces, read_pieces(model, fields));
  bool adds_space = true;
  std::int64_t unknown = 0;
  fields.read("add_space_prefix", adds_space);
  fields.read("unknown_token_id", unknown, 0, UINT32_MAX);
  SLUICE_RETURN_IF_ERROR(fields.status());
  json::array added;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const PieceType type = pieces[i].type;
    if (type != PieceType::kUnknown && type != PieceType::kControl && type != PieceType::kUserDefined) continue;
    added.push_back({{"id", static_cast<std::int64_t>(i)},
                     {"content", pieces[i].text},
                     {"special", type != PieceType::kUserDefined},
                     {"normalized", false}});
  }
  json::array normalizers;
  if (adds_space) normalizers.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
  normalizers.push_back(replace_spaces());
  SLUICE_ASSIGN_OR_RETURN(json::object bpe, scored_bpe_model(pieces, unknown));
  return json::value{{"added_tokens", std::move(added)},
                     {"normalizer", {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}},
                     {"decoder", sentencepiece_decoder(true, adds_space)},
                     {"model", std::move(bpe)}};
}

}  // namespace sluice
