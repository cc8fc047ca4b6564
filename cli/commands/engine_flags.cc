#include "cli/commands/engine_flags.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "text/chat/chat.h"

namespace sluice {
namespace {

constexpr const char* kGroup = "Engine";

void add_choice(CLI::App& command, const char* name, std::string& value, const char* text,
                std::vector<std::string> choices) {
  command.add_option(name, value, text)
      ->check(CLI::IsMember(std::move(choices)))
      ->option_text("NAME [" + value + "]")
      ->group(kGroup);
}

void add_count(CLI::App& command, const char* name, int& value, const char* text) {
  command.add_option(name, value, text)->option_text("N [" + std::to_string(value) + "]")->group(kGroup);
}

void add_size(CLI::App& command, const char* name, std::int64_t& value, const char* text) {
  command.add_option(name, value, text)
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->option_text("SIZE [0]")
      ->group(kGroup);
}

// --enable-NAME, the default, and --no-enable-NAME.
void add_switch(CLI::App& command, const std::string& name, bool& value, const char* text) {
  CLI::Option* on = command.add_flag_callback("--enable-" + name, [&value] { value = true; }, text);
  CLI::Option* off = command.add_flag_callback("--no-enable-" + name, [&value] { value = false; });
  on->option_text("[on]")->group(kGroup);
  off->option_text(" ")->excludes(on)->group(kGroup);
}

// --NAME, the default, and --no-NAME.
void add_plain_switch(CLI::App& command, const std::string& name, bool& value, const char* text) {
  CLI::Option* on = command.add_flag_callback("--" + name, [&value] { value = true; }, text);
  CLI::Option* off = command.add_flag_callback("--no-" + name, [&value] { value = false; });
  on->option_text("[on]")->group(kGroup);
  off->option_text(" ")->excludes(on)->group(kGroup);
}

// None of these changes a bit of any answer either.
void add_loading_flags(CLI::App& command, EngineSetup& options) {
  add_plain_switch(command, "pack", options.model.pack,
                   "Bring weights into the kernels' form at load; off: use them from the checkpoint's shared pages");
  add_plain_switch(command, "pack-cache", options.model.pack_cache,
                   "Keep the packed form of large models in the cache folder for the next start");
  add_plain_switch(command, "pin-threads", options.machine.pin_threads,
                   "Each thread on a core of its own, if there are as many");
  add_plain_switch(command, "cuda-graphs", options.machine.cuda_graphs,
                   "On a GPU, the kernels of a step of up to 256 rows start as one graph; off: one by one");
}

// Nor do these.
void add_speculation_flags(CLI::App& command, EngineSetup& options) {
  add_choice(
      command, "--speculative", options.speculation.speculative,
      "Guess the next tokens and compute them in one step: mtp (the model's own layer for that), ngram (copies of "
      "the text, or of the client's prediction), auto (both, or what there is) or off",
      {"auto", "mtp", "ngram", "off"});
  add_count(command, "--num-speculative-tokens", options.speculation.num_speculative_tokens,
            "Most tokens guessed for a sequence in a step, 1 to 8");
  add_plain_switch(command, "speculative-adaptive", options.speculation.speculative_adaptive,
                   "As many as pay; off: always as many as there are rows for");
}

// None of these changes a bit of any answer.
void add_scheduling_flags(CLI::App& command, EngineSetup& options) {
  add_switch(command, "prefix-caching", options.cache.enable_prefix_caching,
             "Reuse what equal prompt starts have computed");
  add_switch(command, "chunked-prefill", options.scheduler.enable_chunked_prefill,
             "Cut long prompts; off needs --max-num-batched-tokens of at least --max-model-len");
  add_switch(command, "mixed-prefill-decode", options.scheduler.enable_mixed_prefill_decode,
             "Prompts and answers in the same step");
  add_count(command, "--long-prefill-token-threshold", options.scheduler.long_prefill_token_threshold,
            "Most rows of one prompt in a step; 0: no limit");
  add_choice(command, "--scheduling-policy", options.scheduler.scheduling_policy,
             "fair (prompts share a step), fcfs (in order of arrival) or priority (by the requests' priority)",
             {"fair", "fcfs", "priority"});
  add_choice(command, "--async-scheduling", options.scheduler.async_scheduling,
             "Begin a step before the tokens of the one before are known: auto (where a device computes by itself), on "
             "or off",
             {"auto", "on", "off"});
  add_size(command, "--swap-space", options.cache.swap_space,
           "For the state of preempted requests; 0: it is computed again");
  command.add_option("--swap-dir", options.cache.swap_dir, "A folder for the swap space; by default it is in memory")
      ->option_text("DIR")
      ->group(kGroup);
  command.add_flag("--audit", options.audit, "Check the cache and the plan after every step")->group(kGroup);
  add_count(command, "--force-preempt-every", options.testing.force_preempt_every,
            "For tests: preempt a running request every N steps; 0: never");
  command.add_option("--inject", options.testing.inject_fault, "A deliberate fault, to see that it is found")
      ->group("");
}

}  // namespace

void add_log_level_flag(CLI::App& command, std::string& log_level) {
  command.add_option("--log-level", log_level, "trace, debug, info, warning, error or off")
      ->option_text("LEVEL [" + log_level + "]");
}

void add_engine_flags(CLI::App& command, EngineSetup& options, std::string& log_level) {
  command
      .add_option("MODEL", options.model.folder,
                  "A checkpoint's folder, a .gguf file or a known name (smollm2); by default the embedded model")
      ->option_text(" ");
  add_log_level_flag(command, log_level);
  command
      .add_option(
          "--device", options.machine.device,
          "Where the model runs: cpu, cuda (an NVIDIA GPU; cuda:N for the Nth), or auto: a GPU if there is one; "
          "emulated is for tests of what a GPU asks for")
      ->option_text("NAME [" + options.machine.device + "]")
      ->group(kGroup);
  add_choice(command, "--isa", options.machine.isa,
             "Kernels: auto, scalar, avx2, avx512 or avx512vbmi (see `sluice kernels`)",
             {"auto", "scalar", "avx2", "avx512", "avx512vbmi"});
  command.add_option("--kernels", options.machine.kernels, kKernelsHelp)->option_text("CHANGES")->group(kGroup);
  add_choice(command, "--profile", options.numerics.profile,
             "Numerics: default (by the checkpoint's own config), tiles (products in the order of AMX tiles), plain "
             "(f32, nothing simulated), ref (f32, "
             "training's quantisation simulated) or sm90 (tensor cores of H100 and H200)",
             {"default", "tiles", "plain", "ref", "sm90"});
  add_choice(command, "--compute-dtype", options.numerics.compute_dtype,
             "Inputs of linears: auto, f32, bf16, int8, or fp8 (as official inference rounds them)",
             {"auto", "f32", "bf16", "int8", "fp8"});
  add_choice(command, "--expert-dtype", options.numerics.expert_dtype,
             "With --profile sm90: int8 for experts in MXFP4, whose sums are exact, beside the others' inputs",
             {"auto", "int8"});
  add_choice(command, "--kv-cache-dtype", options.numerics.kv_cache_dtype, "auto, f32, bf16 or fp8",
             {"auto", "f32", "bf16", "fp8"});
  add_choice(command, "--index-cache-dtype", options.numerics.index_cache_dtype, "auto, f32, bf16, fp8 or fp4",
             {"auto", "f32", "bf16", "fp8", "fp4"});
  add_choice(command, "--mla-prefill", options.numerics.mla_prefill,
             "Latent attention of long spans: absorbed, or expanded (faster, but logits depend on how prompts are cut)",
             {"absorbed", "expanded"});
  add_count(command, "--attn-prefill-chunk-size", options.numerics.attn_prefill_chunk_size,
            "With --mla-prefill expanded: tokens of a prefix expanded at once; 0: 1024");
  add_count(command, "--threads", options.machine.threads,
            "0: the number that decodes fastest; changes no bit of any result");
  add_count(command, "--max-num-batched-tokens", options.scheduler.max_num_batched_tokens,
            "Rows of one step; 0: as many as take under a second, 512 at most");
  add_count(command, "--max-num-seqs", options.scheduler.max_num_seqs, "Sequences that run at once");
  add_choice(
      command, "--load-format", options.model.load_format,
      "auto: the checkpoint in the model's folder; dummy: random weights for its config.json, to measure a model "
      "whose weights are not at hand",
      {"auto", "dummy"});
  add_count(command, "--dummy-experts", options.model.dummy_experts,
            "Routed experts of a layer that have random weights of their own; the others share them; 0: all");
  command
      .add_flag("--balanced-experts", options.model.balanced_experts,
                "Random weights send about as many tokens to each routed expert")
      ->group(command.get_option("--dummy-experts")->get_group());
  add_count(command, "--max-model-len", options.model.max_model_len,
            "Tokens of prompt and answer; 0: the model's own limit");
  add_size(command, "--kv-cache-memory", options.cache.kv_cache_memory,
           "Such as 512MiB or 4GB; 0: a quarter of the memory");
  add_loading_flags(command, options);
  add_scheduling_flags(command, options);
  add_speculation_flags(command, options);
}

void add_chat_flags(CLI::App& command, ChatEncodingOptions& options) {
  constexpr const char* kChatGroup = "Chat";
  command.add_option("--chat-template", options.template_file, "A Jinja template in the place of the model's own")
      ->option_text("FILE")
      ->group(kChatGroup);
  command
      .add_option("--tool-call-parser", options.parsers.tool_call,
                  "hermes, llama3_json, deepseek_v3, deepseek_v31, deepseek_v32, deepseek_v4 or none; by default the "
                  "one that the template writes")
      ->option_text("NAME")
      ->group(kChatGroup);
  command
      .add_option("--reasoning-parser", options.parsers.reasoning,
                  "think or none; by default think if the template writes <think>")
      ->option_text("NAME")
      ->group(kChatGroup);
}

}  // namespace sluice
