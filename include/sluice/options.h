// EngineOptions: the flags of the engine, with their defaults; the command line fills them (cli/flags/engine_flags.h).
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

inline constexpr int kMostStepRows = 512;
inline constexpr int kMostDrafts = 8;  // the most drafts of a sequence in a step

enum class LoadFormat {
  kAuto,   // the checkpoint in the folder
  kDummy,  // random weights for the folder's config.json, which is all of it that is read
};

// The way in which latent attention computes long spans.
enum class MlaPrefill {
  kAbsorbed,
  kExpanded,  // gives up the row law (docs/guarantees.md)
};

// The choice whether a step begins before the tokens of the one before are known.
enum class AsyncScheduling {
  kAuto,  // where the device computes by itself
  kOn,
  kOff,
};

// The way in which the next tokens are guessed.
enum class Speculative {
  kAuto,   // both of the following, or what there is
  kMtp,    // the model's layer for multi-token prediction
  kNgram,  // copies of what the text, or the client's prediction, says
  kOff,
};

enum class SchedulingPolicy {
  kFair,      // half of the rows to the oldest prompt, the others to those with the fewest rows to compute; either half
              // takes what the other leaves
  kFcfs,      // in order of arrival, each as much as it can take
  kPriority,  // the same by (priority, arrival); and the best waiting sequence preempts running ones of strictly worse
              // priority, the worst and latest first, when that gives it the memory or the place it lacks
  kPrefillFirst,  // kFcfs, but while any prompt can advance, a step has no decodes, so they starve. As in engines
                  // whose steps are of one kind; for comparison in simulations
};

struct ModelOptions {
  std::string folder;
  LoadFormat load_format = LoadFormat::kAuto;
  // With random weights: this many routed experts a layer have weights of their own, the others those of e %
  // dummy_experts; 0: all.
  int dummy_experts = 0;
  // A token's id says which experts it goes to, about as many tokens to each; no score does.
  bool balanced_experts = false;
  int max_model_len = 0;   // tokens of prompt + answer; 0: the model's own limit
  bool pack = true;        // off: weights are used from the checkpoint's own pages, which processes share
  bool pack_cache = true;  // keep the packed form of large models in the cache folder, for the next start
  // Weights are mapped, and a file that another program cuts makes reading it raise SIGBUS. On: a handler for the whole
  // process answers that in the engine's files, so that requests fail and the process lives. Other SIGBUS go to the
  // handler that was there before. Off: the program that embeds the engine has to see to it.
  bool handle_sigbus = false;
};

// The options that decide the bits of an answer. Nothing else does (docs/guarantees.md).
struct NumericsOptions {
  std::string profile = "default";         // default | amx | plain | ref | sm90
  std::string compute_dtype = "auto";      // auto | f32 | bf16 | int8 | fp8
  std::string expert_dtype = "auto";       // auto, as the others | int8: of experts in MXFP4, in profile sm90
  std::string kv_cache_dtype = "auto";     // auto | f32 | bf16 | fp8
  std::string index_cache_dtype = "auto";  // auto | f32 | bf16 | fp8 | fp4
  MlaPrefill mla_prefill = MlaPrefill::kAbsorbed;
  int attn_prefill_chunk_size = 0;  // expanded: tokens of a prefix expanded at once; 0: 1,024
};

inline constexpr int kMostTensorParallel = 8;

struct MachineOptions {
  std::string device = "cpu";  // auto | cpu | cuda | cuda:N | cuda:N,M,... | emulated, which is for tests
  // Devices that share every layer's weights, each with its outputs of them; the answers are those of one.
  int tensor_parallel_size = 1;
  int collective_timeout = 60;  // seconds that one of them waits for another before the engine fails
  std::string isa = "auto";     // auto | scalar | avx2 | avx512 | avx512vbmi
  std::string kernels;          // changes to what the processor may use for them: "-amx,-vnni" (docs/cli.md)
  int threads = 0;              // 0: the number that decodes fastest
  bool pin_threads = true;      // each thread on a core of its own, if there are enough
  bool cuda_graphs = true;      // on a GPU, the kernels of a small step start as one graph
};

struct CacheOptions {
  std::int64_t kv_cache_memory = 0;  // bytes; 0: a quarter of the machine's memory
  bool enable_prefix_caching = true;
  std::int64_t swap_space = 0;  // bytes for the state of preempted sequences; 0: they are recomputed
  std::string swap_dir;         // where to keep it; empty: in memory
};

struct SchedulerOptions {
  // Rows of one step; 0: kMostStepRows, or fewer if the model would take more than a second for that many.
  int max_num_batched_tokens = 0;
  int max_num_seqs = 64;                    // sequences running at once
  bool enable_chunked_prefill = true;       // off needs max_num_batched_tokens >= max_model_len
  bool enable_mixed_prefill_decode = true;  // off: prompts and decodes in separate steps
  int long_prefill_token_threshold = 0;     // most rows of one prompt in a step; 0: no limit
  SchedulingPolicy scheduling_policy = SchedulingPolicy::kFair;
  AsyncScheduling async_scheduling = AsyncScheduling::kAuto;
};

// Tokens that follow the newest are guessed (drafted) and computed in the same step; those that are what the sampler
// draws stay (docs/speculation.md). Changes no answer.
struct SpeculationOptions {
  Speculative speculative = Speculative::kAuto;
  int num_speculative_tokens = 4;    // drafted for a sequence in a step, at most: 1 to kMostDrafts
  bool speculative_adaptive = true;  // fewer where they do not pay; off: always as many as there are rows for
};

struct EngineOptions {
  ModelOptions model;
  NumericsOptions numerics;
  MachineOptions machine;
  CacheOptions cache;
  SchedulerOptions scheduler;
  SpeculationOptions speculation;
  bool audit = false;  // check the cache and the plan after every step
};

}  // namespace sluice
