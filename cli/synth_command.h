// sluice synth: a random checkpoint in the official format, of any geometry that config.json can describe.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

struct SynthOptions {
  std::string config;      // config.json, or a folder with one
  std::string out;         // the folder to write
  std::string tokenizer;   // a folder whose tokenizer files are copied; "": none
  bool store_f32 = false;  // every float tensor as f32 without scales, of the same values
  std::uint64_t seed = 0;
  std::uint64_t shard_bytes = 4'000'000'000;
};

int run_synth(const SynthOptions& options);

}  // namespace sluice
