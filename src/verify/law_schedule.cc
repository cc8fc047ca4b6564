// Used by law_borders.h, law_check.cc, law_requests.cc and law_workload.h.
#include "verify/law_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "cache/pages/page_geometry.h"

namespace sluice {
namespace {

enum class ScheduleSituation { kPreemptions, kBranches, kStrangers, kAny };

class ScheduleMaker {
 public:
  ScheduleMaker(std::span<const std::vector<TokenId>> prompts, const LawOptions& options, int number)
      : prompts_(prompts),
        short_prompts_(static_cast<int>(prompts.size()) - options.long_prompts),
        options_(options),
        number_(number),
        situation_(static_cast<ScheduleSituation>(number % kLawSituations)),
        random_(options.seed + static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15U) {}

  LawSchedule make() {
    choose_sequences();
    threads_ = options_.thread_counts[static_cast<std::size_t>(number_) % options_.thread_counts.size()];
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
    bool short_of_pages = (number_ / kLawSituations) % 2 == 1;
    switch (situation_) {
      case ScheduleSituation::kPreemptions:
        choose_preempted();
        break;
      case ScheduleSituation::kBranches:
        choose_branches();
        break;
      case ScheduleSituation::kStrangers:
        if (choose_strangers()) return;
        break;
      case ScheduleSituation::kAny:
        short_of_pages = !one_in(3);
        if (options_.long_prompts > 0 && number_ % kLongPromptEvery == 3) choose_long();
    }
    choose_company();
    active_ = 1 + static_cast<std::size_t>(below(static_cast<int>(unfinished_.size())));
    if (short_of_pages) schedule_.free_pages = 2 + below(3 * rows_ / (2 * kBlockTokens));
  }

  // Chooses one whose first piece completes a block, so that it can resume there when it is preempted.
  void choose_preempted() {
    wanted_ = {LawEvent::kDrop, LawEvent::kSwap, LawEvent::kAbort};
    const std::vector<int> long_enough = prompts_where([](int length) { return length > 2 * kBlockTokens; });
    if (long_enough.empty()) return;
    const int length = length_of(add(pick(long_enough), true));
    first_piece_[0] = kBlockTokens + 1 + below(length - kBlockTokens - 1);
  }

  // Two that begin alike. The second begins where the first, after its first piece, is forked.
  void choose_branches() {
    wanted_ = {LawEvent::kTruncate};
    wants_wrong_tokens_ = true;
    std::vector<std::pair<int, int>> pairs;
    for (int a = 0; a < short_prompts_; ++a) {
      for (int b = 0; b < short_prompts_; ++b) {
        if (a != b && common(a, b) >= kBlockTokens) pairs.emplace_back(a, b);
      }
    }
    if (pairs.empty()) return;
    const auto [first, second] = pairs[static_cast<std::size_t>(below(static_cast<int>(pairs.size())))];
    add(first, !one_in(4)).hit_limit = 0;  // it is to be where it is forked, not further
    add(second, !one_in(4));
    unfinished_.pop_back();
    const int most = std::min(common(first, second), std::min(length(first), length(second)) - 1);
    first_piece_[0] = 1 + below(most);
    if (first_piece_[0] % kBlockTokens == 0) --first_piece_[0];  // within a page that both go on to write
  }

  // Chooses prompts that are cached one after the other, until they leave more blocks than there are pages.
  bool choose_strangers() {
    std::vector<int> candidates = prompts_where([](int n) { return n > kBlockTokens && n % kBlockTokens != 0; });
    shuffle(std::span(candidates));
    const std::vector<int> strangers = strangers_of(prompts_, candidates);
    if (strangers.size() < 3) return false;
    int blocks = 0, most = 0;
    for (std::size_t i = 0; static_cast<int>(i) < options_.max_sequences; ++i) {
      if (i >= 3 && blocks > most + options_.blocks_to_evict && rows_ >= options_.min_rows) break;
      const int needed = blocks_for(length_of(add(strangers[i % strangers.size()], true)));
      blocks += needed;
      most = std::max(most, needed);
    }
    schedule_.free_pages = most + 1;
    return true;
  }

  void choose_long() {
    const int prompt = short_prompts_ + below(options_.long_prompts);
    add(prompt, true);
    add(prompt, !one_in(4));
  }

  // At least two sequences and min_rows rows; every other one may have the prompt of one before it.
  void choose_company() {
    for (int i = static_cast<int>(schedule_.sequences.size());
         i < options_.max_sequences && (i < 2 || rows_ < options_.min_rows || one_in(4)); ++i) {
      int prompt =
          i > 0 && one_in(2) ? schedule_.sequences[static_cast<std::size_t>(below(i))].prompt : below(short_prompts_);
      // Long enough that the rest can be reached, if there are such prompts.
      const int wanted = (options_.min_rows - rows_) / (options_.max_sequences - i);
      for (int tries = 0; tries < 50 && length(prompt) < wanted; ++tries) prompt = below(short_prompts_);
      add(prompt, !one_in(4));
    }
  }

  LawSequence& add(int prompt, bool cached) {
    LawSequence& sequence = schedule_.sequences.emplace_back();
    sequence.prompt = prompt;
    sequence.cached = cached;
    sequence.keeps_all = one_in(2);
    const int rows = length(prompt);
    sequence.hit_limit = one_in(2) ? rows : below(rows + 1);
    rows_ += rows;
    unfinished_.push_back(static_cast<int>(at_.size()));
    at_.push_back(0);
    first_piece_.push_back(0);
    // The largest piece decides how this one is cut. One row at a time is slow, so it is for short sequences.
    std::vector<int> largest = {127, 128, 129, 1 + below(700), rows};
    if (rows <= 1000) largest.insert(largest.end(), {rows <= 150 ? 1 : 9, 3, 4, 5});
    largest_.push_back(pick(largest));
    fixed_.push_back(one_in(2));
    return sequence;
  }

  template <class Wanted>
  std::vector<int> prompts_where(const Wanted& wanted) const {
    std::vector<int> found;
    for (int p = 0; p < short_prompts_; ++p) {
      if (wanted(length(p))) found.push_back(p);
    }
    return found;
  }
  int length(int prompt) const { return static_cast<int>(prompts_[static_cast<std::size_t>(prompt)].size()); }
  int length_of(const LawSequence& s) const { return length(s.prompt); }
  bool is_long(std::size_t s) const { return schedule_.sequences[s].prompt >= short_prompts_; }
  int left(std::size_t s) const { return length_of(schedule_.sequences[s]) - at_[s]; }
  int common(int a, int b) const {
    return common_tokens(prompts_[static_cast<std::size_t>(a)], prompts_[static_cast<std::size_t>(b)]);
  }

  int piece_rows(std::size_t s) {
    if (first_piece_[s] > 0) return first_piece_[s];
    const int most = largest_[s];
    const int rows = std::min(fixed_[s] ? most : 1 + below(most), left(s));
    // A wanted event happens between two pieces.
    return wanted_.empty() && !wants_wrong_tokens_ ? rows : std::min(rows, (left(s) + 1) / 2);
  }

  void add_step() {
    if (!schedule_.steps.empty() && one_in(8)) threads_ = pick(options_.thread_counts);
    LawStep step{.threads = threads_, .pieces = {}};
    // Few at a time: the others begin when their prefix may be cached.
    const auto active = std::min(unfinished_.size(), active_);
    shuffle(std::span(unfinished_).first(active));
    const std::size_t company = 1 + static_cast<std::size_t>(below(static_cast<int>(active)));
    int budget = options_.max_step_rows;
    for (std::size_t i = 0; i < company && budget > 0; ++i) {
      const auto s = static_cast<std::size_t>(unfinished_[i]);
      const int wanted = piece_rows(s);
      if (first_piece_[s] > budget) continue;
      const int rows = std::min(wanted, budget);
      LawPiece piece{.sequence = unfinished_[i], .end = at_[s] + rows};
      piece.keep = first_piece_[s] > 0 || !(std::exchange(wants_wrong_tokens_, false) || one_in(12));
      budget -= rows;
      if (piece.keep && one_in(3)) add_drafts(s, rows, &piece, &budget);
      if (piece.keep) at_[s] = piece.end;
      if (piece.keep && !add_wanted_event(&piece) && one_in(6)) add_event(&piece);
      first_piece_[s] = 0;
      step.pieces.push_back(piece);
    }
    if (!step.pieces.empty()) schedule_.steps.push_back(std::move(step));
    std::erase_if(unfinished_, [this](int s) { return left(static_cast<std::size_t>(s)) == 0; });
  }

  // Makes drafts of some of the piece's own tokens, which are right, and of others after it, which are wrong.
  void add_drafts(std::size_t s, int rows, LawPiece* piece, int* budget) {
    if (!one_in(3) && first_piece_[s] == 0) {  // as in an answer: all but the first row are drafts
      rows = std::min(rows, 1 + below(1 + kMostDrafts));
      piece->end = at_[s] + rows;
    }
    piece->drafts = 1 + below(kMostDrafts);
    piece->right = std::min(rows - 1, below(1 + piece->drafts));
    // Or wrong ones complete a block.
    const int before_block = (at_[s] / kBlockTokens + 1) * kBlockTokens - 1 - below(3);
    if (one_in(3) && before_block > at_[s] && before_block <= piece->end && first_piece_[s] == 0) {
      piece->end = before_block;
      piece->drafts = kMostDrafts;
      piece->right = std::min(below(3), before_block - at_[s] - 1);
    }
    piece->drafts = std::min(piece->drafts, piece->right + *budget);
    *budget -= piece->drafts - piece->right;
  }

  // The first of the events that the schedule is to have which can happen here.
  bool add_wanted_event(LawPiece* piece) {
    const auto s = static_cast<std::size_t>(piece->sequence);
    if (situation_ == ScheduleSituation::kBranches && s == 0 && first_piece_[0] > 0) {
      piece->after = LawEvent::kFork;
      piece->argument = 1;
      at_[1] = piece->end;
      unfinished_.push_back(1);
      return true;
    }
    if (left(s) == 0) return false;
    for (auto event = wanted_.begin(); event != wanted_.end(); ++event) {
      if (*event == LawEvent::kDrop && first_piece_[s] == 0) continue;
      if (*event == LawEvent::kAbort && (wanted_.size() > 1 || is_long(s))) continue;
      piece->after = *event;
      wanted_.erase(event);
      if (piece->after == LawEvent::kDrop) piece->argument = piece->end;
      if (piece->after == LawEvent::kTruncate) piece->argument = std::max(0, piece->end - 1 - below(200));
      if (piece->after == LawEvent::kAbort) at_[s] = length_of(schedule_.sequences[s]);
      return true;
    }
    return false;
  }

  void add_event(LawPiece* piece) {
    const auto s = static_cast<std::size_t>(piece->sequence);
    // Strangers leave cached pages and hold none at the same time; branches are to part.
    const bool no_more =
        situation_ == ScheduleSituation::kStrangers || (situation_ == ScheduleSituation::kBranches && s < 2);
    switch (below(no_more ? 4 : 7)) {
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
        if (is_long(s)) {  // a long prompt tests its last rows
          piece->after = LawEvent::kSwap;
          break;
        }
        piece->after = LawEvent::kAbort;
        at_[s] = length_of(schedule_.sequences[s]);
    }
  }

  // A sequence that has not begun and has the same tokens up to here, if there is one; of another prompt if possible.
  int fork_child(std::size_t parent) {
    const int own = schedule_.sequences[parent].prompt;
    int child = below(static_cast<int>(at_.size()));
    for (std::size_t s = 0; s < at_.size(); ++s) {
      const int prompt = schedule_.sequences[s].prompt;
      if (at_[s] > 0 || common(own, prompt) < at_[parent]) continue;
      child = static_cast<int>(s);
      if (prompt != own) break;
    }
    return child;
  }

  // std::shuffle may differ between libraries; a seed shall mean the same everywhere.
  void shuffle(std::span<int> items) {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[static_cast<std::size_t>(below(static_cast<int>(i)))]);
  }

  std::span<const std::vector<TokenId>> prompts_;
  const int short_prompts_;  // the short prompts come first
  const LawOptions& options_;
  const int number_;
  const ScheduleSituation situation_;
  std::mt19937_64 random_;
  LawSchedule schedule_;
  int rows_ = 0;  // rows of all sequences
  std::vector<int> unfinished_;
  std::vector<int> at_, largest_, first_piece_;  // [sequence]; first_piece_: its rows, 0 for any, or when it is over
  std::vector<bool> fixed_;
  std::vector<LawEvent> wanted_;  // events still to happen
  bool wants_wrong_tokens_ = false;
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

LawSchedule without_drafts(LawSchedule schedule) {
  for (LawStep& step : schedule.steps) {
    for (LawPiece& piece : step.pieces) piece.drafts = piece.right = 0;
  }
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

int common_tokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<int>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

std::vector<int> strangers_of(std::span<const std::vector<TokenId>> prompts, std::span<const int> candidates) {
  std::vector<int> strangers;
  for (const int candidate : candidates) {
    const bool related = std::any_of(strangers.begin(), strangers.end(), [&](int other) {
      return common_tokens(prompts[static_cast<std::size_t>(candidate)], prompts[static_cast<std::size_t>(other)]) >=
             kBlockTokens;
    });
    if (!related) strangers.push_back(candidate);
  }
  return strangers;
}

LawSchedule make_law_schedule(std::span<const std::vector<TokenId>> prompts, const LawOptions& options, int number) {
  return ScheduleMaker(prompts, options, number).make();
}

std::vector<LawSchedule> smaller_schedules(const LawSchedule& schedule) {
  std::vector<LawSchedule> smaller;
  std::vector<bool> used(schedule.sequences.size());
  bool threads = false, forgotten = false, drafts = false;
  for (const LawStep& step : schedule.steps) {
    threads |= step.threads != 1;
    for (const LawPiece& piece : step.pieces) {
      used[static_cast<std::size_t>(piece.sequence)] = true;
      forgotten |= !piece.keep;
      drafts |= piece.drafts > 0;
    }
  }
  for (std::size_t s = 0; s < used.size(); ++s) {
    if (used[s] && std::count(used.begin(), used.end(), true) > 1) {
      smaller.push_back(without_sequence(schedule, static_cast<int>(s)));
    }
  }
  if (forgotten) smaller.push_back(without_forgotten(schedule));
  if (drafts) smaller.push_back(without_drafts(schedule));
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
      if (schedule.steps[s].pieces[p].drafts > 0) {
        variant(s, p, [](auto&, auto piece) { piece->drafts = piece->right = 0; });
      }
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
      const std::string drafts =
          piece.drafts > 0 ? fmt::format(" with {} drafts, {} of them right", piece.drafts, piece.right) : "";
      text += fmt::format(" sequence {} (prompt {}{}) to token {}{}{}{};", piece.sequence, s.prompt,
                          s.cached ? fmt::format(", cached to {}", s.hit_limit) : "", piece.end,
                          piece.keep ? "" : " with wrong tokens, forgotten", drafts, event_text(piece));
    }
    text += "\n";
  }
  return text;
}

}  // namespace sluice
