// Used by stepper.h.
#include "engine/step/step_recorder.h"

#include <algorithm>
#include <random>
#include <utility>

namespace sluice {
namespace {

std::uint64_t pair(int low, int high) {
  return static_cast<std::uint32_t>(low) | (std::uint64_t{static_cast<std::uint32_t>(high)} << 32);
}
int low(std::uint64_t word) {
  return static_cast<int>(static_cast<std::uint32_t>(word));
}
int high(std::uint64_t word) {
  return static_cast<int>(static_cast<std::uint32_t>(word >> 32));
}

std::uint64_t first_word(const StepItem& item) {
  return static_cast<std::uint64_t>(item.kind) | (std::uint64_t{item.flags} << 8) | (std::uint64_t{item.detail} << 16) |
         (std::uint64_t{item.sequence} << 32);
}

std::uint64_t mixed(std::uint64_t x) {  // a hash: the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

std::uint64_t random_word() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

StepRecorder::StepRecorder()
    : memory_((kWords + kRecords) * sizeof(std::uint64_t)),
      words_(reinterpret_cast<std::uint64_t*>(memory_.data())),
      salt_(random_word()) {}

std::uint64_t StepRecorder::get(std::uint64_t at) const {
  return std::atomic_ref(words_[at % kWords]).load(std::memory_order_acquire);
}

void StepRecorder::add(const StepItem& item) {
  if (used_ + 2 > kMostWords) {
    ++lost_;
    return;
  }
  const std::uint64_t at = start_ + kHeaderWords + std::exchange(used_, used_ + 2);
  reserve(at + 2);
  put(at, first_word(item));
  put(at + 1, pair(item.a, item.b));
}

void StepRecorder::close(const StepRecord& counts) {
  const std::uint64_t number = closed_.load(std::memory_order_relaxed);
  reserve(start_ + kHeaderWords);
  const std::uint64_t header[kHeaderWords] = {
      number,
      static_cast<std::uint64_t>(counts.begin_ns),
      static_cast<std::uint64_t>(counts.end_ns),
      pair(counts.rows, static_cast<int>(used_)),
      pair(counts.running, counts.waiting),
      pair(counts.latent_used, counts.latent_cached),
      pair(counts.window_used, counts.window_cached),
      pair(counts.slots_used, lost_),
      static_cast<std::uint64_t>(counts.swap_bytes),
  };
  for (std::uint64_t i = 0; i < kHeaderWords; ++i) put(start_ + i, header[i]);
  // The words after the ring hold the start of each record.
  std::atomic_ref(words_[kWords + number % kRecords]).store(start_, std::memory_order_release);
  closed_.store(number + 1, std::memory_order_release);
  start_ += kHeaderWords + std::exchange(used_, 0);
  lost_ = 0;
}

StepItem StepRecorder::block(std::uint32_t sequence, std::uint64_t hash_word) const {
  const std::uint64_t id = mixed(hash_word ^ salt_) >> 12;
  return {.kind = StepItem::Kind::kBlock, .sequence = sequence, .a = low(id), .b = high(id)};
}

bool StepRecorder::read_one(std::uint64_t number, StepRecord* record) const {
  const std::uint64_t start = std::atomic_ref(words_[kWords + number % kRecords]).load(std::memory_order_acquire);
  std::uint64_t header[kHeaderWords];
  for (std::uint64_t i = 0; i < kHeaderWords; ++i) header[i] = get(start + i);
  const auto is_there = [&] { return reserved_.load(std::memory_order_relaxed) <= start + kWords; };
  if (!is_there() || header[0] != number) return false;
  record->number = number;
  record->begin_ns = static_cast<std::int64_t>(header[1]);
  record->end_ns = static_cast<std::int64_t>(header[2]);
  record->rows = low(header[3]);
  record->running = low(header[4]);
  record->waiting = high(header[4]);
  record->latent_used = low(header[5]);
  record->latent_cached = high(header[5]);
  record->window_used = low(header[6]);
  record->window_cached = high(header[6]);
  record->slots_used = low(header[7]);
  record->lost = high(header[7]);
  record->swap_bytes = static_cast<std::int64_t>(header[8]);
  std::vector<std::uint64_t> words(static_cast<std::size_t>(high(header[3])));
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = get(start + kHeaderWords + i);
  if (!is_there()) return false;
  read_items(words, &record->items);
  return true;
}

void StepRecorder::read_items(const std::vector<std::uint64_t>& words, std::vector<StepItem>* items) {
  for (std::size_t i = 0; i < words.size();) {
    const std::uint64_t first = words[i++];
    if ((first & 0xFF) != kDecodes) {
      items->push_back({.kind = static_cast<StepItem::Kind>(first & 0xFF),
                        .flags = static_cast<std::uint8_t>(first >> 8),
                        .detail = static_cast<std::uint16_t>(first >> 16),
                        .sequence = static_cast<std::uint32_t>(first >> 32),
                        .a = low(words[i]),
                        .b = high(words[i])});
      ++i;
      continue;
    }
    for (std::uint64_t left = first >> 8; left > 0; --left, ++i) {
      items->push_back({.kind = StepItem::Kind::kSpan,
                        .flags = StepItem::kSamples,
                        .sequence = static_cast<std::uint32_t>(words[i] >> 32),
                        .a = low(words[i]),
                        .b = 1});
    }
  }
}

std::vector<StepRecord> StepRecorder::read(std::uint64_t number, std::size_t most) const {
  const std::uint64_t end = closed();
  number = std::max(number, end > kRecords ? end - kRecords : 0);
  std::vector<StepRecord> records;
  for (; number < end && records.size() < most; ++number) {
    StepRecord record;
    // A record that was overwritten is older than all that can be read, so those before it are dropped.
    if (read_one(number, &record)) {
      records.push_back(std::move(record));
    } else {
      records.clear();
    }
  }
  return records;
}

}  // namespace sluice
