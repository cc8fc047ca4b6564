// Used by cache/memory_plan.cc and page_pool.h.
#include "cache/pages/free_set.h"

#include <bit>

#include "base/check.h"

namespace sluice {
namespace {

constexpr int kBits = 64;

std::uint64_t bit(int i) {
  return std::uint64_t{1} << (i % kBits);
}
std::uint64_t& word(std::vector<std::uint64_t>& level, int i) {
  return level[static_cast<std::size_t>(i / kBits)];
}

void set_first(std::vector<std::uint64_t>& level, int n) {
  level.assign(static_cast<std::size_t>((n + kBits - 1) / kBits), 0);
  for (int i = 0; i < n; ++i) word(level, i) |= bit(i);
}

}  // namespace

FreeSet::FreeSet(int size) : count_(size) {
  SLUICE_CHECK(size >= 0 && size <= kMaxSize, "the size of a free set is out of range");
  set_first(members_, size);
  set_first(groups_, static_cast<int>(members_.size()));
  set_first(regions_, static_cast<int>(groups_.size()));
}

bool FreeSet::contains(int i) const {
  return (members_[static_cast<std::size_t>(i / kBits)] & bit(i)) != 0;
}

int FreeSet::lowest() const {
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    if (regions_[r] == 0) continue;
    const int group = static_cast<int>(r) * kBits + std::countr_zero(regions_[r]);
    const int member = group * kBits + std::countr_zero(groups_[static_cast<std::size_t>(group)]);
    return member * kBits + std::countr_zero(members_[static_cast<std::size_t>(member)]);
  }
  return -1;
}

void FreeSet::insert(int i) {
  SLUICE_CHECK(!contains(i), "a page was freed twice");
  word(members_, i) |= bit(i);
  word(groups_, i / kBits) |= bit(i / kBits);
  word(regions_, i / kBits / kBits) |= bit(i / kBits / kBits);
  ++count_;
}

void FreeSet::erase(int i) {
  SLUICE_CHECK(contains(i), "a page was taken that is not free");
  --count_;
  if ((word(members_, i) &= ~bit(i)) != 0) return;
  if ((word(groups_, i / kBits) &= ~bit(i / kBits)) != 0) return;
  word(regions_, i / kBits / kBits) &= ~bit(i / kBits / kBits);
}

}  // namespace sluice
