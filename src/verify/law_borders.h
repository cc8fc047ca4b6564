// The borders of a model, and schedules that meet each of them by short sequences alone.
//
// A border is a length at which something changes: a window of compressed entries closes, a block ends, the attention
// window slides, the indexer begins to choose, positions leave the range that the model was first trained for. Random
// schedules meet a border beside longer sequences, whose length hides what a step alone would do there. Here each step
// has one sequence, which ends kBorderRows before to kBorderRows behind the border: row by row, with right drafts, with
// wrong ones, and with both, so that drafts of every count straddle it; in short pieces; and as prompts that end there.
// Thread safety: plain values.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "model/cache_layout.h"
#include "verify/law_check.h"
#include "verify/law_requests.h"
#include "verify/law_schedule.h"

namespace sluice {

inline constexpr int kBorderRows = 9;  // on either side of a border, all of which are met

struct LawBorder {
  Position tokens = 0;  // the last length before the border
  std::string what;

  std::string text() const;  // "256 tokens (a block ends)"
};

// Borders so near each other that one sequence meets them together.
struct BorderZone {
  std::vector<LawBorder> borders;  // ascending, at least one
  Position first() const;          // the first length to be met
  Position last() const { return borders.back().tokens + kBorderRows; }
  std::string text() const;  // of all of them
};

// All of a model, ascending; borders of one length are one.
std::vector<LawBorder> law_borders(const CacheLayout& layout, const ModelConfig& config);
std::vector<BorderZone> border_zones(std::span<const LawBorder> borders);

// Tokens of the prompt that meets a zone; what is beyond its end belongs to drafts, and to the prompt alone in one
// piece. At most `most`.
int border_prompt_tokens(const BorderZone& zone, int most);
// A schedule over prompt `prompt`, of `tokens` tokens. No sequence, drafts included, is longer than `most`.
LawSchedule border_schedule(const BorderZone& zone, int prompt, int tokens, int most,
                            std::span<const int> thread_counts);

// The same by the real scheduler: one request by itself, whose prompt of `tokens` tokens ends before the zone and whose
// answer ends behind it.
enum class BorderDrafts {
  kGiven,  // most of them right, and a wrong one somewhere
  kOwn,    // those of the model, and copies
  kNone,   // a step in flight instead
};
Workload border_workload(const BorderZone& zone, int prompt, int tokens, int most, BorderDrafts drafts);

// Meets every zone. Of `options`: seed, shrink, thread_counts, chooses_from, progress. The report's
// schedules are the zones. The prompts of border_prompt_tokens() must fit in a step. Fails when a step cannot run.
Result<LawReport> check_borders(Runner& runner, std::span<const BorderZone> zones, const LawOptions& options);

}  // namespace sluice
