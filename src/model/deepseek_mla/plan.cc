// Used by cache_layout.cc, model.cc, model/families.cc and step.h.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/deepseek_mla/model.h"

namespace sluice::mla {
namespace {

std::vector<PlanFact> facts(const ModelConfig& config) {
  const DeepSeekMlaConfig& mla = config.mla();
  const MoeConfig& moe = config.moe;
  const auto dense = std::ranges::count(mla.sparse_layers, false);
  std::vector<PlanFact> facts = {
      {"layers", fmt::format("{} + {} for multi-token prediction; {} dense (inner {})", config.num_hidden_layers,
                             mla.predict_layers, dense, mla.intermediate_size)},
      {"attention",
       fmt::format("{} heads of {} + {} rotary, values of {}, latent of {}, queries {}", config.num_attention_heads,
                   mla.qk_nope_head_dim, mla.qk_rope_head_dim, mla.v_head_dim, mla.kv_lora_rank,
                   mla.q_lora_rank > 0 ? fmt::format("of rank {}", mla.q_lora_rank) : std::string("of full rank"))},
      {"experts", fmt::format("{} of {} and {} shared, inner {}; {}{}", moe.num_experts_per_tok, moe.n_routed_experts,
                              moe.n_shared_experts, moe.moe_intermediate_size, moe.scoring_func,
                              moe.n_group > 1 ? fmt::format(", the best {} of {} groups", moe.topk_group, moe.n_group)
                                              : std::string())},
  };
  if (mla.index_n_heads > 0) {
    facts.push_back({"indexer", fmt::format("{} heads of {}, best {} tokens", mla.index_n_heads, mla.index_head_dim,
                                            mla.index_topk)});
  }
  return facts;
}

}  // namespace

Result<ModelPlan> plan(ModelConfig config, NumericsProfile profile, bool mtp, const RankGroup& group) {
  ModelPlan plan;
  std::vector<LayerPlanes> planes;
  plan.cache_layout = make_cache_layout(config, profile, mtp, planes);
  Weights unbound;  // the table needs an object to bind to
  const ScaleForm scales{.suffix = ".weight_scale_inv", .fp8_as_f32 = true};
  WeightTable table = weight_table(config, profile, unbound, group);
  deal_weights(group, shared_weights(config, group), table);
  plan.tensors = planned_tensors(table, config.quantization, scales);
  plan.facts = facts(config);
  plan.mtp = mtp;
  plan.step_bytes = [config, profile, mtp, group](int rows, Position positions) {
    return DeepSeekMla::step_bytes_of(config, profile, mtp, group, rows, positions);
  };
  plan.config = std::move(config);
  plan.profile = std::move(profile);
  return plan;
}

}  // namespace sluice::mla
