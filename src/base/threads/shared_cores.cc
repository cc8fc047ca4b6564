// Used by cli/commands/inspect_command.cc, engine/load.cc, engine/runner/runner_threads.cc and
// engine/runner/thread_choice.cc.
#include "base/threads/shared_cores.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "base/threads/mutex.h"

namespace sluice {
namespace {

constexpr int kRounds = 5, kFewestRounds = 3;
constexpr std::size_t kMostPairs = 8, kMostControls = 4;  // most in a pattern; most in none
constexpr double kMostSeconds = 0.15;                     // limit of all rounds; later only complete ones count
constexpr double kShares = 1.5, kApart = 1.3;             // least ratio if shared; most if apart

enum class Verdict { kShares, kApart, kUnclear };

struct Trial {
  CpuPair pair;
  std::vector<double> ratios = {};  // for each round: time together / time alone
};
using Trials = std::vector<Trial>;

// Returns at most `most` of the pairs, evenly spread.
Trials spread(const std::vector<CpuPair>& pairs, std::size_t most) {
  Trials trials;
  const std::size_t count = std::min(pairs.size(), most);
  for (std::size_t i = 0; i < count; ++i) trials.push_back({pairs[i * pairs.size() / count]});
  return trials;
}

// Adds the pairs of p and other(p), for the processors p of a node, if both may be used.
template <class Other>
void add_pairs(const std::vector<int>& node, const std::set<int>& usable, const Other& other,
               std::vector<CpuPair>* pairs) {
  for (std::size_t p = 0; p < node.size(); ++p) {
    const std::size_t q = other(p);
    if (q > p && q < node.size() && usable.contains(node[p]) && usable.contains(node[q])) {
      pairs->emplace_back(node[p], node[q]);
    }
  }
}

std::vector<CpuPair> neighbours(const std::vector<std::vector<int>>& nodes, const std::set<int>& usable) {
  std::vector<CpuPair> pairs;
  for (const std::vector<int>& node : nodes) {
    add_pairs(node, usable, [](std::size_t p) { return p ^ 1U; }, &pairs);
  }
  return pairs;
}

std::vector<CpuPair> halves(const std::vector<std::vector<int>>& nodes, const std::set<int>& usable) {
  std::vector<CpuPair> pairs;
  for (const std::vector<int>& node : nodes) {
    if (node.size() % 2 == 0) add_pairs(node, usable, [&](std::size_t p) { return p + node.size() / 2; }, &pairs);
  }
  return pairs;
}

// Pairs every processor with the next one, in a circle, that no pattern pairs it with.
std::vector<CpuPair> strangers(const std::vector<int>& cpus, const std::set<CpuPair>& paired) {
  std::vector<CpuPair> pairs;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    for (std::size_t step = 1; step < cpus.size(); ++step) {
      const CpuPair pair = std::minmax({cpus[i], cpus[(i + step) % cpus.size()]});
      if (paired.contains(pair)) continue;
      pairs.push_back(pair);
      break;
    }
  }
  return pairs;
}

// Rounds of all trials. Each processor is timed alone before and after a round, of which the less disturbed counts.
class Rounds {
 public:
  Rounds(std::span<Trials* const> all, const TimedCores& machine)
      : machine_(machine), end_(machine.now() + kMostSeconds) {
    for (Trials* trials : all) {
      for (Trial& trial : *trials) {
        trials_.push_back(&trial);
        alone_[trial.pair.first] = alone_[trial.pair.second] = 0;
      }
    }
  }

  // Each returns false if the system refuses or the time is over. begin() must come first.
  bool begin() {
    for (auto& [cpu, seconds] : alone_) {
      const std::vector<double> times = run(std::array{cpu});
      if (times.empty()) return false;
      seconds = times[0];
    }
    return true;
  }
  bool add() {
    std::vector<std::vector<double>> together;
    for (const Trial* trial : trials_) {
      together.push_back(run(std::array{trial->pair.first, trial->pair.second}));
      if (together.back().empty()) return false;
    }
    const std::map<int, double> before = alone_;
    if (!begin()) return false;
    const auto ratio = [&](int cpu, double seconds) { return seconds / std::min(before.at(cpu), alone_.at(cpu)); };
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      const auto [a, b] = trials_[i]->pair;
      trials_[i]->ratios.push_back(std::min(ratio(a, together[i][0]), ratio(b, together[i][1])));
    }
    return true;
  }

 private:
  std::vector<double> run(std::span<const int> cpus) const {
    return machine_.now() < end_ ? machine_.together(cpus) : std::vector<double>();
  }

  const TimedCores& machine_;
  double end_;
  std::vector<Trial*> trials_;
  std::map<int, double> alone_;  // seconds alone, by processor
};

Verdict verdict_of(const Trial& trial) {
  const auto agree = static_cast<std::ptrdiff_t>(trial.ratios.size()) - 1;
  if (std::ranges::count_if(trial.ratios, [](double ratio) { return ratio >= kShares; }) >= agree) {
    return Verdict::kShares;
  }
  const bool apart = std::ranges::count_if(trial.ratios, [](double ratio) { return ratio <= kApart; }) >= agree;
  return apart ? Verdict::kApart : Verdict::kUnclear;
}

// Returns the verdict on a pattern's pairs; kUnclear if there are none.
Verdict verdict_of(const Trials& trials) {
  std::size_t share = 0, apart = 0;
  for (const Trial& trial : trials) {
    const Verdict verdict = verdict_of(trial);
    share += verdict == Verdict::kShares;
    apart += verdict == Verdict::kApart;
  }
  const auto most = [&](std::size_t count) { return count > 0 && 4 * count >= 3 * trials.size(); };
  if (apart == 0 && most(share)) return Verdict::kShares;
  return share == 0 && most(apart) ? Verdict::kApart : Verdict::kUnclear;
}

// Computes a chain of products and sums in each of 12 registers. This keeps all units busy, so that two threads of a
// core get half each.
void run_loop(int rounds) {
  using Lanes [[gnu::vector_size(16)]] = float;
  constexpr int kChains = 12;
  Lanes chains[kChains];
  for (int c = 0; c < kChains; ++c) chains[c] = Lanes{1, 1, 1, 1} + static_cast<float>(c);
  const Lanes factor = {0.5F, 0.5F, 0.5F, 0.5F};
  for (int i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (Lanes& chain : chains) chain = chain * factor + factor;
  }
  for (int c = 1; c < kChains; ++c) chains[0] += chains[c];
  volatile float sink = chains[0][0];
  static_cast<void>(sink);
}

using Clock = std::chrono::steady_clock;

std::vector<double> time_together(std::span<const int> cpus) {
  constexpr int kLoop = 60'000, kWarmUp = kLoop / 4, kShort = 100;
  const std::size_t count = cpus.size();
  std::atomic<std::size_t> ready{0}, done{0};
  std::atomic<bool> refused{false};
  std::vector<double> seconds(count);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      if (!pin_thread(::pthread_self(), cpus[i])) refused = true;
      run_loop(kWarmUp);
      ++ready;
      while (ready < count) run_loop(kShort);
      const Clock::time_point begin = Clock::now();
      run_loop(kLoop);
      seconds[i] = std::chrono::duration<double>(Clock::now() - begin).count();
      ++done;
      while (done < count) run_loop(kShort);  // keeps the core busy until the other thread is done
    });
  }
  for (std::thread& thread : threads) thread.join();
  return refused ? std::vector<double>() : seconds;
}

}  // namespace

TimedCores timed_cores() {
  return {time_together, [] { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }};
}

std::optional<std::vector<CpuPair>> measure_sharing(const std::vector<int>& cpus,
                                                    const std::vector<std::vector<int>>& nodes,
                                                    const TimedCores& machine) {
  const std::set<int> usable(cpus.begin(), cpus.end());
  std::vector<std::vector<CpuPair>> patterns{neighbours(nodes, usable), halves(nodes, usable)};
  if (patterns[0] == patterns[1]) patterns.pop_back();
  std::erase_if(patterns, [](const std::vector<CpuPair>& pairs) { return pairs.empty(); });
  std::set<CpuPair> paired;
  for (const std::vector<CpuPair>& pairs : patterns) paired.insert(pairs.begin(), pairs.end());

  Trials control = spread(strangers({usable.begin(), usable.end()}, paired), kMostControls);
  std::vector<Trials> trials;
  std::vector<Trials*> all{&control};
  trials.reserve(patterns.size());
  for (const std::vector<CpuPair>& pairs : patterns) all.push_back(&trials.emplace_back(spread(pairs, kMostPairs)));
  if (patterns.empty() || control.empty()) return std::nullopt;

  Rounds rounds(all, machine);
  if (!rounds.begin()) return std::nullopt;
  int count = 0;
  while (count < kRounds && rounds.add()) ++count;
  if (count < kFewestRounds || verdict_of(control) != Verdict::kApart) return std::nullopt;
  std::vector<Verdict> verdicts;
  for (const Trials& of : trials) verdicts.push_back(verdict_of(of));
  const auto shared = std::ranges::find(verdicts, Verdict::kShares);
  if (std::ranges::count(verdicts, Verdict::kShares) == 1)
    return patterns[static_cast<std::size_t>(shared - verdicts.begin())];
  const bool none = std::ranges::count(verdicts, Verdict::kApart) == std::ssize(verdicts);
  return none ? std::optional(std::vector<CpuPair>()) : std::nullopt;
}

CpuOrder find_cpu_order(const std::vector<int>& cpus, const std::string& devices, const TimedCores& machine) {
  CpuOrder order = order_cpus(cpus, devices);
  if (order.known_by == CoresKnownBy::kSystem || cpus.size() <= 2) return order;
  const std::optional<std::vector<CpuPair>> pairs = measure_sharing(cpus, cpus_of_nodes(devices), machine);
  if (pairs) order = order_cpus(cpus, devices, *pairs);
  order.known_by = pairs ? CoresKnownBy::kMeasurement : CoresKnownBy::kUnclear;
  return order;
}

CpuOrder known_cpu_order(const std::vector<int>& cpus) {
  static Mutex mutex;
  static std::map<std::vector<int>, CpuOrder> known;
  const MutexLock lock(mutex);
  const auto found = known.find(cpus);
  if (found != known.end()) return found->second;
  return known.emplace(cpus, find_cpu_order(cpus, kSystemDevices, timed_cores())).first->second;
}

std::string cores_text(const CpuOrder& order) {
  const std::size_t cpus = order.cpus.size();
  if (cpus == 1) return "1 processor";
  switch (order.known_by) {
    case CoresKnownBy::kSystem:
      return fmt::format("{} processors on {} cores, as the system says", cpus, order.cores);
    case CoresKnownBy::kMeasurement:
      return fmt::format("{} processors on {} cores, as measured", cpus, order.cores);
    case CoresKnownBy::kUnclear:
      return fmt::format("{} processors; which of them share a core is not clear", cpus);
    case CoresKnownBy::kNobody:
      break;
  }
  return fmt::format("{} processors", cpus);
}

}  // namespace sluice
