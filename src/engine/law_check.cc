#include "engine/law_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "engine/law_schedule.h"

namespace sluice {
namespace {

constexpr int kMaxShrinkRuns = 400;

// A 64-bit digest of the bits of a row, so that references of any vocabulary are small.
std::uint64_t digest(std::span<const float> row) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const float value : row) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    hash = (hash ^ bits) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  }
  return hash;
}

struct Mismatch {
  std::size_t step = 0;
  int sequence = 0;
  Position position = 0;
};

class Checker {
 public:
  Checker(Runner& runner, std::span<const std::vector<TokenId>> prompts) : runner_(runner), prompts_(prompts) {
    std::size_t longest = 0;
    for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
    all_rows_.resize(longest);
    std::iota(all_rows_.begin(), all_rows_.end(), 0);
  }

  Status compute_references();
  // The first mismatch in step order, if any.
  Result<std::optional<Mismatch>> run(const LawSchedule& schedule);
  Result<LawSchedule> shrink(LawSchedule schedule, Mismatch* mismatch);
  std::int64_t comparisons() const { return comparisons_; }

 private:
  struct Live {
    StateSlot slot;
    int rows_left = 0;  // until it is closed
  };

  Status run_step(const LawSchedule& schedule, std::size_t step, std::optional<Mismatch>* mismatch);
  Status prepare(const LawSchedule& schedule, const LawStep& step);
  std::optional<Mismatch> compare(const LawSchedule& schedule, std::size_t step);
  const std::vector<TokenId>& prompt_of(const LawSchedule& schedule, int sequence) const {
    return prompts_[static_cast<std::size_t>(schedule.prompts[static_cast<std::size_t>(sequence)])];
  }

  Runner& runner_;
  std::span<const std::vector<TokenId>> prompts_;
  std::vector<std::vector<std::uint64_t>> references_;  // [prompt][position]
  std::vector<int> all_rows_;                           // 0, 1, 2, ...
  std::vector<Live> live_;                              // [sequence]
  std::vector<StepSpan> spans_;
  std::vector<std::vector<TokenId>> wrong_;  // [piece]: tokens to be forgotten
  std::int64_t comparisons_ = 0;
};

Status Checker::compute_references() {
  for (const auto& prompt : prompts_) {
    SLUICE_ASSIGN_OR_RETURN(const StateSlot slot, runner_.open());
    const StepSpan span{.sequence = slot, .ids = prompt, .logit_rows = {all_rows_.data(), prompt.size()}};
    const Status status = runner_.run_step({&span, 1});
    runner_.close(slot);
    SLUICE_RETURN_IF_ERROR(status);
    auto& digests = references_.emplace_back();
    for (std::size_t row = 0; row < prompt.size(); ++row) digests.push_back(digest(runner_.logits(row)));
  }
  return {};
}

Result<std::optional<Mismatch>> Checker::run(const LawSchedule& schedule) {
  live_.assign(schedule.prompts.size(), {});
  for (const LawStep& step : schedule.steps) {
    for (const LawPiece& piece : step.pieces) {
      live_[static_cast<std::size_t>(piece.sequence)].rows_left += piece.keep ? piece.rows : 0;
    }
  }
  std::optional<Mismatch> mismatch;
  Status status;
  for (std::size_t step = 0; step < schedule.steps.size() && status.ok() && !mismatch; ++step) {
    status = run_step(schedule, step, &mismatch);
  }
  for (const Live& live : live_) {
    if (live.slot) runner_.close(live.slot);
  }
  SLUICE_RETURN_IF_ERROR(status);
  return mismatch;
}

Status Checker::run_step(const LawSchedule& schedule, std::size_t step, std::optional<Mismatch>* mismatch) {
  const LawStep& s = schedule.steps[step];
  if (runner_.threads() != s.threads) runner_.set_threads(s.threads);
  SLUICE_RETURN_IF_ERROR(prepare(schedule, s));
  SLUICE_RETURN_IF_ERROR(runner_.run_step(spans_));
  SLUICE_RETURN_IF_ERROR(runner_.audit());
  *mismatch = compare(schedule, step);
  for (const LawPiece& piece : s.pieces) {
    Live& live = live_[static_cast<std::size_t>(piece.sequence)];
    live.rows_left -= piece.keep ? piece.rows : 0;
    if (live.rows_left > 0) continue;
    runner_.close(live.slot);
    live.slot = {};
  }
  return {};
}

Status Checker::prepare(const LawSchedule& schedule, const LawStep& step) {
  spans_.clear();
  wrong_.resize(std::max(wrong_.size(), step.pieces.size()));
  for (std::size_t i = 0; i < step.pieces.size(); ++i) {
    const LawPiece& piece = step.pieces[i];
    Live& live = live_[static_cast<std::size_t>(piece.sequence)];
    if (!live.slot) {
      SLUICE_ASSIGN_OR_RETURN(live.slot, runner_.open());
    }
    const auto& prompt = prompt_of(schedule, piece.sequence);
    const auto position = static_cast<std::size_t>(runner_.position(live.slot));
    const auto rows = static_cast<std::size_t>(piece.rows);
    std::span<const TokenId> ids = std::span(prompt).subspan(position, rows);
    if (!piece.keep) {
      wrong_[i].assign(ids.rbegin(), ids.rend());
      wrong_[i][0] = prompt[(position + prompt.size() / 2) % prompt.size()];
      ids = wrong_[i];
    }
    spans_.push_back({.sequence = live.slot,
                      .ids = ids,
                      .logit_rows = {all_rows_.data(), piece.keep ? rows : 0},
                      .keep = piece.keep});
  }
  return {};
}

std::optional<Mismatch> Checker::compare(const LawSchedule& schedule, std::size_t step) {
  std::size_t row = 0;
  for (const LawPiece& piece : schedule.steps[step].pieces) {
    if (!piece.keep) continue;
    const auto sequence = static_cast<std::size_t>(piece.sequence);
    const auto& reference = references_[static_cast<std::size_t>(schedule.prompts[sequence])];
    const Position first = runner_.position(live_[sequence].slot) - piece.rows;
    for (int i = 0; i < piece.rows; ++i, ++row, ++comparisons_) {
      if (digest(runner_.logits(row)) != reference[static_cast<std::size_t>(first + i)]) {
        return Mismatch{step, piece.sequence, first + i};
      }
    }
  }
  return std::nullopt;
}

Result<LawSchedule> Checker::shrink(LawSchedule schedule, Mismatch* mismatch) {
  int runs = 0;
  for (bool smaller = true; smaller && runs < kMaxShrinkRuns;) {
    smaller = false;
    schedule.steps.resize(mismatch->step + 1);  // what comes later has no part in it
    for (LawSchedule& candidate : smaller_schedules(schedule)) {
      if (++runs > kMaxShrinkRuns) break;
      SLUICE_ASSIGN_OR_RETURN(const std::optional<Mismatch> found, run(candidate));
      if (!found) continue;
      schedule = std::move(candidate);
      *mismatch = *found;
      smaller = true;
      break;
    }
  }
  return schedule;
}

}  // namespace

Result<LawReport> check_row_law(Runner& runner, std::span<const std::vector<TokenId>> prompts,
                                const LawOptions& options) {
  Checker checker(runner, prompts);
  SLUICE_RETURN_IF_ERROR(checker.compute_references());
  LawReport report;
  for (int number = options.first_schedule; number < options.first_schedule + options.schedules; ++number) {
    LawSchedule schedule = make_law_schedule(prompts, options, number);
    SLUICE_ASSIGN_OR_RETURN(std::optional<Mismatch> mismatch, checker.run(schedule));
    ++report.schedules;
    report.comparisons = checker.comparisons();
    if (options.progress) options.progress(report.schedules);
    if (!mismatch) continue;
    SLUICE_ASSIGN_OR_RETURN(schedule, checker.shrink(std::move(schedule), &*mismatch));
    const int prompt = schedule.prompts[static_cast<std::size_t>(mismatch->sequence)];
    report.difference = LawDifference{
        .schedule = number,
        .prompt = prompt,
        .position = mismatch->position,
        .text = fmt::format(
            "seed {} schedule {}: the logits of prompt {} at position {} (sequence {}, step {}) are not those of the "
            "prompt alone in one piece; the smallest schedule found:\n{}",
            options.seed, number, prompt, mismatch->position, mismatch->sequence, mismatch->step, schedule.text())};
    return report;
  }
  return report;
}

}  // namespace sluice
