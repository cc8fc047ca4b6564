// verify: checks the laws on a model and a machine. Half of the schedules drive the cache directly (check_row_law),
// half let the real scheduler decide (check_scheduling_law); either half can run by itself. Before them short sequences
// alone meet every border of the model (verify/law_borders.h). Another kind, for a device and the CPU, moves sequences
// between the two (check_moves). docs/guarantees.md defines the laws and explains why they hold. Thread safety: none
// needed; it owns everything that it uses.
// Used by cli/commands/model_commands.h and cli/commands/verify_command.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/cache_layout.h"
#include "model/engine_setup.h"
#include "sluice/status.h"
#include "verify/law_check.h"

namespace sluice {

enum class VerifyHalf {
  kBoth,  // and the borders
  kBorders,
  kRows,
  kScheduling,
  kMoves,
};
std::span<const std::string_view> option_words(VerifyHalf half);  // base/option_words.h

struct VerifyOptions {
  EngineSetup engine;  // used: the model, the numerics, the machine's options and the fault
  VerifyHalf half = VerifyHalf::kBoth;
  std::uint64_t seed = 0;
  int schedules = 100;             // in both halves together
  double seconds = 0;              // > 0: no new schedule after this time, but at least kLawSituations in each half
  int min_rows = 1500;             // in a schedule
  Position longest_border = 6000;  // tokens; brief schedules alone: 300. Later borders are not met
  int brief_schedules = 0;  // then this many with prompts of at most three blocks, for a suite; half of each kind
  bool shrink = true;       // off: a schedule that differs is reported as it is
  std::function<void(int done, int total)> progress;  // may be null
};

struct VerifyReport {
  LawReport laws;              // both halves together; at most one difference, nothing runs after it
  LawReport rows, scheduling;  // each half's
  LawReport borders;           // part of `laws` as well, except its schedules and digest
  std::vector<std::string> borders_met, borders_beyond;  // texts; beyond: later than longest_border
  std::string profile, isa;
  Position chooses_from = 0;  // the first row whose attention chooses among its compressed entries; 0: none does
  int threads = 0;
  double seconds = 0;
  bool sound() const { return !laws.difference.has_value(); }
};

// Runs the checks. A failed audit is a difference too. Fails if the model cannot be loaded or run, or if the options
// give up the laws.
Result<VerifyReport> verify(const VerifyOptions& options);

// Prompts around the boundaries of everything that has one: 4 tokens (CSA), 128 (blocks, HCA), 256 (attention's
// splits), up to several blocks; some begin alike and then part. Random ids below `vocab`, always the same. If
// `long_tokens` > 0, the last one has that many tokens.
std::vector<std::vector<TokenId>> law_prompts(std::size_t vocab, int long_tokens = 0);

// brief_law_prompts() makes the prompts of brief schedules, with the same boundaries within three blocks. make_brief()
// sets the sizes of brief schedules.
std::vector<std::vector<TokenId>> brief_law_prompts(std::size_t vocab);
void make_brief(LawOptions* laws);

// The first row whose attention chooses among its compressed entries (sparse attention with an indexer) instead of
// reading them all; 0: no row ever does.
Position chooses_from(const CacheLayout& layout);
// The length of the long prompt that makes it choose; 0 if the other prompts do, or if it would take too many tokens.
int long_prompt_tokens(const CacheLayout& layout);

// `options` with the memory, places and limits that schedules over law_prompts() need, and the audit on.
// `border_tokens`: tokens of the longest prompt over a border.
Result<EngineSetup> law_options(EngineSetup options, const CacheLayout& layout, int border_tokens = 0);

}  // namespace sluice
