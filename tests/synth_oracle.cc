// synth_oracle FOLDER: writes the weights of an oracle (tests/oracles), those of `sluice synth` with its own seed, into
// the folder of its config.json. A program of its own, so that the tests of a layer need not wait for the whole one.
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "base/storage/mapped_file.h"
#include "model/model_plan.h"
#include "model/weights/synth_sources.h"

namespace sluice {
namespace {

constexpr std::uint64_t kSeed = 0;  // the seed of `sluice synth` without --seed

Status write_oracle(const std::string& folder) {
  SLUICE_ASSIGN_OR_RETURN(ModelConfig config, load_model_config(folder));
  EngineSetup engine;
  engine.numerics.profile = "plain";
  SLUICE_ASSIGN_OR_RETURN(const ModelPlan plan, plan_model(std::move(config), engine));
  const SynthWeights weights(kSeed);
  return write_safetensors(folder + "/model.safetensors", synth_sources(plan, weights), {{"format", "pt"}});
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: synth_oracle FOLDER\n");
    return 2;
  }
  const sluice::Status status = sluice::write_oracle(argv[1]);
  if (!status.ok()) fmt::print(stderr, "synth_oracle: {}\n", status.message());
  return status.ok() ? 0 : 1;
}
