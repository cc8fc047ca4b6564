// RopeConfig: the rotary embedding of a model or of one kind of its layers, and its keys in config.json. They stand in
// rope_scaling {type or rope_type, ...} or in rope_parameters {rope_type, rope_theta, ...}; if rope_scaling has keys,
// it alone counts. The rules are the transformers library's: rope_theta and partial_rotary_factor there win over those
// at the top of the config, but original_max_position_embeddings at the top wins. Thread safety: plain values.
// Used by config/gguf/gguf_llama.cc, model/rope.h and model_config.h.
#pragma once

#include <string>
#include <vector>

#include "sluice/status.h"

namespace sluice {

struct ModelConfig;
class ConfigReader;
class JsonFields;

inline constexpr double kMaxTheta = 1e12;

// Without one of the flags only theta counts.
struct RopeConfig {
  double theta = 10000.0;
  bool yarn = false;
  double factor = 1.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  int original_max_position_embeddings = 0;
  double attention_factor = 1.0;  // multiplies cos and sin
  double mscale_all_dim = 0.0;    // 0: not given
  // Llama 3's: factor and original_max_position_embeddings, and these.
  bool llama3 = false;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;
  // The frequencies are divided by these, one per rotated pair, if there are any. Only GGUF files have them.
  std::vector<float> frequency_divisors = {};
  bool truncate = true;  // YaRN's bounds are whole pairs
  bool linear = false;   // all frequencies are divided by factor
  double rotated = 1.0;  // the part of the pairs that are rotated at all
  bool dynamic = false;  // plain up to max_position_embeddings; beyond it earlier rows would change
  // LongRoPE: the frequencies are divided by one of two lists, one number per pair: the short one for models of at most
  // original_max_position_embeddings positions (choose_rope_factors()).
  std::vector<float> short_factors = {}, long_factors = {};
  bool uses_long_factors = false;

  bool longrope() const { return !short_factors.empty(); }
  bool operator==(const RopeConfig&) const = default;
};

// YaRN's g: 0.1 * mscale * ln(factor) + 1, and 1 for a factor of at most 1.
double yarn_mscale(double factor, double mscale);

// Fills `rope` for a model whose layers are all alike and rotate `dims` values. YaRN's attention factor is the config's
// own; else g(mscale) / g(mscale_all_dim) if both are given; else g(1).
Status read_rope_config(ConfigReader& reader, int max_position_embeddings, int dims, RopeConfig& rope);

// Refuses unknown keys of `parameters`, an object of rope parameters; `more` lists further known keys.
void check_rope_keys(JsonFields& parameters, std::string_view more = {});

// The rope types that are computed, as in the documentation: "| type | keys |" lines.
std::string rope_types_text();

// Chooses LongRoPE's factors for models of `max_model_len` positions; 0: max_position_embeddings.
void choose_rope_factors(int max_model_len, ModelConfig& config);

}  // namespace sluice
