// tokenizer.model: a vocabulary as SentencePiece writes it, a protocol buffer (sentencepiece_model.proto).
//
// It is turned into the tokenizer.json that `transformers` makes of it, so that it is checked and read like one.
// Thread safety: pure functions.
// Used by gguf_sentencepiece.cc, sentencepiece_json.cc and tokenizer_files.cc.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice {

enum class PieceType : std::int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

struct SentencePieceFile {
  std::vector<SentencePiece> pieces;  // by id
  std::int32_t model_type = 1;        // 1 is unigram, 2 BPE
  bool byte_fallback = false;
  std::int32_t unk_id = 0, bos_id = 1, eos_id = 2;
  std::string unk_piece = "<unk>", bos_piece = "<s>", eos_piece = "</s>";
  bool has_character_map = false;  // normalization that is no identity
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
};

// `bytes` is the whole file.
Result<SentencePieceFile> parse_sentencepiece(std::string_view bytes);

// The tokenizer.json for the tokenizer_config.json `config`; names that `config` lacks (bos_token) are added to it.
// LlamaTokenizer ignores what the file says of normalization, every other class follows it.
Result<boost::json::value> sentencepiece_tokenizer_json(const SentencePieceFile& file, boost::json::object& config);

// The "model" of a tokenizer.json of pieces that merge by their scores, the leftmost first of equals, as SentencePiece
// and llama.cpp do it; `unknown` is an id, or none.
Result<boost::json::object> scored_bpe_model(const std::vector<SentencePiece>& pieces, std::int64_t unknown);

// The decoder of Llama's tokenizer.json; with `strips` it takes a space from the text's start.
boost::json::value sentencepiece_decoder(bool byte_fallback, bool strips);

}  // namespace sluice
