// StepRecorder: the last kRecords steps of an engine as StepRecords, in fixed memory.
//
// One thread writes, without waiting and without allocating: it calls add() for each event, then close() for the
// record. Any thread reads, at any time: it copies words that may be overwritten meanwhile, and then checks whether
// they were (a sequence lock). A record is a run of words in a ring: a header, then two words an item. The spans of
// sequences that decode, nearly all items of most steps, take one word each after a word that counts them. With a mean
// of over 240 words a step the ring is too small for kRecords records, and the oldest are lost earlier. Memory is taken
// page by page, as it is first written.
// Used by stepper.h.
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
  static constexpr std::uint64_t kMostWords = 1 << 17;  // for the items of a record

  StepRecorder();

  // For the writer only: adds an item to the open record.
  void add(const StepItem& item);
  // Adds spans of one row that chooses a token and was not computed before, as kSpan items. `next(i, &word)` sets the
  // decode() of the i-th of at most `most`, or returns false at the end of the run. Returns how many there were.
  template <class Next>
  std::size_t add_decodes(std::size_t most, const Next& next);
  static std::uint64_t decode(std::uint32_t sequence, std::int32_t position) {
    return (std::uint64_t{sequence} << 32) | static_cast<std::uint32_t>(position);
  }
  // For the writer only: closes the open record. `counts`: a record without number and items.
  void close(const StepRecord& counts);
  // Returns the number for the next sequence.
  std::uint32_t next_sequence() { return ++sequences_; }
  // The item that stands for a block's name outside the engine.
  StepItem block(std::uint32_t sequence, std::uint64_t hash_word) const;

  // For any thread: returns up to `most` records from `number` on, or from the oldest one that is left.
  std::vector<StepRecord> read(std::uint64_t number, std::size_t most) const;
  std::uint64_t closed() const { return closed_.load(std::memory_order_acquire); }

  static std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

 private:
  static constexpr std::uint64_t kWords = 1 << 20, kHeaderWords = 9, kAhead = 512;

  static constexpr std::uint64_t kDecodes = 0xFF;  // stands in the place of a kind

  // A reader that sees a word written here also sees the value that reserve() stored in reserved_ before that write, or
  // a later one, and so knows that it came too late.
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
  // The writer's fields: the start of the open record, the words of its items, and the items that found no room.
  std::uint64_t start_ = 0, used_ = 0;
  int lost_ = 0;
  std::uint32_t sequences_ = 0;
  std::uint64_t salt_;
  // Words below this, less kWords, may be overwritten.
  std::atomic<std::uint64_t> reserved_ = 0;
  std::atomic<std::uint64_t> closed_ = 0;
};

// Writes straight into the ring, so its memory is fetched meanwhile.
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
