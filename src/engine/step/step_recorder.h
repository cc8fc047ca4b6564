// StepRecorder: the last kRecords steps of an engine as StepRecords, in fixed memory.
//
// One thread writes, without waiting and without allocating: add() what happens, then close() the record. Any thread
// reads, at any time: it copies words that may be overwritten meanwhile, and then sees whether they were (a sequence
// lock). A record is a run of words in a ring: a header, then two words an item; but the spans of sequences that
// decode, nearly all that happens in most steps, are one word each behind a word that counts them. What the ring has no
// room for any more (a mean of over 240 words a step) is gone before kRecords others have come. Memory is taken as it
// is first used.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/storage/large_bytes.h"
#include "sluice/step_record.h"

namespace sluice {

class StepRecorder {
 public:
  static constexpr std::uint64_t kRecords = 4096;
  static constexpr std::uint64_t kMostWords = 1 << 17;  // of the items of a record

  StepRecorder();

  // The writer's. `counts`: a record without number and items.
  void add(const StepItem& item);
  // Spans of one row each that chooses a token, none computed before: as many kSpan items. `next(i, &word)` gives the
  // decode() of the i-th of at most so many, or false: no more follow each other. How many they were.
  template <class Next>
  std::size_t add_decodes(std::size_t most, const Next& next);
  static std::uint64_t decode(std::uint32_t sequence, std::int32_t position) {
    return (std::uint64_t{sequence} << 32) | static_cast<std::uint32_t>(position);
  }
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

  static constexpr std::uint64_t kDecodes = 0xFF;  // in the place of a kind

  // A reader that sees a word written here also sees what reserved_ was before, and so knows that it came too late.
  void put(std::uint64_t at, std::uint64_t word) {
    std::atomic_ref(words_[at % kWords]).store(word, std::memory_order_release);
  }
  std::uint64_t get(std::uint64_t at) const;
  void reserve(std::uint64_t end) {
    if (end > reserved_.load(std::memory_order_relaxed)) reserved_.store(end + kAhead, std::memory_order_relaxed);
  }
  static void read_items(const std::vector<std::uint64_t>& words, std::vector<StepItem>* items);
  bool read_one(std::uint64_t number, StepRecord* record) const;

  LargeBytes memory_;
  std::uint64_t* words_;
  // The writer's: where the open record starts, the words of its items, the items for which there was no room.
  std::uint64_t start_ = 0, used_ = 0;
  int lost_ = 0;
  std::uint32_t sequences_ = 0;
  std::uint64_t salt_;
  // Words below this, less kWords, may be overwritten.
  std::atomic<std::uint64_t> reserved_ = 0;
  std::atomic<std::uint64_t> closed_ = 0;
};

// Straight into the ring, whose memory comes to the processor meanwhile.
template <class Next>
std::size_t StepRecorder::add_decodes(std::size_t most, const Next& next) {
  const std::uint64_t at = start_ + kHeaderWords + used_, room = kMostWords - used_;
  reserve(at + std::min<std::uint64_t>(most + 1, room));
  std::uint64_t count = 0, word = 0;
  for (; count < most && next(count, &word); ++count) {
    if (count + 1 < room) put(at + 1 + count, word);
  }
  const std::uint64_t kept = std::min(count, std::max<std::uint64_t>(room, 1) - 1);
  lost_ += static_cast<int>(count - kept);
  if (kept == 0) return count;
  put(at, kDecodes | (kept << 8));
  used_ += kept + 1;
  return count;
}

}  // namespace sluice
