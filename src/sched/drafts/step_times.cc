// Used by sched/scheduler.h.
#include "sched/drafts/step_times.h"

#include <algorithm>
#include <bit>

namespace sluice {
namespace {

constexpr double kLeastRow = 0.002;     // part of a step of one row: keeps ratios meaningful if rows seem free
constexpr double kLeast = 0.5;          // least ratio: free drafts were compared with disturbed steps
constexpr float kBelieved = 1.0F;       // weight of the limits, in steps of as many drafts as sequences
constexpr float kForget = 1.0F / 2048;  // part forgotten at a step without drafts
constexpr int kPlains = 160;            // later steps without drafts that count for a step with drafts
constexpr double kPart = 0.6;  // the part of steps with a lower ratio: a little over half, as they are estimates

template <class Ring, class Value>
void put(Ring& ring, int* count, const Value& value) {
  ring[static_cast<std::size_t>(*count) % ring.size()] = value;
  ++*count;
  if (*count == 2 * static_cast<int>(ring.size())) *count -= static_cast<int>(ring.size());
}

}  // namespace

std::size_t StepTimes::place(int rows) {
  return static_cast<std::size_t>(std::clamp<int>(std::bit_width(static_cast<unsigned>(rows)), 1, 8)) - 1;
}

void StepTimes::Plain::add(double ratio) {
  put(steps, &count, static_cast<float>(ratio));
}

double StepTimes::Plain::median() const {
  const auto used = std::min(static_cast<std::size_t>(count), steps.size());
  if (used == 0) return 1;
  auto sorted = steps;
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(used));
  return sorted[used / 2];
}

void StepTimes::Drafted::add(const Step& step) {
  put(steps, &count, step);
}

void StepTimes::Drafted::add_plain(double median) {
  for (Step& step : steps) {
    step.weight *= 1 - kForget;
    if (step.plains == kPlains) continue;
    ++step.plains;
    step.plain = static_cast<float>(median);
  }
}

// Sets `ratio` to a weighted quantile: each step votes for its own ratio, and the limits for 1.
void StepTimes::Drafted::weigh() {
  struct Said {
    double ratio;
    float weight;
  };
  std::array<Said, std::tuple_size_v<decltype(steps)> + 1> said;
  const auto used = std::min(static_cast<std::size_t>(count), steps.size());
  said[used] = {1, kBelieved};
  float all = kBelieved;
  for (std::size_t i = 0; i < used; ++i) {
    said[i] = {(steps[i].whole / steps[i].plain - 1) / steps[i].added, steps[i].weight};
    all += steps[i].weight;
  }
  // One step alone does not make drafts dearer: the first reads weights that lie in no cache yet.
  if (used == 1) said[0].ratio = std::min(said[0].ratio, 1.0);
  std::sort(said.begin(), said.begin() + static_cast<std::ptrdiff_t>(used) + 1,
            [](const Said& a, const Said& b) { return a.ratio < b.ratio; });
  double left = kPart * all;
  std::size_t at = 0;
  while (at < used && left > said[at].weight) left -= said[at++].weight;
  ratio = std::max(kLeast, said[at].ratio);
}

double StepTimes::limit(int rows, int drafts, DraftSource source) const {
  const double least = limits_.step_seconds.size() < 2 ? 0 : kLeastRow * drafts * limits_.step_seconds.front();
  return std::max(least, limits_.step(rows + drafts) - limits_.step(rows)) +
         drafts * limits_.seconds[static_cast<std::size_t>(source)];
}

double StepTimes::added(int own, int rows, int drafts, DraftSource source) const {
  return limit(rows, drafts, source) * drafted(own, source).ratio;
}

// A wait is part of what drafts add, so it differs from the limits by the same ratio.
double StepTimes::wait(int own) const {
  return limits_.wait * std::max(drafted(own, DraftSource::kCopy).ratio, drafted(own, DraftSource::kMtp).ratio);
}

// If there were no such steps yet, returns those of the latest steps. (Nothing is learnt from steps with prompts.)
const StepTimes::Drafted& StepTimes::drafted(int own, DraftSource source) const {
  const std::size_t kind = source == DraftSource::kMtp ? 1 : 0;
  const Drafted& of = near_[place(own)].drafted[kind];
  return of.count > 0 ? of : near_[latest_].drafted[kind];
}

void StepTimes::add(int own, int drafts, int by_model, double seconds) {
  if (limits_.step_seconds.size() < 2 || own < 1 || seconds <= 0) return;
  latest_ = place(own);
  Near& near = near_[latest_];
  const double whole = seconds / this->own(own);
  if (drafts == 0) {
    near.with_drafts = 0;
    near.plain.add(whole);
    const double median = near.plain.median();
    for (Drafted& drafted : near.drafted) drafted.add_plain(median);
  } else {
    ++near.with_drafts;
    const double by_drafting = by_model * limits_.seconds[static_cast<std::size_t>(DraftSource::kMtp)];
    const double added = (limit(own, drafts, DraftSource::kCopy) + by_drafting + limits_.wait) / this->own(own);
    for (const int kind : {0, 1}) {  // if both drafted, the time counts for both kinds
      const int of_kind = kind == 0 ? drafts - by_model : by_model;
      if (of_kind == 0) continue;
      near.drafted[static_cast<std::size_t>(kind)].add(
          {.whole = static_cast<float>(whole),
           .added = static_cast<float>(added),
           .weight = std::min(1.0F, static_cast<float>(of_kind) / static_cast<float>(own)),
           .plain = static_cast<float>(near.plain.median())});
    }
  }
  for (Drafted& drafted : near.drafted) drafted.weigh();
}

}  // namespace sluice
