#include "cli/engine_flags.h"

#include <CLI/CLI.hpp>

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

}  // namespace

void add_log_level_flag(CLI::App& command, std::string& log_level) {
  command.add_option("--log-level", log_level, "trace, debug, info, warning, error or off")
      ->option_text("LEVEL [" + log_level + "]");
}

void add_engine_flags(CLI::App& command, EngineOptions& options, std::string& log_level) {
  command.add_option("MODEL", options.model_folder, "A checkpoint's folder; by default the embedded model")
      ->option_text(" ");
  add_log_level_flag(command, log_level);
  add_choice(command, "--isa", options.isa, "Kernels: auto, scalar, avx2 or avx512 (see `sluice kernels`)",
             {"auto", "scalar", "avx2", "avx512"});
  add_choice(command, "--profile", options.profile,
             "Numerics: default (by the checkpoint's own config), plain (f32, nothing simulated) or ref (f32, "
             "training's quantisation simulated)",
             {"default", "plain", "ref"});
  add_choice(command, "--compute-dtype", options.compute_dtype, "auto, f32 or bf16", {"auto", "f32", "bf16"});
  add_choice(command, "--kv-cache-dtype", options.kv_cache_dtype, "auto, f32, bf16 or fp8",
             {"auto", "f32", "bf16", "fp8"});
  add_choice(command, "--index-cache-dtype", options.index_cache_dtype, "auto, f32, bf16, fp8 or fp4",
             {"auto", "f32", "bf16", "fp8", "fp4"});
  add_count(command, "--threads", options.threads, "0: one per core; changes no bit of any result");
  add_count(command, "--max-num-batched-tokens", options.max_num_batched_tokens, "Rows of one step");
  add_count(command, "--max-num-seqs", options.max_num_seqs, "Sequences that run at once");
  add_count(command, "--max-model-len", options.max_model_len, "Tokens of prompt and answer; 0: the model's own limit");
  command.add_option("--kv-cache-memory", options.kv_cache_memory, "Such as 512MiB or 4GB; 0: a quarter of the memory")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->option_text("SIZE [0]")
      ->group(kGroup);
}

}  // namespace sluice
