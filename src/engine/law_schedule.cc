#include "engine/law_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace sluice {
namespace {

class Maker {
 public:
  Maker(std::span<const std::vector<TokenId>> prompts, const LawOptions& options, int number)
      : prompts_(prompts),
        options_(options),
        random_(options.seed + static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15U) {}

  LawSchedule make() {
    choose_sequences();
    threads_ = pick(options_.thread_counts);
    while (!unfinished_.empty()) add_step();
    return std::move(schedule_);
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  int pick(const std::vector<int>& from) {
    return from[static_cast<std::size_t>(below(static_cast<int>(from.size())))];
  }

  void choose_sequences() {
    const int wanted = 1 + below(options_.max_sequences);
    int rows = 0;
    for (int i = 0; i < wanted; ++i) {
      const int prompt = below(static_cast<int>(prompts_.size()));
      int length = static_cast<int>(prompts_[static_cast<std::size_t>(prompt)].size());
      if (one_in(4)) length = 1 + below(length);  // closed early
      if (i > 0 && rows + length > options_.max_rows) continue;
      rows += length;
      unfinished_.push_back(static_cast<int>(schedule_.prompts.size()));
      schedule_.prompts.push_back(prompt);
      left_.push_back(length);
      // How this one is cut: the largest piece. One row at a time is slow, so it is for short sequences.
      const std::vector<int> largest = {length <= 150 ? 1 : 9, 3, 4, 5, 127, 128, 129, 1 + below(300), length};
      largest_.push_back(pick(largest));
      fixed_.push_back(one_in(2));
    }
  }

  int piece_rows(std::size_t s) {
    const int most = largest_[s];
    return std::min(fixed_[s] ? most : 1 + below(most), left_[s]);
  }

  void add_step() {
    if (one_in(8)) threads_ = pick(options_.thread_counts);
    LawStep step{.threads = threads_, .pieces = {}};
    shuffle(unfinished_);
    const std::size_t company = 1 + static_cast<std::size_t>(below(static_cast<int>(unfinished_.size())));
    int budget = options_.max_step_rows;
    for (std::size_t i = 0; i < company && budget > 0; ++i) {
      const auto s = static_cast<std::size_t>(unfinished_[i]);
      LawPiece piece{.sequence = unfinished_[i], .rows = std::min(piece_rows(s), budget), .keep = !one_in(12)};
      budget -= piece.rows;
      if (piece.keep) left_[s] -= piece.rows;
      step.pieces.push_back(piece);
    }
    schedule_.steps.push_back(std::move(step));
    std::erase_if(unfinished_, [this](int s) { return left_[static_cast<std::size_t>(s)] == 0; });
  }

  // std::shuffle may differ between libraries; a seed shall mean the same everywhere.
  void shuffle(std::vector<int>& items) {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[static_cast<std::size_t>(below(static_cast<int>(i)))]);
  }

  std::span<const std::vector<TokenId>> prompts_;
  const LawOptions& options_;
  std::mt19937_64 random_;
  LawSchedule schedule_;
  std::vector<int> unfinished_;
  std::vector<int> left_, largest_;  // [sequence]
  std::vector<bool> fixed_;
  int threads_ = 1;
};

void drop_empty_steps(LawSchedule* schedule) {
  std::erase_if(schedule->steps, [](const LawStep& step) { return step.pieces.empty(); });
}

LawSchedule without_sequence(LawSchedule schedule, int sequence) {
  for (LawStep& step : schedule.steps) {
    std::erase_if(step.pieces, [&](const LawPiece& piece) { return piece.sequence == sequence; });
  }
  drop_empty_steps(&schedule);
  return schedule;
}

LawSchedule without_forgotten(LawSchedule schedule) {
  for (LawStep& step : schedule.steps) std::erase_if(step.pieces, [](const LawPiece& piece) { return !piece.keep; });
  drop_empty_steps(&schedule);
  return schedule;
}

LawSchedule with_one_thread(LawSchedule schedule) {
  for (LawStep& step : schedule.steps) step.threads = 1;
  return schedule;
}

// The piece joins the next kept one of its sequence.
bool merge_with_next(LawSchedule* schedule, std::size_t step, std::size_t piece) {
  const LawPiece merged = schedule->steps[step].pieces[piece];
  for (std::size_t s = step + 1; s < schedule->steps.size(); ++s) {
    for (LawPiece& next : schedule->steps[s].pieces) {
      if (next.sequence != merged.sequence || !next.keep) continue;
      next.rows += merged.rows;
      auto& pieces = schedule->steps[step].pieces;
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(piece));
      drop_empty_steps(schedule);
      return true;
    }
  }
  return false;
}

}  // namespace

LawSchedule make_law_schedule(std::span<const std::vector<TokenId>> prompts, const LawOptions& options, int number) {
  return Maker(prompts, options, number).make();
}

std::vector<LawSchedule> smaller_schedules(const LawSchedule& schedule) {
  std::vector<LawSchedule> smaller;
  std::vector<bool> used(schedule.prompts.size());
  bool threads = false, forgotten = false;
  for (const LawStep& step : schedule.steps) {
    threads |= step.threads != 1;
    for (const LawPiece& piece : step.pieces) {
      used[static_cast<std::size_t>(piece.sequence)] = true;
      forgotten |= !piece.keep;
    }
  }
  if (std::count(used.begin(), used.end(), true) > 1) {
    for (std::size_t s = 0; s < used.size(); ++s) {
      if (used[s]) smaller.push_back(without_sequence(schedule, static_cast<int>(s)));
    }
  }
  if (forgotten) smaller.push_back(without_forgotten(schedule));
  if (threads) smaller.push_back(with_one_thread(schedule));
  for (std::size_t s = 0; s < schedule.steps.size(); ++s) {
    for (std::size_t p = 0; p < schedule.steps[s].pieces.size(); ++p) {
      LawSchedule merged = schedule;
      if (schedule.steps[s].pieces[p].keep && merge_with_next(&merged, s, p)) smaller.push_back(std::move(merged));
    }
  }
  return smaller;
}

std::string LawSchedule::text() const {
  std::string text;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    text += fmt::format("  step {}, {} threads:", i, steps[i].threads);
    for (const LawPiece& piece : steps[i].pieces) {
      text +=
          fmt::format(" sequence {} (prompt {}) {} rows{};", piece.sequence,
                      prompts[static_cast<std::size_t>(piece.sequence)], piece.rows, piece.keep ? "" : " forgotten");
    }
    text += "\n";
  }
  return text;
}

}  // namespace sluice
