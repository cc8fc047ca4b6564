// GenerationStream: turns the engine's tokens into the text of an answer.
//
//   token -> detokeniser (whole characters) -> the chat encoding's parser -> stop strings -> deltas
//
// The end token gives no text. Stop strings are searched in content and in reasoning separately. Markup and the names
// and arguments of calls are not searched, so that no stop string cuts a call. Thread safety: belongs to one choice of
// one request.
// Used by cli, cli/commands, serve/api/openai and serve/generate.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/engine.h"
#include "text/chat/chat.h"
#include "text/stop_strings.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice {

struct GenerationDelta {
  std::vector<ChatDelta> text;       // without a parser: kContent only
  std::vector<TokenLogprob> chosen;  // the generated tokens of this step, when log-probabilities were asked for
  std::vector<std::vector<TokenLogprob>> top;             // for each of `chosen`
  std::vector<std::int32_t> token_ids;                    // the generated tokens of this step
  std::shared_ptr<const PromptLogprobs> prompt_logprobs;  // in the choice's first delta, if asked for
  std::shared_ptr<const std::string> weights_version;     // the version of the model that computed the step
  std::shared_ptr<const ExportedRows> exported;           // the exported rows, if asked for
  bool finished = false;
  std::string_view finish_reason;          // "stop", "length" or "tool_calls", when finished and not failed
  std::string stop_string;                 // the stop string that ended the answer, or ""
  std::optional<std::int32_t> stop_token;  // the end token or stop token that ended the answer
  Status failure;                          // why the answer failed, when finished
};

// The parts of an answer that are shown in its text.
struct ShownText {
  bool special_tokens = false;
  bool stop_string = false;                 // the stop string that ended the answer
  std::optional<AnswerMarkup> markup = {};  // special tokens still passed to the parser; nullopt: all
};

class GenerationStream {
 public:
  // `parser` null: raw text. The tokenizer must outlive the stream.
  GenerationStream(const Tokenizer& tokenizer, const std::vector<std::string>& stop, bool logprobs,
                   std::unique_ptr<ChatOutputParser> parser, ShownText shown = {});

  // After a finished delta all further ones are empty. A stop string finishes the answer before the engine does; the
  // caller then cancels the request.
  GenerationDelta push(const Output& output);

  int completion_tokens() const { return completion_tokens_; }
  int reasoning_tokens() const { return reasoning_tokens_; }
  int cached_tokens() const { return cached_tokens_; }

 private:
  void pass_on(std::string_view text, GenerationDelta& out);
  void deliver(std::vector<ChatDelta> deltas, GenerationDelta& out);
  void deliver_held(GenerationDelta& out);
  void finish(FinishReason reason, GenerationDelta& out);
  void count_reasoning(const std::vector<ChatDelta>& text);
  bool hides(std::int32_t token) const;

  const Tokenizer& tokenizer_;
  std::optional<AnswerMarkup> markup_;  // all other special tokens are hidden from the parser
  StreamingDetokenizer detokenizer_;
  StopMatcher stop_;
  ChatDelta::Kind text_kind_ = ChatDelta::Kind::kContent;  // the kind of the text that stop_ has seen last
  std::unique_ptr<ChatOutputParser> parser_;
  bool logprobs_;
  bool finished_ = false;
  int completion_tokens_ = 0, reasoning_tokens_ = 0, cached_tokens_ = 0;
  int unattributed_tokens_ = 0;  // tokens since the last text that was passed on
};

}  // namespace sluice
