// sluice synth: a random checkpoint of any geometry that config.json can describe, in the official format or, for some
// families, as a GGUF file.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

struct SynthOptions {
  std::string config;      // config.json, or a folder with one
  std::string out;         // the folder or GGUF file to write
  std::string tokenizer;   // a folder with the tokenizer; "": none, in a GGUF file a generated one
  bool gguf = false;       // a GGUF file, in Q4_0
  bool store_f32 = false;  // every float tensor as f32 without scales, of the same values
  std::uint64_t seed = 0;
  std::uint64_t shard_bytes = 4'000'000'000;
};

int run_synth(const SynthOptions& options);

}  // namespace sluice
