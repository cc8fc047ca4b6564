// LawReport: the events of the schedules, counted as they happened, not as they were asked for; and the difference
// found, if any. Thread safety: plain values.
// Used by law_check.h.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "base/index_types.h"

namespace sluice {

struct LawDifference {
  int schedule = 0;  // run it alone: first_schedule = this, schedules = 1
  int prompt = 0;
  Position position = 0;
  std::string first_value;  // e.g. "layers.3.attn_o"; "logits" when nothing before them differs; "audit"
  std::string text;         // the difference, and the smallest schedule found
};

struct LawReport {
  int schedules = 0;
  std::int64_t comparisons = 0;             // rows whose logits were compared
  std::int64_t choosing_rows = 0;           // compared rows whose attention chose among its compressed entries
  std::int64_t hits = 0;                    // sequences that took over cached tokens when they began
  std::int64_t resumed_tokens = 0;          // tokens that came from the prefix cache
  std::int64_t preemptions = 0;             // computed again
  std::int64_t swaps = 0;                   // swapped out
  std::int64_t swaps_restored = 0;          // ... and brought back
  std::int64_t swapped_aborts = 0;          // ended while swapped out
  std::int64_t forks = 0;                   // two sequences that share their pages from now on
  std::int64_t forks_apart = 0;             // ... and then wrote other tokens than each other
  std::int64_t truncations = 0;             // tokens removed again
  std::int64_t aborts = 0;                  // ended before their end
  std::int64_t forgotten_spans = 0;         // wrong tokens, computed and forgotten
  std::int64_t drafts = 0;                  // rows of guessed tokens
  std::int64_t drafts_rejected = 0;         // ... wrong ones, given up
  std::int64_t model_drafts = 0;            // ... the model's, each the same as for the request alone
  std::int64_t ruled = 0;                   // tokens of answers with penalties, biases or bans
  std::int64_t constrained = 0;             // ... bound by a grammar
  std::int64_t budgeted = 0;                // ... with a budget of reasoning
  std::int64_t forced = 0;                  // tokens that were the only ones allowed, computed in one span
  std::int64_t exported = 0;                // positions for which the layers' choices were compared:
  std::int64_t exported_experts = 0;        // ... experts,
  std::int64_t exported_entries = 0;        // ... and entries that an indexer chose
  std::int64_t scored = 0;                  // tokens of prompts whose log-probabilities were compared
  std::int64_t scored_answers = 0;          // ... tokens of answers, compared with the values at their draw
  std::int64_t evictions = 0;               // cached pages given to others
  std::int64_t in_flight = 0;               // steps begun before the tokens of the previous one were known
  std::set<int> thread_counts;              // numbers of threads that steps ran on
  std::optional<LawDifference> difference;  // the first one; nothing runs after it

  // A digest of the logits and tokens of all prompts and requests of the schedules without a difference, as each has
  // them alone. It is a function of model, profile, seed and schedules, so that runs of different machines can be
  // compared.
  std::uint64_t digest = 0;

  void add(const LawReport& part);
};

struct LawCount {
  const char* name;  // as in the report's JSON
  std::int64_t LawReport::* value;
};

inline constexpr LawCount kLawCounts[] = {
    {"comparisons", &LawReport::comparisons},
    {"choosing_rows", &LawReport::choosing_rows},
    {"hits", &LawReport::hits},
    {"resumed_tokens", &LawReport::resumed_tokens},
    {"preemptions", &LawReport::preemptions},
    {"swaps", &LawReport::swaps},
    {"swaps_restored", &LawReport::swaps_restored},
    {"swapped_aborts", &LawReport::swapped_aborts},
    {"forks", &LawReport::forks},
    {"forks_apart", &LawReport::forks_apart},
    {"truncations", &LawReport::truncations},
    {"aborts", &LawReport::aborts},
    {"forgotten_spans", &LawReport::forgotten_spans},
    {"drafts", &LawReport::drafts},
    {"drafts_rejected", &LawReport::drafts_rejected},
    {"evictions", &LawReport::evictions},
    {"in_flight", &LawReport::in_flight},
    {"ruled", &LawReport::ruled},
    {"scored", &LawReport::scored},
    {"scored_answers", &LawReport::scored_answers},
    {"constrained", &LawReport::constrained},
    {"budgeted", &LawReport::budgeted},
    {"forced", &LawReport::forced},
    {"exported", &LawReport::exported},
};

// The half that drives the cache has none of these: it has no answers, and no steps in flight.
inline constexpr const char* kOfSchedulingOnly[] = {"swapped_aborts", "in_flight",      "ruled",
                                                    "scored",         "scored_answers", "constrained",
                                                    "budgeted",       "forced",         "exported"};
inline constexpr const char* kOfRowsOnly[] = {"truncations", "forgotten_spans"};  // and the other half none of these

inline void LawReport::add(const LawReport& part) {
  schedules += part.schedules;
  for (const LawCount& count : kLawCounts) this->*count.value += part.*count.value;
  model_drafts += part.model_drafts;
  exported_experts += part.exported_experts;
  exported_entries += part.exported_entries;
  digest += part.digest;
  thread_counts.insert(part.thread_counts.begin(), part.thread_counts.end());
  if (!difference) difference = part.difference;
}

}  // namespace sluice
