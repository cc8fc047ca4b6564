// Measures which processors share a core. Virtual machines often list every processor as a core of its own while the
// host runs them on the threads of half as many cores.
//
// A compute-bound loop runs on single processors and on pairs of them, each thread pinned. Two that share a core take
// near twice as long together as alone, others no longer. There are n (n - 1) / 2 pairs, but sharing has a pattern.
// Within a node of n processors, a processor shares with its neighbour (p and p ^ 1), or with the one half the node
// away (p and p + n / 2). So the pairs of these two patterns are measured, n in all, or on large machines a few spread
// over all of them. Some pairs of neither pattern are a control: they must not slow each other down. If they do, as
// when a container's processor time is spent, pairs tell nothing. Sharing of any other kind is not found.
//
// Other work on the host makes single times wrong by any factor. So a round times all pairs one right after the other,
// between two times of each processor alone, of which the shorter counts. A pair's ratio in a round is that of its less
// slowed processor. A pair's verdict needs all rounds but one to agree. A pattern's verdict needs three quarters of its
// pairs, and no pair with the opposite verdict. Otherwise there is no answer.
//
// Thread safety: any thread; two measurements at once disturb each other.
// Used by cli/commands/inspect_command.cc, engine/load.cc, engine/runner/runner_threads.cc and
// engine/runner/thread_choice.cc.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/threads/cpu_topology.h"

namespace sluice {

// The machine to measure.
struct TimedCores {
  // Runs the same loop at once on each of `cpus`, one or two, and returns the seconds that each took, during all of
  // which the other one ran. Empty: it cannot be run there.
  std::function<std::vector<double>(std::span<const int> cpus)> together;
  std::function<double()> now;  // seconds
};
// This machine, with threads of its own: a quarter of a millisecond a loop, if nothing disturbs it.
TimedCores timed_cores();

// The pairs of `cpus` that share a core, none if each has a core of its own; no value: no answer. `nodes` are the
// processors of the whole machine (cpus_of_nodes()). Takes a tenth of a second or less, and 0.15 s if other work keeps
// the threads from running. Without enough processors for a control there is no answer.
std::optional<std::vector<CpuPair>> measure_sharing(const std::vector<int>& cpus,
                                                    const std::vector<std::vector<int>>& nodes,
                                                    const TimedCores& machine);

// order_cpus(). If there are three or more processors and the system names none that share a core, it measures.
CpuOrder find_cpu_order(const std::vector<int>& cpus, const std::string& devices, const TimedCores& machine);
// Does the same on this machine; a set of processors is measured once and remembered.
CpuOrder known_cpu_order(const std::vector<int>& cpus);

// "16 processors on 8 cores, as measured"
std::string cores_text(const CpuOrder& order);

}  // namespace sluice
