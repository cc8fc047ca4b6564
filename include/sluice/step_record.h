// The record of what the engine did, step by step, and where it stands, for people who want to see it work. It has
// lengths, positions and counts only; no token and no text.
//
// Plain values; thread safety: those of any plain value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

// Why a sequence that waits was not admitted when the scheduler last looked at it.
enum class WaitReason : std::uint8_t {
  kQueue,     // it was not looked at: others come first
  kPriority,  // the same, and one that is before it has a better priority
  kPlaces,    // --max-num-seqs sequences run
  kPages,     // the latent pages that are free are too few for its prompt
  kWindows,   // the same of window pages
  kPrefix,    // another sequence is computing blocks that it can use
  kRows,      // the rows of the step were used up
  kPaused,    // its client has too much of its answer left to read
};
inline constexpr int kWaitReasons = 8;

// One thing that happened to a sequence. Sequences are numbered from 1 in the order in which they arrive or fork.
struct StepItem {
  enum class Kind : std::uint8_t {
    kArrival,     // a: prompt tokens, b: max_tokens, detail: which choice of its request
    kRequest,     // about the sequence that arrived: a: the request's number, b: priority
    kMessage,     // about the sequence that arrived: a: a position where a message begins
    kAgain,       // about the sequence that arrived: its prompt is that of sequence a
    kBlock,       // id(): stands for its next 128 tokens and all before them
    kFork,        // it goes on from sequence a with the same tokens, of which b are in the cache; detail: choice
    kWait,        // a: a WaitReason, other than when it was last looked at
    kAdmission,   // a: the first position to compute, b: tokens that were cached; flag kSwapped: from the swap space
    kPreemption,  // a: tokens that were computed; flag kSwapped: they are kept in the swap space
    kSpan,        // a: first position, b: rows() and again(), detail: drafts among them; flag kSamples
    kEnd,         // a: tokens generated; flag kBetween: cancelled between two steps
    kPause,       // between two steps; a: 1: it gets no more rows, 0: it goes on
    kIdle,  // without a sequence; a: plans without a row since the last item, as all waited for paused ones' memory
  };
  static constexpr std::uint8_t kSwapped = 1, kSamples = 1, kBetween = 1;

  Kind kind = Kind::kArrival;
  std::uint8_t flags = 0;
  std::uint16_t detail = 0;
  std::uint32_t sequence = 0;
  std::int32_t a = 0, b = 0;

  // For a span: its rows, and how many of them had been computed before a preemption.
  int rows() const { return b & 0xFFFF; }
  int again() const { return static_cast<int>(static_cast<std::uint32_t>(b) >> 16); }
  // For a block: 52 bits that are drawn anew for each engine, so that no reader can find out what the tokens are.
  std::int64_t id() const {
    return static_cast<std::int64_t>(static_cast<std::uint32_t>(a) |
                                     (std::uint64_t{static_cast<std::uint32_t>(b)} << 32));
  }

  bool operator==(const StepItem&) const = default;
};

// A step, with all that happened since the one before. Pages are counted when it had ended.
struct StepRecord {
  std::uint64_t number = 0;                // from 0
  std::int64_t begin_ns = 0, end_ns = 0;   // on the clock of EngineSnapshot::now_ns
  int rows = 0;                            // computed
  int running = 0, waiting = 0;            // sequences, at its end
  int latent_used = 0, latent_cached = 0;  // pages
  int window_used = 0, window_cached = 0;
  int slots_used = 0;  // states
  int lost = 0;        // items for which there was no room
  std::int64_t swap_bytes = 0;
  std::vector<StepItem> items;
};

// A sequence that waits or runs.
struct SequenceSnapshot {
  enum class State : std::uint8_t { kWaiting, kSwapped, kPrompt, kDecoding, kPaused };  // kPaused: it would run

  std::uint32_t sequence = 0;
  std::uint64_t request = 0;
  int choice = 0, priority = 0;
  State state = State::kWaiting;
  WaitReason reason = WaitReason::kQueue;  // while it waits
  int prompt_tokens = 0, tokens = 0;       // known: the prompt and the answer so far
  int computed = 0;                        // how many of these are in the cache, or swapped out
  int cached_tokens = 0;                   // prompt tokens that were not computed when it was admitted
  int window_pages = 0;
  std::vector<std::int32_t> latent_pages;  // in the order of its blocks
};

// The pages of a pool as at most kCells cells, each of as many neighbouring pages. Levels of 0 to 15: the part of a
// cell's pages that are in the state, 0 only if none is.
struct PoolSnapshot {
  static constexpr int kCells = 2048;
  struct Cell {
    std::uint8_t used = 0, shared = 0, cached = 0;  // used: by one sequence; shared: by several
    bool operator==(const Cell&) const = default;
  };
  int pages = 0, used = 0, cached = 0;
  std::int64_t page_bytes = 0;
  std::vector<Cell> cells;
};

struct EngineSnapshot {
  std::int64_t now_ns = 0;
  std::string policy;
  int most_rows = 0, most_sequences = 0,
      most_tokens = 0;  // rows of a step; sequences running at once; tokens of a sequence
  PoolSnapshot latents, windows;
  int slots = 0, slots_used = 0;
  std::int64_t slot_bytes = 0, swap_bytes = 0, swap_bytes_used = 0;
  std::vector<SequenceSnapshot> sequences;  // first those that run, then those that wait in the order of their ranks
};

}  // namespace sluice
