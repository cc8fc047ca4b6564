// AnswerPrinter: shows an answer while it is generated.
//
// The answer goes to stdout. Its reasoning comes before it, dimmed, if stdout is a terminal; otherwise it goes to
// stderr, so that a pipe gets the answer alone. Tool calls read "[tool call] name {arguments}".
#pragma once

#include <string>

#include "text/chat/chat.h"

namespace sluice {

class AnswerPrinter {
 public:
  AnswerPrinter();  // looks at stdout

  void print(const ChatDelta& delta);
  // Ends the line, and the dimming.
  void finish();

  // All that was printed, for the next turn.
  const std::string& content() const { return content_; }
  const std::string& reasoning() const { return reasoning_; }

 private:
  enum class Part { kNone, kReasoning, kAnswer };
  void begin(Part part);

  bool terminal_;
  Part part_ = Part::kNone;
  std::string content_, reasoning_;
};

}  // namespace sluice
