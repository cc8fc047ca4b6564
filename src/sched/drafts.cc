// Scheduler: rows for drafts.
//
// They are extra: every decoding sequence has its own row, prompts that want rows lose a quarter of theirs at most, and
// no draft takes a page that somebody was promised or waits for.
//
// Adaptive: let E be the tokens that the step is expected to give, T its time. A draft at depth j of a sequence whose
// drafts are right with chance c adds c^j to E, and a row to T. All drafts of all sequences, the likeliest first, are
// taken as far as E / T is largest. Chances are levels, so that they need not be sorted: linear in sequences and depth.
#include "sched/drafts.h"

#include <algorithm>

#include "base/check.h"
#include "sched/scheduler.h"

namespace sluice {
namespace {

constexpr std::size_t kLevels = 64;
constexpr int kTriesAgainAfter = 48;  // plans without a draft

std::size_t level_of(double chance) {
  return std::min(kLevels - 1, static_cast<std::size_t>(chance * kLevels));
}

double expected_tokens(double chance, int drafts) {
  double sum = 0, all_right = 1;
  for (int j = 0; j < drafts; ++j) sum += all_right *= chance;
  return sum;
}

}  // namespace

double DraftLimits::step(int rows) const {
  if (step_seconds.size() < 2) return 1;
  const auto last = step_seconds.size() - 1, at = static_cast<std::size_t>(std::max(rows, 1)) - 1;
  if (at <= last) return step_seconds[at];
  const double slope = std::max(0.0, step_seconds[last] - step_seconds[last - 1]);
  return step_seconds[last] + slope * static_cast<double>(at - last);
}

void DraftRecord::add(DraftSource source, int drafted, int right) {
  const auto s = static_cast<std::size_t>(source);
  for (int j = 0; j < std::min(right + 1, drafted); ++j) {
    weights_[s] = std::min(weights_[s] + 1, kMostWeight);
    chances_[s] += ((j < right ? 1.0F : 0.0F) - chances_[s]) / static_cast<float>(weights_[s]);
  }
}

void Scheduler::plan_drafts(const PlanFacts& facts) {
  if (limits_.drafts.most == 0 || facts.offers.empty()) return;
  if (static_cast<int>(plan_.spans.size()) < turns_.size()) return;  // some have no row of their own
  const bool prompts_want = limits_.mixed && (!prompts_.empty() || !waiting_.empty());
  const int rows = prompts_want ? budget_left() / 4 : budget_left();
  choose_offers(facts);
  if (limits_.drafts.adaptive) {
    choose_paying(rows, prompts_want);
  } else {
    for (DraftChoice& choice : draft_choices_) choice.granted = choice.most;
  }
  int left = rows;
  for (const DraftChoice& choice : draft_choices_) {
    const int granted = std::min(choice.granted, left);
    if (granted > 0) left -= give_drafts(*choice.entry, choice.source, granted);
  }
}

// The best offer of each sequence that can have drafts.
void Scheduler::choose_offers(const PlanFacts& facts) {
  draft_choices_.clear();
  for (const DraftOffer& offer : facts.offers) {
    Entry& e = entry(offer.sequence);
    if (e.state != State::kDecoding || !has_span(e)) continue;
    // None is computed for tokens past the end of the answer.
    const int most = std::min({offer.tokens, limits_.drafts.most, e.counts.rows() - e.computed - 1});
    if (most <= 0) continue;
    const DraftChoice choice{&e, offer.source, most, e.record.chance(offer.source)};
    if (draft_choices_.empty() || draft_choices_.back().entry != &e) {
      draft_choices_.push_back(choice);
    } else if (expected_tokens(choice.chance, most) >
               expected_tokens(draft_choices_.back().chance, draft_choices_.back().most)) {
      draft_choices_.back() = choice;
    }
  }
}

// Grants those that pay, up to `rows`.
void Scheduler::choose_paying(int rows, bool full_step) {
  std::array<int, kLevels> drafts{};  // by chance
  double drafting = 0;
  for (const DraftChoice& choice : draft_choices_) {
    double chance = 1;
    for (int j = 0; j < choice.most; ++j) ++drafts[level_of(chance *= choice.chance)];
    drafting = std::max(drafting, limits_.drafts.seconds[static_cast<std::size_t>(choice.source)]);
  }
  // Beside prompts the step is full anyway.
  const int own_rows = full_step ? limits_.max_batched_tokens : plan_.rows;
  double tokens = plan_.rows, best = tokens / limits_.drafts.step(own_rows);
  int taken = 0, best_taken = 0;
  for (std::size_t level = kLevels; level-- > 0 && taken < rows;) {
    for (int i = 0; i < drafts[level] && taken < rows; ++i) {
      ++taken;
      tokens += (static_cast<double>(level) + 0.5) / kLevels;
      const double rate = tokens / (limits_.drafts.step(own_rows + taken) + taken * drafting);
      if (rate > best) best = rate, best_taken = taken;
    }
  }
  grant_likeliest(drafts, best_taken);
}

// The `count` likeliest of the drafts; of equal ones those of the sequences whose turn is first.
void Scheduler::grant_likeliest(std::span<const int> drafts, int count) {
  std::size_t level = kLevels;
  while (level > 0 && count >= drafts[level - 1]) count -= drafts[--level];
  for (DraftChoice& choice : draft_choices_) {
    double chance = 1;
    for (choice.granted = 0; choice.granted < choice.most; ++choice.granted) {
      const std::size_t of = level_of(chance *= choice.chance);
      if (of >= level) continue;
      if (of + 1 < level || count == 0) break;
      --count;
    }
    choice.entry->plans_without_draft = choice.granted > 0 ? 0 : choice.entry->plans_without_draft + 1;
    if (choice.entry->plans_without_draft < kTriesAgainAfter) continue;
    choice.entry->plans_without_draft = 0;
    choice.granted = 1;
  }
}

// Those that fit the pages that nobody else was promised, or waits for.
int Scheduler::give_drafts(Entry& e, DraftSource source, int count) {
  const int in_block = kBlockTokens - 1 - e.computed % kBlockTokens;
  if (count > in_block) {
    const Span longer{.sequence = {}, .first_position = e.computed, .rows = 1 + count};
    const int pages = limits_.geometry.latent_pages(e.computed + 1 + count) - e.held;
    const bool fits =
        waiting() == 0 && pages + watermark_ <= unpromised_pages() && extra_windows(longer) <= spare_windows_;
    if (!fits) count = in_block;
  }
  if (count == 0) return 0;
  e.drafts = count;
  const int given = give(e, count);
  e.drafts = 0;
  Span& span = plan_.spans[e.span_index];
  span.drafts = given;
  span.source = source;
  return given;
}

void Scheduler::judged(SequenceId id, DraftSource source, int drafted, int right) {
  SLUICE_CHECK(right >= 0 && right <= drafted, "of the drafts some are right");
  Entry& e = entry(id);
  SLUICE_CHECK(e.state == State::kDecoding && !has_span(e), "what is judged has been computed");
  e.record.add(source, drafted, right);
  e.computed += right;
  e.known += right;
  e.held = limits_.geometry.latent_pages(e.computed);
}

}  // namespace sluice
