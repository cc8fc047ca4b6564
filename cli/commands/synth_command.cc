#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "base/progress.h"
#include "base/storage/mapped_file.h"
#include "base/utf8.h"
#include "cli/commands/model_commands.h"
#include "cli/commands/synth_gguf.h"
#include "cli/exit_code.h"
#include "files/model_path.h"
#include "model/model_plan.h"
#include "model/weights/synth_sources.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string config_file(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error) ? path + "/config.json" : path;
}

Status write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? Status() : internal_error(fmt::format("{}: cannot be written", path));
}

// Copies the files of a tokenizer folder; tokenizer.json must be there.
Status copy_tokenizer(const std::string& from, const std::string& to) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "generation_config.json"}) {
    const std::string path = fmt::format("{}/{}", from, name);
    std::error_code error;
    if (!fs::exists(path, error) && name != std::string_view("tokenizer.json")) continue;
    SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
    SLUICE_RETURN_IF_ERROR(write_text(fmt::format("{}/{}", to, name), text));
  }
  return {};
}

struct Written {
  std::size_t tensors = 0, bytes = 0;
};

// Writes one GGUF file.
Result<Written> write_gguf_model(const SynthOptions& options, const ModelPlan& plan, const SynthWeights& weights) {
  std::error_code error;
  if (!is_gguf_path(options.out) || fs::exists(options.out, error)) {
    return invalid_argument(fmt::format("{}: expected a new file whose name ends in .gguf", options.out));
  }
  SLUICE_ASSIGN_OR_RETURN(const GgufEntries metadata, gguf_metadata(plan.config, options.tokenizer));
  const std::vector<TensorSource> sources = gguf_sources(plan, weights);
  Written written{.tensors = sources.size()};
  ProgressBar bar("writing");
  SLUICE_RETURN_IF_ERROR(write_gguf(options.out, metadata, sources, [&](std::size_t done, std::size_t total) {
    written.bytes = total;
    bar.update(done, total);
  }));
  return written;
}

// Writes a folder with config.json, weights and, if asked for, a tokenizer.
Result<Written> write_folder(const SynthOptions& options, const std::string& config_text, const ModelPlan& plan,
                             const SynthWeights& weights) {
  const std::vector<TensorSource> sources =
      options.store == "f32" ? synth_sources_as_f32(plan, weights) : synth_sources(plan, weights);
  Written written{.tensors = sources.size()};
  {
    ProgressBar bar("writing");
    SLUICE_RETURN_IF_ERROR(write_checkpoint(options.out, sources, static_cast<std::uint64_t>(options.shard_bytes),
                                            [&](std::size_t done, std::size_t total) {
                                              written.bytes = total;
                                              bar.update(done, total);
                                            }));
  }
  SLUICE_RETURN_IF_ERROR(write_text(options.out + "/config.json", config_text));
  if (!options.tokenizer.empty()) SLUICE_RETURN_IF_ERROR(copy_tokenizer(options.tokenizer, options.out));
  return written;
}

Status synthesise(const SynthOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const std::string config_text, read_text_file(config_file(options.config)));
  SLUICE_ASSIGN_OR_RETURN(ModelConfig config, parse_model_config(config_text, config_file(options.config)));
  EngineSetup engine;
  engine.numerics.profile = "plain";  // every profile has the same weights, and this one takes any shape
  SLUICE_ASSIGN_OR_RETURN(const ModelPlan plan, plan_model(std::move(config), engine));
  if (!options.tokenizer.empty()) {  // errors in it are found before the weights are written
    SLUICE_RETURN_IF_ERROR(read_text_file(options.tokenizer + "/tokenizer.json").status());
  }

  const SynthWeights weights(options.seed);
  Result<Written> written = !options.gguf.empty() ? write_gguf_model(options, plan, weights)
                                                  : write_folder(options, config_text, plan, weights);
  if (!written.ok()) return written.status();
  std::int64_t parameters = 0;
  for (const PlannedTensor& tensor : plan.tensors) parameters += tensor.parameters;
  fmt::print("{}: {} tensors, {:.1f} M parameters, {}, seed {}\n", to_valid_utf8(options.out), written->tensors,
             static_cast<double>(parameters) * 1e-6, format_bytes(static_cast<double>(written->bytes)), options.seed);
  return {};
}

}  // namespace

int run_synth(const SynthOptions& options) {
  return report(synthesise(options));
}

}  // namespace sluice
