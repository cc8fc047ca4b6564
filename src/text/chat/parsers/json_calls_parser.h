// JsonCallsParser: the part of a parser that reads calls as JSON objects after a tag, whatever parts them. Families
// say what follows a call, and what an answer may begin with in place of the tag.
//
// An object that turns out to be no call is content, with the tag before it. Once a call has started, its arguments are
// completed to JSON wherever they break off. Thread safety: belongs to one answer.
// Used by hermes_parser.h and llama3_parser.h.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat.h"
#include "text/chat/parsers/delta_sink.h"
#include "text/chat/parsers/json_call.h"

namespace sluice {

class JsonCallsParser : public ChatOutputParser {
 public:
  std::vector<ChatDelta> push(std::string_view text) final;
  std::vector<ChatDelta> finish(AnswerEnd end) final;
  bool had_tool_calls() const final { return sink_.has_whole_calls(); }

 protected:
  enum class State { kStart, kContent, kCall, kAfterCall, kDone };

  // Up to `most_newlines` before a tag belong to it.
  JsonCallsParser(State start, std::string_view tag, std::size_t most_newlines, bool needs_arguments)
      : tag_(tag), most_newlines_(most_newlines), needs_arguments_(needs_arguments), state_(start) {}

  // Understands some of pending_; false: not before more has come.
  virtual bool step_start() { return false; }
  virtual bool step_after_call() = 0;
  // pending_ is all that is left after a call.
  virtual void finish_after_call(bool /*is_cut*/) {}

  // `opening`: what stands before it as markup, and is content if it is no call.
  void begin_call(std::string opening, bool is_tagged);
  void begin_content() { state_ = State::kContent; }

  DeltaSink sink_;
  std::string pending_;  // not yet understood; kCall: from its start until the call has started

 private:
  bool step();
  bool step_content();
  bool step_call();
  void finish_call(AnswerEnd end);

  const std::string_view tag_;
  const std::size_t most_newlines_;
  const bool needs_arguments_;
  State state_;
  // In the state kCall:
  std::optional<JsonCallReader> call_;
  std::size_t read_ = 0;  // the bytes of pending_ that the reader has
  std::string opening_;
  bool is_tagged_ = false;
};

}  // namespace sluice
