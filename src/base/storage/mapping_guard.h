// GuardedRange: mapped files that lose their bytes while they are read.
//
// Reading a page of a mapped file raises SIGBUS if another program has cut the file, or the disk cannot deliver the
// page; by default that ends the process. guard_mappings() installs a handler for the whole process. If the address
// lies in a GuardedRange, it marks the range as lost, puts zeros in the place of all of it, and the reader goes on.
// Users of the bytes must ask lost() first. Any other SIGBUS does what it did before the handler came.
// Thread safety: everything here may be called from any thread.
// Used by cli/main.cc, engine/load.cc, engine/reload.cc and mapped_file.h.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sluice {

// Installs the handler; further calls do nothing.
void guard_mappings();

// The names of the ranges that were lost since the start, or since forget_lost_ranges().
std::vector<std::string> lost_ranges();
void forget_lost_ranges();

// A range that mmap() returned. It must not be unmapped before the object's end, nor be read after it.
class GuardedRange {
 public:
  GuardedRange(const void* begin, std::size_t bytes, std::string name);
  ~GuardedRange();
  GuardedRange(const GuardedRange&) = delete;
  GuardedRange& operator=(const GuardedRange&) = delete;

  bool lost() const;

  struct Place;

 private:
  Place* place_;
  std::string name_;
};

}  // namespace sluice
