// FreeSet: a set of integers in [0, size) that finds its lowest member. Three levels of 64-bit words, so that 16.7
// million pages need three word reads; no allocation after construction.
// Used by cache/memory_plan.cc and page_pool.h.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

class FreeSet {
 public:
  // Contains all of [0, size) at first; size <= kMaxSize.
  static constexpr int kMaxSize = 64 * 64 * 64 * 64;
  explicit FreeSet(int size);

  int count() const { return count_; }
  bool contains(int i) const;
  int lowest() const;  // -1 when empty
  void insert(int i);  // i must not be in the set
  void erase(int i);   // i must be in the set

 private:
  int count_ = 0;
  std::vector<std::uint64_t> members_;  // bit i: i is in the set
  std::vector<std::uint64_t> groups_;   // bit w: members_[w] is not 0
  std::vector<std::uint64_t> regions_;  // bit w: groups_[w] is not 0
};

}  // namespace sluice
