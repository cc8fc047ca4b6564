// LineReader: lines of standard input, without losing a Ctrl-C while it waits (catch_interrupts() came before).
#pragma once

#include <string>

namespace sluice {

class LineReader {
 public:
  enum class Event { kLine, kEnd, kInterrupt };
  // The next line without its end goes to `line`; a last line without one counts.
  Event next(std::string& line);

 private:
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace sluice
