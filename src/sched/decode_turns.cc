// Used by scheduler.h.
#include "sched/decode_turns.h"

#include "base/check.h"

namespace sluice {

std::vector<DecodeTurns::Turn>::iterator DecodeTurns::behind(std::int64_t deadline) {
  return std::upper_bound(turns_.begin(), turns_.end(), deadline,
                          [](std::int64_t value, const Turn& turn) { return value < turn.deadline; });
}

void DecodeTurns::add(SequenceId id) {
  const std::int64_t deadline = clock_ - 1 + rounds(size() + 1);
  turns_.insert(behind(deadline), {id, deadline});
}

void DecodeTurns::remove(SequenceId id) {
  std::erase_if(turns_, [id](const Turn& turn) { return turn.id == id; });
}

int DecodeTurns::due() const {
  if (size() <= per_step_) return size();
  std::int64_t slack = per_step_;
  for (int i = 0; i < size(); ++i) {
    const std::int64_t steps = turns_[static_cast<std::size_t>(i)].deadline - clock_ + 1;
    slack = std::min(slack, per_step_ * steps - (i + 1));
  }
  SLUICE_CHECK(slack >= 0, "a decoding sequence would miss its turn");
  return per_step_ - static_cast<int>(slack);
}

}  // namespace sluice
