// Makes the rotary table that a config asks for.
// Used by model/decoder/model.cc, model/deepseek_mla/model.cc and model/deepseek_v4/model.cc.
#pragma once

#include "config/rope_config.h"
#include "kernels/ops/rope_table.h"

namespace sluice {

// The table for `dims` rotary dims, with the config's scaling, divisors and attention factor.
RopeTable make_rope_table(const RopeConfig& rope, int dims);

// The config's scaling in the form of rope_frequencies().
inline YarnScaling yarn_scaling(const RopeConfig& rope) {
  return {rope.factor, rope.beta_fast, rope.beta_slow, rope.original_max_position_embeddings, rope.truncate};
}

}  // namespace sluice
