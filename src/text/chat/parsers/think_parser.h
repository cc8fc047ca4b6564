// Splits reasoning from an answer while it streams, and leaves the rest to another parser.
//
//   <think>
//   {reasoning}
//   </think>
//
//   {answer}
//
// Reasoning is only looked for at the start of an answer, or is open from the prompt on; then another <think> at the
// start is dropped. Newlines next to the tags are not part of the reasoning or the answer. Text without </think> is
// reasoning to its end, calls included: a model that is still thinking calls nothing.
// Thread safety: belongs to one answer.
// Used by chat_parsers.cc.
#pragma once

#include <memory>
#include <string>

#include "text/chat/chat.h"
#include "text/chat/parsers/delta_sink.h"

namespace sluice {

class ThinkOutputParser final : public ChatOutputParser {
 public:
  ThinkOutputParser(bool starts_open, std::unique_ptr<ChatOutputParser> answer)
      : state_(starts_open ? State::kOpened : State::kStart), answer_(std::move(answer)) {}

  std::vector<ChatDelta> push(std::string_view text) override;
  std::vector<ChatDelta> finish(AnswerEnd end) override;
  bool had_tool_calls() const override { return answer_->had_tool_calls(); }

 private:
  enum class State {
    kStart,   // reasoning may begin
    kOpened,  // before the first text of the reasoning
    kReasoning,
    kClosed,  // before the first text of the answer
    kAnswer,
    kDone,
  };

  bool step();
  bool step_start();
  bool step_opened();
  bool step_reasoning();
  bool step_closed();

  State state_;
  std::unique_ptr<ChatOutputParser> answer_;
  DeltaSink sink_;
  std::string pending_;
  std::size_t blanks_ = 0;    // kStart: the white space that pending_ is known to begin with
  std::size_t newlines_ = 0;  // kReasoning: held back before pending_, as they may come before the closing tag
};

}  // namespace sluice
