// EventReader: the data of server-sent events, from bytes as they come from the network, cut anywhere. Comments and
// fields other than "data" are skipped; the lines of one event are joined by "\n". Thread safety: one thread at a time.
// Used by answer_reader.h.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

class EventReader {
 public:
  static constexpr std::size_t kMostBytes = 64 << 20;  // bytes of one event

  // Takes the next bytes and calls `take(std::string_view data)` for every event that they complete. False, for good,
  // once an event is larger than kMostBytes.
  template <class Take>
  bool feed(std::string_view bytes, Take&& take) {
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t end = bytes.find('\n', at);
      line_.append(bytes.substr(at, end - at));
      if (line_.size() + data_.size() > kMostBytes) return false;
      if (end == std::string_view::npos) break;
      at = end + 1;
      if (take_line()) {
        take(std::string_view(data_));
        data_.clear();
      }
      line_.clear();
    }
    return true;
  }
  // Returns whether bytes are left that ended no event.
  bool in_event() const { return !line_.empty() || has_data_; }

 private:
  bool take_line();  // whether the line was empty and ends an event that has data

  std::string line_, data_;
  bool has_data_ = false;
};

}  // namespace sluice
