// check_moves: sequences that continue on another device. Two runners have the same model, one of them on the CPU; the
// sequences of a schedule are cut at random and moved between the two as images of the swap space, most of them several
// times. Every row's logits must be those of its prompt alone, on the CPU in one piece, bit by bit: so the devices give
// the same bits, and what one has cached serves the other. Thread safety: as check_row_law's, for both runners.
#pragma once

#include <span>
#include <vector>

#include "engine/runner.h"
#include "sluice/status.h"
#include "verify/law_check.h"
#include "verify/law_report.h"

namespace sluice {

// Of `options`: seed, first_schedule, schedules, seconds, min_rows, max_sequences, every_row, progress. A schedule that
// differs is reported as it is. Fails when a step cannot run.
Result<LawReport> check_moves(Runner& runner, Runner& cpu, std::span<const std::vector<TokenId>> prompts,
                              const LawOptions& options);

}  // namespace sluice
