// AnswerPrinter: shows an answer while it is made.
//
// The answer goes to stdout. Its reasoning goes before it, dimmed, when stdout is a terminal, else to stderr, so that
// what a pipe gets is the answer alone. Tool calls read "[tool call] name {arguments}".
#pragma once

#include <string>

#include "text/chat.h"

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
