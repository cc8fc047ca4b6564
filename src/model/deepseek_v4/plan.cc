// Used by cache_layout.cc, model.cc, model/families.cc and step.h.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "model/deepseek_v4/model.h"

namespace sluice::v4 {
namespace {

// The layers by kind: "2 window, 4 CSA (1:4), 3 HCA (1:128)".
std::string attention_text(const std::vector<DeepSeekV4Layer>& layers) {
  std::map<int, int> counts;
  for (const DeepSeekV4Layer& layer : layers) ++counts[layer.compress_ratio];
  std::string text;
  for (const auto& [ratio, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count,
                        ratio == 0 ? "window" : fmt::format("{} (1:{})", ratio == 4 ? "CSA" : "HCA", ratio));
  }
  return text;
}

std::vector<PlanFact> facts(const ModelConfig& config) {
  const DeepSeekV4Config& v4 = config.v4();
  const MoeConfig& moe = config.moe;
  const auto hash = std::ranges::count_if(v4.layers, [](const DeepSeekV4Layer& layer) { return layer.hash_routing; });
  return {
      {"layers", fmt::format("{} + {} for multi-token prediction, {} streams; attention: {}", config.num_hidden_layers,
                             v4.mtp_layers.size(), v4.hc_mult, attention_text(v4.layers))},
      {"attention", fmt::format("{} heads of {} ({} rotary), query rank {}, output rank {} in {} groups, window {}",
                                config.num_attention_heads, config.head_dim, v4.qk_rope_head_dim, v4.q_lora_rank,
                                v4.o_lora_rank, v4.o_groups, v4.sliding_window)},
      {"indexer", fmt::format("{} heads of {}, best {} entries", v4.index_n_heads, v4.index_head_dim, v4.index_topk)},
      {"experts", fmt::format("{} of {} and {} shared, inner {}; {} layers route by token id", moe.num_experts_per_tok,
                              moe.n_routed_experts, moe.n_shared_experts, moe.moe_intermediate_size, hash)},
  };
}

}  // namespace

Result<ModelPlan> plan(ModelConfig config, NumericsProfile profile, bool mtp, const RankGroup& group) {
  SLUICE_RETURN_IF_ERROR(check_supported(config, profile));
  ModelPlan plan;
  std::vector<LayerPlanes> planes;
  plan.cache_layout = make_cache_layout(config, profile, mtp, planes);
  Weights unbound;  // the table needs an object to bind to
  WeightTable table = weight_table(config, profile, unbound, group);
  deal_weights(group, shared_weights(config, group), table);
  plan.tensors = planned_tensors(table, config.quantization);
  plan.facts = facts(config);
  plan.mtp = mtp;
  plan.step_bytes = [config, profile, mtp, group](int rows, Position positions) {
    return DeepSeekV4::step_bytes_of(config, profile, mtp, group, rows, positions);
  };
  plan.config = std::move(config);
  plan.profile = std::move(profile);
  return plan;
}

}  // namespace sluice::v4
