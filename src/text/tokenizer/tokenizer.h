// Tokenizer: text to token ids and back, by byte-pair encoding of bytes or of characters, as a Hugging Face
// tokenizer.json, a SentencePiece or tiktoken file, or the metadata of a GGUF file describe it
// (docs/models/deepseek_v4.md §14.1 for DeepSeek's). Encoding agrees with the `tokenizers` package id by id.
//
// A text is cut at its added tokens ("<think>"), the parts between are normalized, cut into words by the
// pre-tokenizer's regular expressions, and each word is encoded by merging pairs. Decoding gives back the exact bytes
// of each token; what a token alone stands for need not be valid UTF-8 (detokenizer.h makes text of a stream).
//
// Thread safety: a const Tokenizer may be used from any number of threads.
// Used by cli, serve and text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/marked_text.h"
#include "sluice/status.h"

namespace sluice {

class GgufModel;

struct EncodeOptions {
  // Adds what the tokenizer puts around a text by itself, such as BOS. A rendered chat already contains it.
  bool add_special_tokens = false;
  // Recognises special tokens in the text. Without it "<｜User｜>" is encoded as plain characters.
  // Added tokens that are not special ("<think>" in DeepSeek's) are recognised either way.
  bool parse_special = true;
};

struct EncodedText {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> places;
};

class Tokenizer {
 public:
  // Reads tokenizer.json in `folder`, or vocab.json and merges.txt, with its companion files (tokenizer_companions.h);
  // else tokenizer.model or tiktoken.model (tokenizer_files.h); or the metadata of the GGUF file that `folder` is.
  static Result<std::unique_ptr<Tokenizer>> load(const std::string& folder);
  // Reads the text of a tokenizer.json whose added tokens are all that there are, and of a tokenizer_config.json that
  // names BOS and EOS; an empty `config_text` stands for none.
  static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view text, std::string_view config_text = {});
  static Result<std::unique_ptr<Tokenizer>> from_gguf(const GgufModel& model);
  ~Tokenizer();

  // The ids of `text`. Invalid UTF-8 is refused with the offset of the first bad byte.
  Result<std::vector<std::int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;

  // The ids of a text of which a client wrote parts: a special token is not recognised if any of its bytes is the
  // client's. `places` are offsets in the text, ascending; EncodedText::places has, for each at which a special token
  // begins, the index of that token's id.
  Result<EncodedText> encode(const MarkedText& text, std::span<const std::size_t> places = {}) const;

  // The bytes of the tokens, one after the other; with `skip_special` without special tokens. Unknown ids are skipped.
  // They are a whole text: the space that a vocabulary of characters puts before it ("▁Hello") is taken away again.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;

  // The bytes of one token within a text (" Hello" of "▁Hello", one byte of "<0xE2>"), valid as long as the tokenizer;
  // empty for an unknown id.
  std::string_view token_bytes(std::int32_t id) const;

  // The id of an added token by its text, or of a token of the vocabulary by its bytes (" the", not "Ġthe").
  std::optional<std::int32_t> token_to_id(std::string_view text) const;

  // One more than the largest id. Ids may have gaps (has_token).
  std::int32_t vocab_size() const;
  bool has_token(std::int32_t id) const;
  // A token that marks structure and is no text, such as BOS or "<｜User｜>".
  bool is_special(std::int32_t id) const;

  // The begin and end tokens, as tokenizer_config.json names them.
  std::optional<std::int32_t> bos_id() const;
  std::optional<std::int32_t> eos_id() const;

 private:
  struct Scratch;
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  struct Search;
  Result<std::vector<std::int32_t>> encode(std::string_view text, EncodeOptions options, const Search& search) const;
  Status encode_part(std::string_view text, bool at_start, bool parse_special, Scratch& scratch,
                     std::vector<std::int32_t>& out) const;
  Status encode_words(std::string_view text, std::optional<std::size_t> inserted, Scratch& scratch,
                      std::vector<std::int32_t>& out) const;

  std::unique_ptr<State> state_;
};

}  // namespace sluice
