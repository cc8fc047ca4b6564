// SpeedCase: one measurement of a model by `sluice bench`, and the code that runs it.
//
//   prefill     `tokens` rows of one sequence that is `depth` tokens long already, in steps as the engine makes them
//   decode      `tokens` steps of one row each, of one sequence that is `depth` tokens long already
//   speculative  decode in steps of one row and `drafts` more: given ones, which cost nothing to make, or those of the
//               model's own drafter. Each is right by chance (Philox), and of 20 tokens the share `acceptance` is
//   concurrent  `concurrency` requests of `prompt` tokens through the scheduler; once each has its first token, and
//               the device has computed the prompts, there are `tokens` steps in which all of them decode, which alone
//               count
// Token ids are spread over the vocabulary and always the same ones. A depth is a synthetic state
// (fill_with_random_state()). Thread safety: one thread at a time.
// Used by rounds.h and synthetic_state.cc.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/threads/pool_meter.h"
#include "bench/step_work.h"
#include "engine/runner/runner.h"
#include "kernels/ops/kernel_times.h"
#include "model/engine_setup.h"
#include "sluice/status.h"

namespace sluice {

struct SpeedCase {
  enum class Kind { kPrefill, kDecode, kSpeculative, kConcurrent };
  Kind kind = Kind::kPrefill;
  int tokens = 0, depth = 0;
  int concurrency = 1, prompt = 0;  // concurrent
  int drafts = 0;                   // speculative
  double acceptance = 0;
  bool by_model = false;

  const char* name() const;
  std::string text() const;  // "prefill 512 at 8192"
  int context() const;       // tokens of a sequence at its end
  // The tokens that count, of all sequences together.
  int measured_tokens() const { return tokens * concurrency; }
};

// The number of right drafts after token `at`, up to the first wrong one: the same in every run.
int right_drafts(double acceptance, int at, int drafts);

// The choices of routers in the steps that were counted, summed over steps and layers.
struct RoutingCount {
  int layers = 0;
  double met = 0, fullest = 0;  // different experts; rows of the fullest one
};

// The common part of the tests of a model: the runner, and the options that it was loaded with.
class SpeedCases {
 public:
  SpeedCases(Runner* runner, const EngineSetup& options);

  // Runs the test once and returns its seconds. If `steps` is given, it also counts the work of each step.
  // kResourceExhausted: that many sequences cannot decode at once; the message says why.
  Result<double> run(const SpeedCase& test, std::vector<StepWork>* steps = nullptr);
  // From now on runs are also measured by stage; stages() has the times of the last run.
  void measure_stages() { measures_stages_ = true; }
  const StageTimes& stages() const { return stages_; }
  // Runs the timed part of the test once more and returns the times of the device's kernels. kUnavailable says what is
  // missing for that.
  Result<std::vector<KernelTime>> trace(const SpeedCase& test);
  // The routing of the last run with `steps`.
  const RoutingCount& routing() const { return routing_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin();
  Result<double> seconds_since(Clock::time_point begin);
  Result<double> run_single(const SpeedCase& test, std::vector<StepWork>* steps);
  Result<double> run_concurrent(const SpeedCase& test, std::vector<StepWork>* steps);
  Result<double> run_steps(const SpeedCase& test, StateSlot sequence, std::vector<StepWork>* steps);
  Result<double> run_speculative(const SpeedCase& test, StateSlot sequence, std::vector<StepWork>* steps);
  std::vector<TokenId> ids(int count, int seed) const;
  void count(StepShape shape, std::vector<StepWork>* steps);

  Runner* runner_;
  EngineSetup options_;
  ModelWork work_;
  Observer watch_routing_;
  bool measures_stages_ = false, traces_ = false;
  Status tracing_;
  std::vector<KernelTime> times_;
  PoolMeter meter_;
  StageTimes stages_{};
  double experts_chosen_ = 0;  // since the last step that was counted
  RoutingCount routing_;
};

// A context that was never computed: the cached state of a sequence filled with random rows, so that steps at a depth
// can be measured without hours of prefill.
//
// Every row of every plane is normally distributed, mean 0 and variance 1 as after a norm, and coded as the model
// codes it; so no two rows are alike, and the indexer's scores differ. Compressor windows are empty. Deterministic.
// Steps on it are as fast as on a real context of the same length, but their results mean nothing.

// Fills a new, empty sequence. Fails if a prompt of `tokens` tokens would: for memory, or the longest sequence.
Status fill_with_random_state(Runner& runner, StateSlot sequence, int tokens);

}  // namespace sluice
