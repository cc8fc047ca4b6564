// RopeConfig: the rotary embedding of a model or of one kind of its layers, and its keys in config.json, which come in
// two forms: official (rope_theta, rope_scaling {type or rope_type, ...}) and newer (rope_parameters {rope_type,
// rope_theta, ...}). Where both are there, the official keys win. Thread safety: plain values.
#pragma once

#include <vector>

#include "sluice/status.h"

namespace sluice {

class JsonFields;

inline constexpr double kMaxTheta = 1e12;

// Without YaRN and Llama 3's scaling only theta counts.
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

  bool operator==(const RopeConfig&) const = default;
};

// YaRN's g: 0.1 * mscale * ln(factor) + 1, and 1 for a factor of at most 1.
double yarn_mscale(double factor, double mscale);

// Fills `rope` for a model whose layers are all alike. theta keeps its value where no key names it. The attention
// factor is the config's own; else g(mscale) / g(mscale_all_dim) where both are given; else g(1).
Status read_rope_config(const JsonFields& fields, RopeConfig& rope);

}  // namespace sluice
