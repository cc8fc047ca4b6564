// The rotary table that a config asks for.
#pragma once

#include "config/rope_config.h"
#include "kernels/ops/rope_table.h"

namespace sluice {

// For `dims` rotary dims, with all that the config asks for: a scaling, divisors, an attention factor.
RopeTable make_rope_table(const RopeConfig& rope, int dims);

// What rope_frequencies() takes.
inline YarnScaling yarn_scaling(const RopeConfig& rope) {
  return {rope.factor, rope.beta_fast, rope.beta_slow, rope.original_max_position_embeddings, rope.truncate};
}

}  // namespace sluice
