#include "config/rope_config.h"

#include <cmath>

#include "files/json_fields.h"

namespace sluice {
namespace {

void read_yarn(JsonFields& scaling, RopeConfig& rope) {
  rope.yarn = true;
  scaling.require("factor", rope.factor, 1.0, 1e6);
  scaling.require("original_max_position_embeddings", rope.original_max_position_embeddings, 1, 1 << 30);
  scaling.read("beta_fast", rope.beta_fast, 1e-3, 1e6);
  scaling.read("beta_slow", rope.beta_slow, 1e-3, rope.beta_fast);
  double mscale = 0.0;
  scaling.read("mscale", mscale, 0.0, 1e3);
  scaling.read("mscale_all_dim", rope.mscale_all_dim, 0.0, 1e3);
  const bool both = mscale != 0.0 && rope.mscale_all_dim != 0.0;
  rope.attention_factor = both ? yarn_mscale(rope.factor, mscale) / yarn_mscale(rope.factor, rope.mscale_all_dim)
                               : yarn_mscale(rope.factor, 1.0);
  scaling.read("attention_factor", rope.attention_factor, 1e-3, 1e3);
}

void read_llama3(JsonFields& scaling, RopeConfig& rope) {
  rope.llama3 = true;
  scaling.require("factor", rope.factor, 1.0, 1e6);
  scaling.require("original_max_position_embeddings", rope.original_max_position_embeddings, 1, 1 << 30);
  scaling.require("low_freq_factor", rope.low_freq_factor, 1e-3, 1e6);
  scaling.require("high_freq_factor", rope.high_freq_factor, rope.low_freq_factor, 1e6);
  if (scaling.status().ok() && rope.high_freq_factor == rope.low_freq_factor) {
    scaling.fail("high_freq_factor", "more than low_freq_factor");
  }
}

// The scaling below rope_scaling or rope_parameters.
Status read_scaling(JsonFields scaling, RopeConfig& rope) {
  std::string type = "default";
  scaling.read("type", type);
  scaling.read("rope_type", type);
  scaling.read("rope_theta", rope.theta, 1.0, kMaxTheta);
  if (type == "yarn") {
    read_yarn(scaling, rope);
  } else if (type == "llama3") {
    read_llama3(scaling, rope);
  } else if (type != "default") {
    scaling.fail(scaling.has("rope_type") ? "rope_type" : "type", "\"yarn\", \"llama3\" or \"default\"");
  }
  return scaling.status();
}

}  // namespace

double yarn_mscale(double factor, double mscale) {
  return factor > 1.0 ? 0.1 * mscale * std::log(factor) + 1.0 : 1.0;
}

Status read_rope_config(const JsonFields& fields, RopeConfig& rope) {
  JsonFields top = fields;
  SLUICE_RETURN_IF_ERROR(read_scaling(top.child(top.has("rope_scaling") ? "rope_scaling" : "rope_parameters"), rope));
  if (top.has("rope_scaling") && top.has("rope_parameters")) {
    top.child("rope_parameters").read("rope_theta", rope.theta, 1.0, kMaxTheta);
  }
  top.read("rope_theta", rope.theta, 1.0, kMaxTheta);
  return top.status();
}

}  // namespace sluice
