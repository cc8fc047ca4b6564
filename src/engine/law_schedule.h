// The schedules of check_row_law: plain values that can be made from a seed, cut down and printed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/law_check.h"

namespace sluice {

// What happens to a sequence after a step; it goes on with its next piece.
enum class LawEvent {
  kNone,
  kDrop,      // preempted, its state dropped; it begins again, by the prefix cache, from at most `argument` tokens
  kSwap,      // preempted, its state moved to the swap space and back
  kTruncate,  // goes back to `argument` tokens or fewer
  kFork,      // sequence `argument`, which has not begun and has the same tokens so far, goes on from here too
  kAbort,     // ends; its later pieces are ignored
};

struct LawSequence {
  int prompt = 0;
  bool cached = false;     // looks up the prefix cache and publishes
  bool keeps_all = false;  // all its window pages stay cached, so others can resume at every block
  int hit_limit = 0;       // takes over at most so many cached tokens when it begins
};

// Computes a sequence's tokens from where it is up to `end`; nothing when it is there.
struct LawPiece {
  int sequence = 0;
  int end = 0;
  bool keep = true;  // false: wrong tokens, forgotten afterwards
  LawEvent after = LawEvent::kNone;
  int argument = 0;
};

struct LawStep {
  int threads = 1;
  std::vector<LawPiece> pieces;  // each of another sequence
};

struct LawSchedule {
  int free_pages = 0;  // the latent pages that are there at first, so that cached ones are evicted; 0: all
  std::vector<LawSequence> sequences;
  std::vector<LawStep> steps;

  std::string text() const;  // one line a step
};

LawSchedule make_law_schedule(std::span<const std::vector<TokenId>> prompts, const LawOptions& options, int number);

// Smaller variants of a schedule, the boldest first; each is a valid schedule.
std::vector<LawSchedule> smaller_schedules(const LawSchedule& schedule);

}  // namespace sluice
