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

  // At least two sequences and min_rows rows; every other one may have the prompt of one before it.
  void choose_sequences() {
    int rows = 0;
    for (int i = 0; i < options_.max_sequences && (i < 2 || rows < options_.min_rows || one_in(4)); ++i) {
      LawSequence sequence;
      sequence.prompt = i > 0 && one_in(2) ? schedule_.sequences[static_cast<std::size_t>(below(i))].prompt
                                           : below(static_cast<int>(prompts_.size()));
      // Long enough that the rest can be reached, if there are such prompts.
      const int wanted = (options_.min_rows - rows) / (options_.max_sequences - i);
      for (int tries = 0; tries < 50 && length_of(sequence) < wanted; ++tries) {
        sequence.prompt = below(static_cast<int>(prompts_.size()));
      }
      const int length = length_of(sequence);
      sequence.cached = !one_in(4);
      sequence.keeps_all = one_in(2);
      sequence.hit_limit = one_in(2) ? length : below(length + 1);
      rows += length;
      unfinished_.push_back(i);
      schedule_.sequences.push_back(sequence);
      at_.push_back(0);
      // How this one is cut: the largest piece. One row at a time is slow, so it is for short sequences.
      const std::vector<int> largest = {length <= 150 ? 1 : 9, 3, 4, 5, 127, 128, 129, 1 + below(700), length};
      largest_.push_back(pick(largest));
      fixed_.push_back(one_in(2));
    }
    active_ = 1 + static_cast<std::size_t>(below(static_cast<int>(unfinished_.size())));
    if (one_in(3)) return;
    schedule_.free_pages = 2 + below(3 * rows / (2 * kBlockTokens));
  }

  int length_of(const LawSequence& s) const {
    return static_cast<int>(prompts_[static_cast<std::size_t>(s.prompt)].size());
  }

  int piece_rows(std::size_t s) {
    const int most = largest_[s];
    return std::min(fixed_[s] ? most : 1 + below(most), length_of(schedule_.sequences[s]) - at_[s]);
  }

  void add_step() {
    if (one_in(8)) threads_ = pick(options_.thread_counts);
    LawStep step{.threads = threads_, .pieces = {}};
    // Few at a time: the others begin when their prefix may be cached.
    const auto active = std::min(unfinished_.size(), active_);
    shuffle(std::span(unfinished_).first(active));
    const std::size_t company = 1 + static_cast<std::size_t>(below(static_cast<int>(active)));
    int budget = options_.max_step_rows;
    for (std::size_t i = 0; i < company && budget > 0; ++i) {
      const auto s = static_cast<std::size_t>(unfinished_[i]);
      const int rows = std::min(piece_rows(s), budget);
      LawPiece piece{.sequence = unfinished_[i], .end = at_[s] + rows, .keep = !one_in(12)};
      budget -= rows;
      if (piece.keep) at_[s] = piece.end;
      if (piece.keep && one_in(6)) add_event(&piece);
      step.pieces.push_back(piece);
    }
    schedule_.steps.push_back(std::move(step));
    std::erase_if(unfinished_, [this](int s) {
      return at_[static_cast<std::size_t>(s)] == length_of(schedule_.sequences[static_cast<std::size_t>(s)]);
    });
  }

  void add_event(LawPiece* piece) {
    const auto s = static_cast<std::size_t>(piece->sequence);
    switch (below(7)) {
      case 0:
      case 1:
        piece->after = LawEvent::kDrop;
        piece->argument = one_in(2) ? piece->end : below(piece->end + 1);
        // Most of them are computed again at once, as a scheduler would, some in small pieces.
        if (!one_in(3)) largest_[s] = std::max(largest_[s], 300);
        break;
      case 2:
        piece->after = LawEvent::kSwap;
        break;
      case 3:
        piece->after = LawEvent::kTruncate;
        piece->argument = one_in(2) ? std::max(0, piece->end - 1 - below(200)) : below(piece->end + 1);
        break;
      case 4:
      case 5:
        piece->after = LawEvent::kFork;
        piece->argument = fork_child(s);
        break;
      default:
        piece->after = LawEvent::kAbort;
        at_[s] = length_of(schedule_.sequences[s]);
    }
  }

  // A sequence that has not begun and has the same prompt, if there is one.
  int fork_child(std::size_t parent) {
    for (std::size_t s = 0; s < at_.size(); ++s) {
      if (at_[s] == 0 && schedule_.sequences[s].prompt == schedule_.sequences[parent].prompt)
        return static_cast<int>(s);
    }
    return below(static_cast<int>(at_.size()));
  }

  // std::shuffle may differ between libraries; a seed shall mean the same everywhere.
  void shuffle(std::span<int> items) {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[static_cast<std::size_t>(below(static_cast<int>(i)))]);
  }

  std::span<const std::vector<TokenId>> prompts_;
  const LawOptions& options_;
  std::mt19937_64 random_;
  LawSchedule schedule_;
  std::vector<int> unfinished_;
  std::vector<int> at_, largest_;  // [sequence]
  std::vector<bool> fixed_;
  std::size_t active_ = 1;  // sequences that run at a time
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

LawSchedule uncached(LawSchedule schedule, std::size_t sequence) {
  schedule.sequences[sequence] = {.prompt = schedule.sequences[sequence].prompt};
  return schedule;
}

}  // namespace

LawSchedule make_law_schedule(std::span<const std::vector<TokenId>> prompts, const LawOptions& options, int number) {
  return Maker(prompts, options, number).make();
}

std::vector<LawSchedule> smaller_schedules(const LawSchedule& schedule) {
  std::vector<LawSchedule> smaller;
  std::vector<bool> used(schedule.sequences.size());
  bool threads = false, forgotten = false;
  for (const LawStep& step : schedule.steps) {
    threads |= step.threads != 1;
    for (const LawPiece& piece : step.pieces) {
      used[static_cast<std::size_t>(piece.sequence)] = true;
      forgotten |= !piece.keep;
    }
  }
  for (std::size_t s = 0; s < used.size(); ++s) {
    if (used[s] && std::count(used.begin(), used.end(), true) > 1) {
      smaller.push_back(without_sequence(schedule, static_cast<int>(s)));
    }
  }
  if (forgotten) smaller.push_back(without_forgotten(schedule));
  if (threads) smaller.push_back(with_one_thread(schedule));
  if (schedule.free_pages > 0) {
    smaller.push_back(schedule);
    smaller.back().free_pages = 0;
  }
  for (std::size_t s = 0; s < used.size(); ++s) {
    if (used[s] && schedule.sequences[s].cached) smaller.push_back(uncached(schedule, s));
  }
  const auto variant = [&](std::size_t step, std::size_t piece, const auto& change) {
    LawSchedule copy = schedule;
    auto& pieces = copy.steps[step].pieces;
    change(pieces, pieces.begin() + static_cast<std::ptrdiff_t>(piece));
    drop_empty_steps(&copy);
    smaller.push_back(std::move(copy));
  };
  for (std::size_t s = 0; s < schedule.steps.size(); ++s) {
    for (std::size_t p = 0; p < schedule.steps[s].pieces.size(); ++p) {
      // A piece that is left out is computed with the next one of its sequence.
      variant(s, p, [](auto& pieces, auto piece) { pieces.erase(piece); });
      if (schedule.steps[s].pieces[p].after == LawEvent::kNone) continue;
      variant(s, p, [](auto&, auto piece) { piece->after = LawEvent::kNone; });
    }
  }
  return smaller;
}

namespace {

std::string event_text(const LawPiece& piece) {
  switch (piece.after) {
    case LawEvent::kNone:
      return "";
    case LawEvent::kDrop:
      return fmt::format(", then preempted, to begin again from at most {} cached tokens", piece.argument);
    case LawEvent::kSwap:
      return ", then swapped out";
    case LawEvent::kTruncate:
      return fmt::format(", then truncated to {}", piece.argument);
    case LawEvent::kFork:
      return fmt::format(", then forked to sequence {}", piece.argument);
    case LawEvent::kAbort:
      return ", then aborted";
  }
  return "";
}

}  // namespace

std::string LawSchedule::text() const {
  std::string text;
  if (free_pages > 0) text += fmt::format("  with {} free pages at first\n", free_pages);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    text += fmt::format("  step {}, {} threads:", i, steps[i].threads);
    for (const LawPiece& piece : steps[i].pieces) {
      const LawSequence& s = sequences[static_cast<std::size_t>(piece.sequence)];
      text += fmt::format(" sequence {} (prompt {}{}) to token {}{}{};", piece.sequence, s.prompt,
                          s.cached ? fmt::format(", cached to {}", s.hit_limit) : "", piece.end,
                          piece.keep ? "" : " with wrong tokens, forgotten", event_text(piece));
    }
    text += "\n";
  }
  return text;
}

}  // namespace sluice
