// The differences between an answer and its stream: pieces that are missing, came twice or in another order. They are
// found by laying the pieces along the text that they should make, which the same request answers unstreamed. Thread
// safety: a pure function.
// Used by determinism.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct StreamFaults {
  int lost = 0, duplicated = 0, reordered = 0;
  int foreign = 0;  // pieces that the text does not hold: another answer

  int all() const { return lost + duplicated + reordered + foreign; }
  StreamFaults& operator+=(const StreamFaults& other);
};

// `text`: what the pieces should make. Stretches of `text` that no piece covers count as lost, one each.
StreamFaults find_stream_faults(std::string_view text, const std::vector<std::string>& pieces);

}  // namespace sluice
