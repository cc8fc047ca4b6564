// Scheduler: rows for drafts.
//
// Drafts are extra: every decoding sequence has its own row, and prompts that want rows lose a quarter of theirs at
// most. No draft takes a page that another sequence was promised or waits for.
//
// Adaptive: let E be the tokens that the step is expected to give, T its time. If a draft and all before it are right
// with chance c, it adds c to E, and to T a row and the time of drafting it. All drafts of all sequences are accepted,
// the likeliest first, up to the point where E / T is largest. With prompts in the step, T is the time of the decodes
// alone, as a prompt's rows are worth their time, and a row adds what it does after those of a full step. Chances are
// levels, so they need not be sorted. Beyond the table of step times E / T has no peak within a level, so only the ends
// are computed. The cost is linear in sequences and depth.
//
// If steps are enqueued before the previous tokens are known (DraftLimits::wait), a step with drafts begins and ends
// with a wait, and T includes these. So waiting_pays() decides before a plan whether the drafts that are possible once
// the tokens are known pay for the waits. It is harder to begin with drafts (two waits) than to go on (one).
// Used by sched/plan_facts.h, sched/scheduler.h, sched/step_plan.h and step_times.h.
#include "sched/drafts/drafts.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "sched/scheduler.h"

namespace sluice {
namespace {

constexpr double kLeastGain = 1.06;      // least gain of drafts, as chances and times are estimates
constexpr double kGainASequence = 0.01;  // more if steps wait: the host's work was measured for one sequence
constexpr int kMostGainSequences = 32;
constexpr int kTriesAtLeastEvery = 192;            // plans without a draft
constexpr double kPartForTries = 1.0 / 128;        // part of the time of steps
constexpr int kFirstWeight = 3, kMostWeight = 24;  // weight of the record so far, in draws
// Chances of a right draft before anything was seen: the first draft's, and later drafts'.
constexpr std::array<std::array<float, 2>, kDraftSources> kUnseen{
    {{0.4F, 0.6F}, {0.6F, 0.7F}, {0.85F, 0.9F}, {0.75F, 0.6F}, {0.9F, 0.9F}, {0.85F, 0.9F}}};

}  // namespace

double DraftLimits::step(int rows) const {
  if (step_seconds.size() < 2) return 1;
  const auto last = step_seconds.size() - 1, at = static_cast<std::size_t>(std::max(rows, 1)) - 1;
  if (at <= last) return step_seconds[at];
  const double slope = std::max(0.0, step_seconds[last] - step_seconds[last - 1]);
  return step_seconds[last] + slope * static_cast<double>(at - last);
}

DraftRecord::DraftRecord() {
  for (std::size_t s = 0; s < kDraftSources; ++s) {
    sources_[s] = {.chances = kUnseen[s], .weights = {kFirstWeight, kFirstWeight}, .levels = {}};
    sources_[s].update_levels();
  }
}

DraftRecord DraftRecord::like(const DraftRecord& others) {
  DraftRecord record = others;
  for (Source& source : record.sources_) source.weights = {kFirstWeight, kFirstWeight};
  return record;
}

void DraftRecord::add(DraftSource source, int drafted, int right) {
  Source& of = sources_[static_cast<std::size_t>(source)];
  for (int j = 0; j < std::min(right + 1, drafted); ++j) {
    const std::size_t which = j == 0 ? 0 : 1;
    of.weights[which] = static_cast<std::uint8_t>(std::min(of.weights[which] + 1, kMostWeight));
    of.chances[which] += ((j < right ? 1.0F : 0.0F) - of.chances[which]) / static_cast<float>(of.weights[which]);
  }
  of.update_levels();
}

void DraftRecord::Source::update_levels() {
  float all_right = chances[0];
  for (std::uint8_t& level : levels) {
    level = static_cast<std::uint8_t>(std::min(kLevels - 1, static_cast<int>(all_right * kLevels)));
    all_right *= chances[1];
  }
}

int Scheduler::rows_for_drafts(int own) const {
  const int left = limits_.max_batched_tokens - own;
  return prompts_want() ? left / 4 : left;
}

bool Scheduler::waiting_pays(std::span<const DraftOffer> offers) {
  const int own = turns_.size(), rows = rows_for_drafts(own);
  if (limits_.drafts.most == 0 || offers.empty() || rows <= 0) return false;
  if (times_.wants_plain(own)) return false;
  choose_offers(offers, own, false);
  constexpr int kWaits = 2;
  if (count_paying(count_drafts(), own, rows, kWaits) > 0) return true;
  return wants_try(own, kWaits);
}

void Scheduler::record_prediction(SequenceId id, DraftSource source, bool right) {
  entry(id).record.add(source, 1, right ? 1 : 0);
  all_records_.add(source, 1, right ? 1 : 0);
}

void Scheduler::plan_drafts(const PlanFacts& facts) {
  if (limits_.drafts.most == 0 || facts.offers.empty()) return;
  if (static_cast<int>(plan_.spans.size()) < turns_.size()) return;  // some decoding sequences have no row
  const int own = plan_.rows, rows = rows_for_drafts(own);
  if (rows <= 0) return;
  choose_offers(facts.offers, own, true);
  if (limits_.drafts.adaptive) {
    choose_paying(own, rows);
  } else {
    for (DraftChoice& choice : draft_choices_) choice.granted = choice.most;
  }
  int left = rows;
  for (const DraftChoice& choice : draft_choices_) {
    const int granted = std::min(choice.granted, left);
    if (granted > 0) left -= give_drafts(*choice.entry, choice.source, granted);
  }
}

// Chooses the best offer of each sequence that can have drafts, in a step of `own` rows without them, `planned` or to
// come.
void Scheduler::choose_offers(std::span<const DraftOffer> offers, int own, bool planned) {
  draft_choices_.clear();
  std::array<int, kDraftSources> prices{};  // with a fixed number of drafts the choice is the sequence's own
  for (std::size_t source = 0; limits_.drafts.adaptive && source < kDraftSources; ++source) {
    const double tokens = limits_.drafts.seconds[source] * own / limits_.drafts.step(own);
    prices[source] = static_cast<int>(std::min(1.0, tokens) * DraftRecord::kLevels);
  }
  for (const DraftOffer& offer : offers) {
    Entry& e = entry(offer.sequence);
    if (e.state != State::kDecoding || (planned ? !has_span(e) : e.rank.paused)) continue;
    // No draft is computed for tokens past the end of the answer.
    const int most = std::min({offer.tokens, limits_.drafts.most, e.counts.rows() - e.computed - 1});
    if (most <= 0) continue;
    DraftChoice choice{&e, offer.source, most, e.record.levels(offer.source)};
    if (offer.predicted) std::copy(choice.levels.begin() + 1, choice.levels.end(), choice.levels.begin());
    if (draft_choices_.empty() || draft_choices_.back().entry != &e) {
      draft_choices_.push_back(choice);
    } else if (worth(choice, prices) > worth(draft_choices_.back(), prices)) {
      draft_choices_.back() = choice;
    }
  }
}

// The worth of a choice, in levels: the tokens that its drafts are expected to give, less the price, that is, the
// tokens that the step would give in the time of drafting.
int Scheduler::worth(const DraftChoice& choice, const std::array<int, kDraftSources>& prices) {
  const int price = prices[static_cast<std::size_t>(choice.source)];
  int sum = 0;
  for (int j = 0; j < choice.most; ++j) sum += std::max(0, choice.levels[static_cast<std::size_t>(j)] - price);
  return sum;
}

Scheduler::DraftCounts Scheduler::count_drafts() const {
  DraftCounts drafts{};
  for (const DraftChoice& choice : draft_choices_) {
    std::array<int, kDraftSources>* const of = drafts.of.data();
    const auto source = static_cast<std::size_t>(choice.source);
    for (int j = 0; j < choice.most; ++j) {
      const std::size_t level = choice.levels[static_cast<std::size_t>(j)];
      ++of[level][source];
      drafts.levels |= std::uint64_t{1} << level;
    }
  }
  return drafts;
}

// Returns the rows before the first draft's.
int Scheduler::rows_before_drafts(int own) const {
  return prompts_want() ? limits_.max_batched_tokens : own;
}

double Scheduler::least_gain(int own) const {
  return kLeastGain + (limits_.drafts.wait > 0 ? kGainASequence * std::min(own, kMostGainSequences) : 0);
}

// Returns how many of the likeliest drafts pay, up to `rows`, in a step of `own` rows without them and with `waits`
// waits.
int Scheduler::count_paying(const DraftCounts& drafts, int own, int rows, int waits) const {
  const int before = rows_before_drafts(own);
  const auto measured = static_cast<int>(limits_.drafts.step_seconds.size());
  double tokens = own, seconds = times_.own(own), best = least_gain(own) * tokens / seconds;
  seconds += waits * times_.wait(own);
  int taken = 0, best_taken = 0;
  for (std::uint64_t levels = drafts.levels; levels != 0 && taken < rows;) {  // most plans have few levels
    const std::size_t level = static_cast<std::size_t>(std::bit_width(levels)) - 1;
    levels ^= std::uint64_t{1} << level;
    const double chance = DraftRecord::chance(level);
    for (std::size_t source = 0; source < kDraftSources; ++source) {
      for (int left = std::min(drafts.of[level][source], rows - taken); left > 0;) {
        const int more = before + taken < measured ? 1 : left;
        tokens += more * chance;
        seconds += times_.added(own, before + taken, more, static_cast<DraftSource>(source));
        left -= more, taken += more;
        if (tokens > best * seconds) best = tokens / seconds, best_taken = taken;
      }
    }
  }
  return best_taken;
}

// Grants the drafts that pay, up to `rows`.
void Scheduler::choose_paying(int own, int rows) {
  if (times_.wants_plain(own)) return;
  const DraftCounts drafts = count_drafts();
  grant_likeliest(drafts, count_paying(drafts, own, rows, 1));
  try_again(own);
}

// Grants the `count` likeliest drafts; among equal ones those of the sequences whose turn is first.
void Scheduler::grant_likeliest(const DraftCounts& drafts, int count) {
  if (count == 0) return;            // mostly no draft is granted
  int level = DraftRecord::kLevels;  // all of this level and above are granted
  while (level > 0) {
    int here = 0;
    for (const int of_source : drafts.of[static_cast<std::size_t>(level) - 1]) here += of_source;
    if (here > count) break;
    count -= here, --level;
  }
  for (DraftChoice& choice : draft_choices_) {
    const auto* levels = choice.levels.data();
    int granted = 0;
    while (granted < choice.most && levels[granted] >= level) ++granted;
    for (; granted < choice.most && levels[granted] + 1 == level && count > 0; --count) ++granted;
    choice.granted = granted;
  }
}

// The cost of trying one draft. A sequence without drafts tries one now and then, less and less often, as long as one
// that is always right would pay, and all tries take a small part of the time. of() is the time that it adds to the
// step; 0: it would not pay.
class Scheduler::TryCosts {
 public:
  TryCosts(const Scheduler& scheduler, int own) : scheduler_(scheduler), own_(own) { costs_.fill(-1); }
  double of(DraftSource source) {  // few sources are asked for, in few plans
    double& cost = costs_[static_cast<std::size_t>(source)];
    if (cost < 0) cost = find(source);
    return cost;
  }

 private:
  double find(DraftSource source) const {
    const StepTimes& times = scheduler_.times_;
    const double more = times.added(own_, scheduler_.rows_before_drafts(own_), 1, source);
    const double waiting = times.wait(own_) / own_;  // all of them may be due
    return times.own(own_) > scheduler_.least_gain(own_) * own_ * (more + waiting) ? more : 0;
  }

  const Scheduler& scheduler_;
  const int own_;
  std::array<double, kDraftSources> costs_;
};

bool Scheduler::due_try(const DraftChoice& choice) {
  Entry& e = *choice.entry;
  if (choice.granted > 0) e.plans_without_draft = -1;
  return ++e.plans_without_draft >= e.tries_again_after;
}

void Scheduler::save_for_tries(int own) {
  const double seconds = times_.own(own);
  seconds_for_tries_ = std::min(seconds_for_tries_ + kPartForTries * seconds, seconds);
}

// Returns whether a try is worth `waits` waits, which cost their time whatever comes of it.
bool Scheduler::wants_try(int own, int waits) {
  save_for_tries(own);
  const double waiting = waits * times_.wait(own);
  TryCosts costs(*this, own);
  bool wants = false;
  for (const DraftChoice& choice : draft_choices_) {
    const double more = due_try(choice) ? costs.of(choice.source) : 0;
    wants = wants || (more > 0 && more + waiting <= seconds_for_tries_);
  }
  if (wants) seconds_for_tries_ -= waiting;
  return wants;
}

void Scheduler::try_again(int own) {
  save_for_tries(own);
  TryCosts costs(*this, own);
  for (DraftChoice& choice : draft_choices_) {
    const double more = due_try(choice) ? costs.of(choice.source) : 0;
    if (more == 0 || more > seconds_for_tries_) continue;
    Entry& e = *choice.entry;
    seconds_for_tries_ -= more;
    e.plans_without_draft = 0;
    e.tries_again_after = std::min(2 * e.tries_again_after, kTriesAtLeastEvery);
    choice.granted = 1;
  }
}

// Gives the drafts that fit into pages that no other sequence was promised or waits for. Returns their number.
int Scheduler::give_drafts(Entry& e, DraftSource source, int count) {
  const int in_block = kBlockTokens - 1 - e.computed % kBlockTokens;
  Span& span = plan_.spans[e.span_index];
  if (count > in_block) {
    const Span longer{.sequence = {}, .first_position = e.computed, .rows = 1 + count};
    const int pages = limits_.geometry.latent_pages(e.computed + 1 + count) - e.held;
    const bool fits =
        waiting() == 0 && pages + watermark_ <= unpromised_pages() && extra_windows(longer) <= spare_windows_;
    if (!fits) count = in_block;
  }
  if (count == 0) return 0;
  int given = count;
  if (count <= in_block) {  // its own row has the pages
    span.rows += count;
    plan_.rows += count;
  } else {
    e.drafts = count;
    given = give(e, count);
    e.drafts = 0;
  }
  span.drafts = given;
  span.source = source;
  return given;
}

DecodedRows DecodedRows::of(const StepPlan& plan) {
  DecodedRows rows;
  for (const Span& span : plan.spans) {
    if (span.rows - span.drafts != 1 || !span.samples) return {};  // the span of a prompt
    rows.drafts += span.drafts;
    if (span.source == DraftSource::kMtp) rows.by_model += span.drafts;
  }
  rows.sequences = static_cast<int>(plan.spans.size());
  return rows;
}

void Scheduler::took(const DecodedRows& rows, double seconds) {
  times_.add(rows.sequences, rows.drafts, rows.by_model, seconds);
}

void Scheduler::judged(SequenceId id, DraftSource source, int drafted, int right) {
  SLUICE_CHECK(right >= 0 && right <= drafted, "of the drafts some are right");
  Entry& e = entry(id);
  SLUICE_CHECK(e.state == State::kDecoding && !has_span(e), "what is judged has been computed");
  e.record.add(source, drafted, right);
  all_records_.add(source, drafted, right);
  if (right > 0) e.tries_again_after = kTriesAgainAfter;
  e.computed += right;
  e.known += right;
  e.held = limits_.geometry.latent_pages(e.computed);
}

}  // namespace sluice
