// The borders of a model, and schedules in which short sequences alone meet each of them.
//
// A border is a length at which something changes: a window of compressed entries closes, a block ends, the attention
// window slides, the indexer begins to choose, positions leave the range that the model was first trained for. Random
// schedules meet a border together with longer sequences, whose length hides the effect of a lone step there. Here each
// step has one sequence, which ends kBorderRows before to kBorderRows after the border. It goes row by row, with right
// drafts, with wrong ones, and with both, so that drafts of every count straddle the border. It also goes in short
// pieces, and as prompts that end there. Thread safety: plain values.
// Used by verify.cc.
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
  std::string text() const;  // lists all borders
};

// All borders of a model, ascending; borders of one length are one.
std::vector<LawBorder> law_borders(const CacheLayout& layout, const ModelConfig& config);
std::vector<BorderZone> border_zones(std::span<const LawBorder> borders);

// The tokens of the prompt that meets a zone, at most `most`. Tokens beyond the zone's end are for drafts, and for the
// prompt alone in one piece.
int border_prompt_tokens(const BorderZone& zone, int most);
// Makes a schedule over prompt `prompt`, of `tokens` tokens. No sequence, including its drafts, is longer than `most`.
LawSchedule border_schedule(const BorderZone& zone, int prompt, int tokens, int most,
                            std::span<const int> thread_counts);

// The same with the real scheduler: one request by itself, whose prompt of `tokens` tokens ends before the zone and
// whose answer ends after it.
enum class BorderDrafts {
  kGiven,  // most of them right, and a wrong one somewhere
  kOwn,    // the model's drafts, and copies
  kNone,   // a step in flight instead
};
Workload border_workload(const BorderZone& zone, int prompt, int tokens, int most, BorderDrafts drafts);

// Meets every zone. It uses these `options`: seed, shrink, thread_counts, max_step_rows, chooses_from, progress. The
// report's schedules are the zones. The prompts of border_prompt_tokens() must fit in a step. Fails when a step cannot
// run.
Result<LawReport> check_borders(Runner& runner, std::span<const BorderZone> zones, const LawOptions& options);

}  // namespace sluice
