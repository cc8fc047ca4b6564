#include "cli/flags/engine_flags.h"

#include <CLI/CLI.hpp>

#include "cli/flags/flag_table.h"
#include "engine/option_words.h"
#include "text/chat/chat.h"

namespace sluice {
namespace {

constexpr const char* kGroup = "Engine";
constexpr std::size_t kServedPolicies = 3;  // the last policy is for simulations only

// These flags choose the bits of answers.
void add_numerics_flags(CLI::App& command, EngineSetup& options) {
  NumericsOptions& numerics = options.numerics;
  add_flags(
      command, kGroup,
      {
          {"--profile",
           &numerics.profile,
           "NAME",
           "Numerics: default (by the checkpoint's own config), amx (products in the order of AMX tiles), plain "
           "(f32, "
           "nothing simulated), ref (f32, training's quantisation simulated) or sm90 (tensor cores of H100 and H200)",
           {.choices = {"default", "amx", "plain", "ref", "sm90"}, .old_names = {{"tiles", "amx"}}}},
          {"--compute-dtype",
           &numerics.compute_dtype,
           "NAME",
           "Inputs of linears: auto, f32, bf16, int8, or fp8 (as official inference rounds them)",
           {.choices = {"auto", "f32", "bf16", "int8", "fp8"}}},
          {"--expert-dtype",
           &numerics.expert_dtype,
           "NAME",
           "With --profile sm90: int8 keeps the exact integer sums of experts in MXFP4",
           {.choices = {"auto", "int8"}}},
          {"--kv-cache-dtype",
           &numerics.kv_cache_dtype,
           "NAME",
           "Numbers of the KV cache: auto, f32, bf16 or fp8",
           {.choices = {"auto", "f32", "bf16", "fp8"}}},
          {"--index-cache-dtype",
           &numerics.index_cache_dtype,
           "NAME",
           "Numbers of the indexers' cache: auto, f32, bf16, fp8 or fp4",
           {.choices = {"auto", "f32", "bf16", "fp8", "fp4"}}},
          {"--mla-prefill", choice(&numerics.mla_prefill), "NAME",
           "Latent attention of long spans: absorbed, or expanded (faster, but logits depend on how prompts are cut)"},
          {"--attn-prefill-chunk-size", &numerics.attn_prefill_chunk_size, "N",
           "With --mla-prefill expanded: tokens of a prefix expanded at once; 0: 1024"},
      });
}

// None of the following flags changes a bit of any answer.
void add_machine_flags(CLI::App& command, EngineSetup& options) {
  MachineOptions& machine = options.machine;
  add_flags(
      command, kGroup,
      {
          {"--device", &machine.device, "NAME",
           "Where the model runs: cpu, cuda (an NVIDIA GPU; cuda:N for the Nth, cuda:N,M for several), or auto: a "
           "GPU if there is one; emulated is for tests of what a GPU asks for"},
          {"--tensor-parallel-size", &machine.tensor_parallel_size, "N",
           "GPUs of this machine that share every layer; the answers are those of one, bit for bit"},
          {"--collective-timeout", &machine.collective_timeout, "SECONDS",
           "Seconds that one of several GPUs waits for another before the engine fails with its name"},
          {"--isa",
           &machine.isa,
           "NAME",
           "Kernels: auto, scalar, avx2, avx512 or avx512vbmi (see `sluice kernels`)",
           {.choices = {"auto", "scalar", "avx2", "avx512", "avx512vbmi"}}},
          {"--kernels", &machine.kernels, "CHANGES", kKernelsHelp},
          {"--threads", &machine.threads, "N", "Threads that compute; 0: the number that decodes fastest"},
          {"--pin-threads", SwitchTarget{&machine.pin_threads}, "",
           "Keep each thread on a core of its own, if there are as many threads as cores"},
          {"--cuda-graphs", SwitchTarget{&machine.cuda_graphs}, "",
           "On a GPU, the kernels of a step of up to 256 rows start as one graph; off: one by one"},
      });
}

void add_loading_flags(CLI::App& command, EngineSetup& options) {
  ModelOptions& model = options.model;
  add_flags(
      command, kGroup,
      {
          {"--load-format", choice(&model.load_format), "NAME",
           "auto: the checkpoint in the model's folder; dummy: random weights for its config.json, to measure a "
           "model whose weights are not at hand"},
          {"--dummy-experts", &model.dummy_experts, "N",
           "With random weights: routed experts of a layer with weights of their own, which the others share; 0: all"},
          {"--balanced-experts", &model.balanced_experts, "",
           "With random weights: send about as many tokens to each routed expert"},
          {"--max-model-len", &model.max_model_len, "N", "Most tokens of prompt and answer; 0: the model's own limit"},
          {"--pack", SwitchTarget{&model.pack}, "",
           "Bring weights into the kernels' form at load; off: use them from the checkpoint's shared pages"},
          {"--pack-cache", SwitchTarget{&model.pack_cache}, "",
           "Keep the packed form of large models in the cache folder for the next start"},
      });
}

void add_scheduling_flags(CLI::App& command, EngineSetup& options) {
  SchedulerOptions& scheduler = options.scheduler;
  CacheOptions& cache = options.cache;
  add_flags(command, kGroup,
            {
                {"--max-num-batched-tokens", &scheduler.max_num_batched_tokens, "N",
                 "Rows of one step; 0: as many as take under a second, 512 at most"},
                {"--max-num-seqs", &scheduler.max_num_seqs, "N", "Sequences that run at once"},
                {"--kv-cache-memory", ByteTarget{&cache.kv_cache_memory}, "SIZE",
                 "Memory of the KV cache, such as 512MiB or 4GB; 0: a quarter of the machine's"},
                {"--enable-prefix-caching", SwitchTarget{&cache.enable_prefix_caching}, "",
                 "Reuse the cached state of prompts that begin with the same tokens"},
                {"--enable-chunked-prefill", SwitchTarget{&scheduler.enable_chunked_prefill}, "",
                 "Cut long prompts; off needs --max-num-batched-tokens of at least --max-model-len"},
                {"--enable-mixed-prefill-decode", SwitchTarget{&scheduler.enable_mixed_prefill_decode}, "",
                 "Compute prompts and answers in the same step"},
                {"--long-prefill-token-threshold", &scheduler.long_prefill_token_threshold, "N",
                 "Most rows of one prompt in a step; 0: no limit"},
                {"--scheduling-policy", choice(&scheduler.scheduling_policy, kServedPolicies), "NAME",
                 "fair (prompts share a step), fcfs (in order of arrival) or priority (by the requests' priority)"},
                {"--async-scheduling", choice(&scheduler.async_scheduling), "NAME",
                 "Begin a step before the tokens of the one before are known: auto (where a device computes by "
                 "itself), on or off"},
                {"--swap-space", ByteTarget{&cache.swap_space}, "SIZE",
                 "Memory for the state of preempted requests; 0: it is computed again"},
                {"--swap-dir", &cache.swap_dir, "DIR", "A folder for the swap space; by default it is in memory"},
                {"--audit", &options.audit, "", "Check the cache and the plan after every step"},
                {"--force-preempt-every", &options.testing.force_preempt_every, "N",
                 "For tests: preempt a running request every N steps; 0: never"},
            });
  add_flags(command, "", {{"--inject", &options.testing.inject_fault, "NAME", "A deliberate fault, to see it found"}});
}

void add_speculation_flags(CLI::App& command, EngineSetup& options) {
  SpeculationOptions& speculation = options.speculation;
  add_flags(command, kGroup,
            {
                {"--speculative", choice(&speculation.speculative), "NAME",
                 "Guess the next tokens and compute them in one step: mtp (the model's own layer for that), ngram "
                 "(copies of the text, or of the client's prediction), auto (both, or what there is) or off"},
                {"--num-speculative-tokens", &speculation.num_speculative_tokens, "N",
                 "Most tokens guessed for a sequence in a step, 1 to 8"},
                {"--speculative-adaptive", SwitchTarget{&speculation.speculative_adaptive}, "",
                 "Guess as many tokens as pay; off: always as many as there are rows for"},
            });
}

}  // namespace

void add_log_level_flag(CLI::App& command, std::string& log_level) {
  add_flags(command, kOwnFlags,
            {{"--log-level", &log_level, "LEVEL", "Level of the log: trace, debug, info, warning, error or off"}});
}

void add_engine_flags(CLI::App& command, EngineSetup& options, std::string& log_level) {
  add_flags(command, kOwnFlags,
            {{"MODEL", &options.model.folder, "",
              "A checkpoint's folder, a .gguf file or a known name (smollm2); by default the embedded model"}});
  add_log_level_flag(command, log_level);
  add_machine_flags(command, options);
  add_numerics_flags(command, options);
  add_loading_flags(command, options);
  add_scheduling_flags(command, options);
  add_speculation_flags(command, options);
}

void add_chat_flags(CLI::App& command, ChatEncodingOptions& options) {
  add_flags(command, "Chat",
            {
                {"--chat-template", &options.template_file, "FILE", "A Jinja template in the place of the model's own"},
                {"--tool-call-parser", &options.parsers.tool_call, "NAME",
                 "Syntax of an answer's tool calls: hermes, llama3_json, deepseek_v3, deepseek_v31, deepseek_v32, "
                 "deepseek_v4 or "
                 "none; by default as the template writes them"},
                {"--reasoning-parser", &options.parsers.reasoning, "NAME",
                 "Syntax of an answer's reasoning: think or none; by default think if the template writes <think>"},
            });
}

}  // namespace sluice
