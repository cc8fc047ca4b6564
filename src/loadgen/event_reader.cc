// Used by answer_reader.h.
#include "loadgen/event_reader.h"

#include <utility>

namespace sluice {

bool EventReader::take_line() {
  if (line_.ends_with('\r')) line_.pop_back();
  if (line_.empty()) return std::exchange(has_data_, false);
  std::string_view line = line_;
  if (!line.starts_with("data:")) return false;
  line.remove_prefix(5);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += line;
  has_data_ = true;
  return false;
}

}  // namespace sluice
