// The schedules of check_row_law: plain values that can be made from a seed, cut down and printed.
//
// Chance alone brings some situations too rarely, so a schedule's number decides what it is certain to have, whatever
// chance adds (number mod kLawSituations):
//   0  a sequence preempted after a full block that resumes there; one swapped out and back; one aborted
//   1  two prompts that begin alike, forked before they part; a truncation; wrong tokens that are forgotten
//   2  unrelated sequences one after the other in a pool too small for what they leave: cached pages change hands
//   3  anything; with long prompts, every kLongPromptEvery-th schedule is two sequences of one of them
// Every second round of 0 and 1 is short of pages as well, and so are most of 3 (law_requests.h: of 0, most of 3).
// Used by law_borders.h, law_check.cc, law_requests.cc and law_workload.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "verify/law_check.h"

namespace sluice {

// An event of a sequence after a step; it then goes on with its next piece.
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
  bool cached = false;     // looks up the prefix cache and inserts
  bool keeps_all = false;  // all its window pages stay cached, so others can resume at every block
  int hit_limit = 0;       // the most cached tokens that it resumes with
};

// Computes a sequence's tokens from where it is up to `end`; does nothing if it is there.
struct LawPiece {
  int sequence = 0;
  int end = 0;
  bool keep = true;  // false: wrong tokens, forgotten afterwards
  int drafts = 0;    // the last tokens of the span, of which `right` are right and the others lie beyond `end`
  int right = 0;     // less than the tokens up to `end`
  LawEvent after = LawEvent::kNone;
  int argument = 0;
};

struct LawStep {
  int threads = 1;
  std::vector<LawPiece> pieces;  // each for another sequence
};

struct LawSchedule {
  int free_pages = 0;  // latent pages that are there at first, so that cached ones are evicted; 0: all
  std::vector<LawSequence> sequences;
  std::vector<LawStep> steps;

  std::string text() const;  // one line per step
};

// The length of the common beginning of two prompts, in tokens.
int common_tokens(std::span<const TokenId> a, std::span<const TokenId> b);
// The prompts that share no block with an earlier one, in order.
std::vector<int> strangers_of(std::span<const std::vector<TokenId>> prompts, std::span<const int> candidates);

LawSchedule make_law_schedule(std::span<const std::vector<TokenId>> prompts, const LawOptions& options, int number);

// check_row_law() for other schedules: `make` makes the one of a number.
Result<LawReport> check_schedules(Runner& runner, std::span<const std::vector<TokenId>> prompts,
                                  const LawOptions& options, const std::function<LawSchedule(int)>& make);

// Smaller variants of a schedule, the boldest first; each is a valid schedule.
std::vector<LawSchedule> smaller_schedules(const LawSchedule& schedule);

}  // namespace sluice
