// The "logprobs" of a choice of /v1/completions: four parallel lists, in which tokens are named by their text.
//
// A token that is a piece of a character has no text of its own. It is written as its bytes, "bytes:\xf0\x9f", in both
// lists, so that top_logprobs[i][tokens[i]] is token_logprobs[i] for every token. text_offset counts the characters of
// the choice's text before a token, and for a piece those before its character. Tokens that the text does not show take
// no room in it. Thread safety: belongs to one choice.
// Used by completion_answer.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/openai/openai_response.h"

namespace sluice {

// Counts the characters of a text that comes as bytes of tokens; invalid bytes count as the U+FFFD that replace them.
class CharacterCount {
 public:
  // The characters before these bytes, which follow on those of the last call.
  std::size_t before(std::string_view bytes);
  // The text ends here: bytes of an unfinished character are replaced.
  void end();

 private:
  std::size_t count_ = 0;
  std::string pending_;  // an unfinished character
};

class CompletionLogprobs {
 public:
  void add(const GenerationDelta& delta, const AnswerForm& form);
  // Adds the log-probabilities of a prompt whose text is echoed; tokens that have none say null.
  void add_prompt(std::string_view text, const std::vector<std::int32_t>& prompt, const PromptLogprobs& logprobs,
                  const AnswerForm& form);

  bool empty() const { return tokens_.empty(); }
  // {"tokens":[...],"token_logprobs":[...],"top_logprobs":[...],"text_offset":[...]} of what was added since the last
  // call.
  std::string take();

 private:
  void add(std::int32_t token, std::string_view shown, const float* logprob, const std::vector<TokenLogprob>& top,
           const AnswerForm& form);
  void add_top(const TokenLogprob& chosen, const std::vector<TokenLogprob>& top, const AnswerForm& form);

  std::string tokens_, token_logprobs_, top_logprobs_, text_offset_;
  CharacterCount characters_;
};

}  // namespace sluice
