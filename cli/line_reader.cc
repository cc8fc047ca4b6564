#include "cli/line_reader.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "cli/interrupt.h"

namespace sluice {

LineReader::Event LineReader::next(std::string& line) {
  while (true) {
    if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return Event::kLine;
    }
    if (ended_) {
      if (buffer_.empty()) return Event::kEnd;
      line = std::move(buffer_);
      buffer_.clear();
      return Event::kLine;
    }
    std::array<char, 4096> bytes;
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (take_interrupt()) return Event::kInterrupt;
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      ended_ = true;
    } else {
      buffer_.append(bytes.data(), static_cast<std::size_t>(count));
    }
  }
}

}  // namespace sluice
