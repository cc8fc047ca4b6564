// FillInMiddle: prompts that ask for the text between a beginning and an end, for tokenizers that have special tokens
// for it:
//
//   BOS <｜fim▁begin｜> beginning <｜fim▁hole｜> end <｜fim▁end｜>      DeepSeek
//   <|fim_prefix|> beginning <|fim_suffix|> end <|fim_middle|>      Qwen, and with <fim_...> StarCoder
//
// Special tokens in a client's texts are plain text. Thread safety: const after it is made.
// Used by serve/generate/answer_planners.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sluice/status.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice {

class FillInMiddle {
 public:
  // None for a tokenizer without such tokens. It must outlive the object.
  static std::optional<FillInMiddle> of(const Tokenizer& tokenizer);

  Result<std::vector<std::int32_t>> encode(std::string_view beginning, std::string_view end) const;

 private:
  const Tokenizer* tokenizer_ = nullptr;
  std::int32_t begin_ = 0, hole_ = 0, end_ = 0;
};

}  // namespace sluice
