// The schedules of check_row_law: plain values that can be made from a seed, cut down and printed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/law_check.h"

namespace sluice {

struct LawPiece {
  int sequence = 0;
  int rows = 0;
  bool keep = true;  // false: wrong tokens, forgotten afterwards
};

struct LawStep {
  int threads = 1;
  std::vector<LawPiece> pieces;  // each of another sequence
};

struct LawSchedule {
  std::vector<int> prompts;  // [sequence]
  std::vector<LawStep> steps;

  std::string text() const;  // one line a step
};

LawSchedule make_law_schedule(std::span<const std::vector<TokenId>> prompts, const LawOptions& options, int number);

// Smaller variants of a schedule, the boldest first; each is a valid schedule.
std::vector<LawSchedule> smaller_schedules(const LawSchedule& schedule);

}  // namespace sluice
