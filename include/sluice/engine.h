// Engine: loads a checkpoint and answers requests for token ids, many at once.
//
// The engine has one thread of its own, which runs the step loop; submit, cancel and the metrics may be called from any
// thread.
// The engine speaks token ids only. Text (tokenizer, chat encoding, stop strings) lives above it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/options.h"
#include "sluice/request_options.h"
#include "sluice/sampling.h"
#include "sluice/status.h"
#include "sluice/step_record.h"

namespace sluice {

inline constexpr std::int64_t kMaxDistributionBytes = std::int64_t{64} << 20;  // the most for one prompt

enum class FinishReason { kStop, kLength, kCancelled, kError };

struct TokenLogprob {
  std::int32_t token = 0;
  float logprob = 0.0F;  // log-softmax of the raw logits, or as SamplingParams::processed_logprobs says
};

// The log-probabilities of a prompt's tokens, bit for bit those at which the sampler would have drawn them there.
struct PromptLogprob {
  float logprob = 0.0F;
  int rank = 0;                          // the token's rank among all, from 1
  std::vector<TokenLogprob> top;         // the likeliest tokens
  std::vector<float> distribution = {};  // over all tokens, when asked for
};
struct PromptLogprobs {
  int start = 1;                        // the first position that has one: nothing comes before token 0
  std::vector<PromptLogprob> tokens{};  // at positions start, start + 1, ...
};

// The experts and entries that layers chose for consecutive positions, from the first that was not reported before.
struct ExportedRows {
  int rows = 0;
  std::vector<int> expert_layers = {};  // the layers with routed experts
  int slots = 0;
  std::vector<std::uint16_t> experts = {};      // [rows, expert_layers, slots]
  std::vector<int> entry_layers = {};           // the layers with an indexer
  int tokens_per_entry = 0;                     // entry e is about tokens [e * this, (e + 1) * this)
  std::vector<std::int32_t> entry_counts = {};  // [rows, entry_layers]
  std::vector<std::int32_t> entries = {};       // entry_counts of them for each row and layer, ascending
};

// The engine's report for one request, one generated token at a time, in order; the last one has `finished`.
struct Output {
  int choice = 0;                     // which of RequestOptions::n; each ends by itself
  std::optional<std::int32_t> token;  // absent when the request ended without one (cancelled, error, max_tokens 0)
  float logprob = 0.0F;               // when asked for
  std::vector<TokenLogprob> top;      // the likeliest tokens, then those of SamplingParams::logprob_ids
  bool finished = false;
  FinishReason reason = FinishReason::kStop;                   // when finished
  Status status;                                               // why, for kError
  int cached_tokens = 0;                                       // prompt tokens that were not computed again
  std::chrono::steady_clock::time_point admitted{};            // when its sequence first got memory; unset: never
  bool predicted = false;                                      // the token was drafted from the prediction
  std::shared_ptr<const PromptLogprobs> prompt_logprobs = {};  // when asked for: in the first output of each choice
  // When asked for: the choices of the layers for all positions before that of `token`. A prompt without an answer has
  // its last position, too.
  std::shared_ptr<const ExportedRows> exported = {};
  std::shared_ptr<const std::string> weights_version = {};  // the version of the model that computes all of it
};

struct Request : RequestOptions {
  std::vector<std::int32_t> prompt = {};  // at least one id
  // Called on the engine's thread; must not block, must not throw, and must not call the engine, except cancel().
  std::function<void(Output)> on_output = {};
};

using RequestId = std::uint64_t;

// The seed of choice i of a request; choice 0 has the request's own seed.
std::uint64_t choice_seed(std::uint64_t seed, int choice);

// The prefix cache. A prompt counts once, when it is first admitted, whatever its request's n is and however often its
// sequences are preempted. Its tokens: prompt >= matched (their blocks are cached) >= resumed (there is also a place to
// resume from, so they are not computed).
struct CacheStats {
  std::uint64_t admissions = 0, prompt_tokens = 0, matched_tokens = 0, resumed_tokens = 0;
  std::uint64_t lost_to_retention_tokens = 0;  // matched - resumed: no window page was kept where the match ends
  std::uint64_t shared_waits = 0;              // requests that waited for another to compute their common prefix
  std::uint64_t inserted_blocks = 0, evicted_blocks = 0;    // the latent pool's
  std::uint64_t inserted_windows = 0, evicted_windows = 0;  // the window pool's; evicted: those that retention had kept
  int latent_pages_total = 0, latent_pages_cached = 0, latent_pages_used = 0;  // cached: reusable, owned by no one
  int window_pages_total = 0, window_pages_cached = 0, window_pages_used = 0;
};

// Counts of drafted tokens, and of those that were right. by_depth[i]: those drafted at depth i + 1.
struct DraftStats {
  std::uint64_t drafts = 0, drafted_tokens = 0, accepted_tokens = 0;
  std::array<std::uint64_t, kMostDrafts> drafted_by_depth{}, accepted_by_depth{};
};

// Counts of steps by the seconds that they took (planning, computing and reporting) and by their rows. Each count is of
// the steps up to its bound and above the one before; the last count is of those above all bounds.
struct StepCounts {
  static constexpr std::array<double, 14> kSeconds{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                   0.1,    0.25,  0.5,    1,     2.5,  5,     10};
  static constexpr std::array<double, 10> kRows{1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  std::array<std::uint64_t, kSeconds.size() + 1> by_seconds{};
  std::array<std::uint64_t, kRows.size() + 1> by_rows{};
  double seconds = 0;
  std::uint64_t rows = 0;  // the sum over all steps
};

struct EngineStats {  // a snapshot; counters since the start
  std::uint64_t steps = 0, generated_tokens = 0, finished_requests = 0, cancelled_requests = 0;
  // Rows of prompts that were computed for the first time: of a prompt that is complete all but cache.resumed_tokens of
  // it. Rows that were computed before, and were dropped by a preemption or could not be shared with another choice.
  std::uint64_t prompt_tokens = 0, recomputed_tokens = 0;
  int running = 0, waiting = 0;
  int paused = 0;                               // how many of both are paused
  std::array<int, kWaitReasons> waiting_for{};  // how many wait, by WaitReason
  bool failed = false;                          // health() is not ok
  double turn_seconds = 0;                      // that the step loop has been in the step it is in; 0: in none
  StepCounts step_counts;
  std::int64_t cache_bytes_total = 0, cache_bytes_used = 0;
  double seconds_since_last_token = 0;  // large if there has never been one
  std::uint64_t preemptions_recompute = 0, preemptions_swap = 0;
  std::uint64_t swaps_restored = 0;  // states brought back; requests may end while theirs is swapped out
  std::int64_t swap_bytes_total = 0, swap_bytes_used = 0;
  CacheStats cache;
  DraftStats drafts;
};

class Engine {
 public:
  // Loads the model (with a progress bar on stderr when it is a terminal) and starts the step loop.
  static Result<std::unique_ptr<Engine>> start(const EngineOptions& options);
  virtual ~Engine() = default;  // cancels what still runs

  // Queues a request; it waits its turn until there is memory for it. Refuses at once, with numbers, what can never
  // run: an empty prompt, an id outside the vocabulary, prompt + max_tokens beyond max_model_len or the cache's memory.
  virtual Result<RequestId> submit(Request request) = 0;
  // Ends a request within a step and frees its memory; its last Output has reason kCancelled. Unknown ids are ignored.
  virtual void cancel(RequestId id) = 0;
  // The same for one choice of the request.
  virtual void cancel(RequestId id, int choice) = 0;

  // Tells the engine whether the client of a request keeps up; `paused`: it does not. From the next step on a paused
  // request gets no tokens until it goes on. It keeps its place and its memory, unless running requests need the
  // memory; its tokens are the same. Without effect on a request that has not begun; unknown ids are ignored.
  virtual void set_paused(RequestId id, bool paused) = 0;

  virtual EngineStats stats() const = 0;
  // ok, or why it computes nothing any more: its device is lost, or a file of its weights has changed. In the second
  // case reload_weights() helps.
  virtual Status health() const = 0;
  // Generates one token outside the queue, to prove that the engine is alive. False if it takes over `seconds`.
  virtual bool self_test(double seconds) = 0;
  // Returns whether the step loop takes a turn within `seconds`, and its device works.
  virtual bool ping(double seconds) = 0;
  // Drops every cached page that no running sequence holds; true if that is done within `seconds`.
  virtual bool reset_prefix_cache(double seconds) = 0;

  // The records of up to `most` steps from `number` on, or from the oldest that is kept (the last 4,096, about).
  virtual std::vector<StepRecord> steps(std::uint64_t number, std::size_t most) const = 0;
  virtual std::uint64_t steps_recorded() const = 0;  // the number of the next
  // Writes the engine's state between two steps; false if it does not get there within `seconds`.
  virtual bool snapshot(double seconds, EngineSnapshot* snapshot) = 0;

  // Replaces the model's weights by those of another folder, and returns their version; for as long as it takes the
  // caller waits, and requests that arrive wait, too. kDrain: once the running ones have ended; kAbort: they are
  // cancelled. Refuses another geometry, tokenizer ids aside, and then, as after any failure, nothing has changed.
  enum class ReloadMode { kDrain, kAbort };
  virtual Result<std::string> reload_weights(const std::string& folder, ReloadMode mode) = 0;
  virtual std::string weights_version() const = 0;

  virtual int vocab_size() const = 0;
  virtual int max_model_len() const = 0;
  // The largest Request::max_tokens that submit() accepts for a prompt of this length; 0: such a prompt is refused.
  virtual int most_tokens(int prompt_tokens) const = 0;
  // The end tokens of config.json and generation_config.json, and of the tokenizer where the caller named its own.
  virtual std::vector<std::int32_t> end_token_ids() const = 0;
  // Returns whether its device can change logits by TokenRules: penalties and biases. Requests that ask for it are
  // refused else.
  virtual bool takes_penalties() const = 0;
  virtual std::string profile_name() const = 0;  // e.g. "default int8 kv=fp8 index=fp4"
  virtual std::string isa_name() const = 0;
};

}  // namespace sluice
