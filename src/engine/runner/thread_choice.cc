// Used by engine/load.cc.
#include "engine/runner/thread_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/threads/cpu_topology.h"
#include "base/threads/machine.h"
#include "base/threads/shared_cores.h"
#include "engine/step/step_time.h"

namespace sluice {

std::vector<int> thread_candidates(int processors, int cores) {
  constexpr int kFew = 4;  // for so few, using all is best
  std::vector<int> counts{processors};
  if (processors < kFew) return counts;
  for (const int count : {cores, processors / 2, processors / 4}) {
    if (count >= 2 && count < processors) counts.push_back(count);
  }
  std::ranges::sort(counts, std::greater<>());
  counts.erase(std::ranges::unique(counts).begin(), counts.end());
  return counts;
}

int best_threads(std::span<const TimedThreads> timed) {
  constexpr double kLittle = 1.03;
  const double least = std::ranges::min(timed, {}, &TimedThreads::seconds).seconds;
  int best = 0;
  for (const TimedThreads& of : timed) {
    if (of.seconds <= kLittle * least) best = std::max(best, of.threads);
  }
  return best;
}

std::string thread_text(std::span<const TimedThreads> timed, int threads) {
  std::string others, text = fmt::format("{} threads", threads);
  for (const TimedThreads& of : timed) {
    if (of.threads == threads) {
      text += fmt::format(": {:.2f} ms a token", 1e3 * of.seconds);
    } else {
      others += fmt::format("{}{}: {:.2f}", others.empty() ? "" : ", ", of.threads, 1e3 * of.seconds);
    }
  }
  return others.empty() ? text : fmt::format("{} ({})", text, others);
}

std::vector<TimedThreads> choose_threads(Runner& runner, bool pin) {
  constexpr int kRounds = 3, kSteps = 5;
  constexpr double kTooLong = 0.25;  // seconds of a step: a model so large that nothing but memory counts
  const std::vector<int> counts = thread_candidates(usable_cores(), known_cpu_order(usable_cpus()).cores);
  if (counts.size() < 2) return {};
  std::vector<std::vector<double>> seconds(counts.size());
  const auto set = [&](int threads) {
    runner.threads().set(threads);
    if (pin) runner.threads().pin();
  };
  bool failed = false;
  for (int round = 0; round < kRounds && !failed; ++round) {
    for (std::size_t i = 0; i < counts.size() && !failed; ++i) {
      set(counts[i]);
      const std::vector<double> steps = time_one_row(runner, kSteps, kTooLong);
      failed = steps.empty();
      seconds[i].insert(seconds[i].end(), steps.begin(), steps.end());
    }
  }
  if (failed) {
    set(counts.front());
    return {};
  }
  std::vector<TimedThreads> timed;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    auto middle = seconds[i].begin() + static_cast<std::ptrdiff_t>(seconds[i].size() / 2);
    std::ranges::nth_element(seconds[i], middle);
    timed.push_back({counts[i], *middle});
  }
  set(best_threads(timed));
  return timed;
}

}  // namespace sluice
