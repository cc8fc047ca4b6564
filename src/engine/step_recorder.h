// StepRecorder: the last kRecords steps of an engine as StepRecords, in fixed memory.
//
// One thread writes, without waiting and without allocating: add() what happens, then close() the record. Any thread
// reads, at any time: it copies words that may be overwritten meanwhile, and then sees whether they were (a sequence
// lock). A record is a run of words in a ring: a header and two words an item; what the ring has no room for any more
// (a mean of over 250 items a step) is gone before kRecords others have come. Memory is taken as it is first used.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/large_bytes.h"
#include "sluice/step_record.h"

namespace sluice {

class StepRecorder {
 public:
  static constexpr std::uint64_t kRecords = 4096;
  static constexpr int kMostItems = 1 << 16;  // of a record

  StepRecorder();

  // The writer's. `counts`: a record without number and items.
  void add(const StepItem& item);
  void close(const StepRecord& counts);
  // The number that the next sequence gets.
  std::uint32_t next_sequence() { return ++sequences_; }
  // What stands for a block's name outside.
  StepItem block(std::uint32_t sequence, std::uint64_t hash_word) const;

  // Any thread's: up to `most` records from `number` on, or from the oldest one that is left.
  std::vector<StepRecord> read(std::uint64_t number, std::size_t most) const;
  std::uint64_t closed() const { return closed_.load(std::memory_order_acquire); }

  static std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

 private:
  static constexpr std::uint64_t kWords = 1 << 20, kHeaderWords = 9, kAhead = 512;

  void put(std::uint64_t at, std::uint64_t word);
  std::uint64_t get(std::uint64_t at) const;
  void reserve(std::uint64_t end);
  bool read_one(std::uint64_t number, StepRecord* record) const;

  LargeBytes memory_;
  std::uint64_t* words_;
  // The writer's: where the open record starts, its items.
  std::uint64_t start_ = 0;
  int items_ = 0, lost_ = 0;
  std::uint32_t sequences_ = 0;
  std::uint64_t salt_;
  // Words below this, less kWords, may be overwritten.
  std::atomic<std::uint64_t> reserved_ = 0;
  std::atomic<std::uint64_t> closed_ = 0;
};

}  // namespace sluice
