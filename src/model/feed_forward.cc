// Used by model/decoder/weights.h, model/deepseek_mla/weights.h and model/deepseek_v4/weights.h.
#include "model/feed_forward.h"

#include <fmt/format.h>

#include <string_view>

#include "kernels/ops/ops.h"

namespace sluice {

void FeedForwardScratch::reserve(Scratch& scratch, const MoeConfig& config, std::size_t rows) {
  scratch.add(rows, config.n_routed_experts, &router_logits);
  scratch.add(rows, config.num_experts_per_tok, &router_weights);
  scratch.add(rows, config.num_experts_per_tok, &router_ids);
}

Activation activation_of(const MoeConfig& config) {
  return {.limit = static_cast<float>(config.swiglu_limit.value_or(0.0))};
}

Status check_feed_forward(const Exec& exec, const Activation& activation, bool mlp_bias) {
  const OpTable& ops = exec.ops != nullptr ? *exec.ops : cpu_op_table();
  const auto refused = [&](std::string_view missing) {
    return invalid_argument(
        fmt::format("config.json: the ops of '{}' do not compute {} of feed-forward layers, which this model has; "
                    "choose --profile default, or --device cpu",
                    ops.device, missing));
  };
  if (mlp_bias && !ops.experts_support.biases) return refused("the biases (key 'mlp_bias')");
  if (activation.kind == ActivationKind::kGeluTanh && !ops.experts_support.gelu) return refused("the activation GELU");
  return {};
}

RouteArgs routing(const MoeConfig& config, const FeedForwardWeights& weights) {
  constexpr float kSumEpsilon = 1e-20F;  // added to the sum of the chosen scores (docs/models/deepseek_v3.md §2)
  const bool sigmoid = !weights.gate_bias.empty();
  RouteArgs rule;
  rule.score = sigmoid ? RouterScore::kSigmoid : RouterScore::kSoftmax;
  rule.normalised = config.norm_topk_prob, rule.sum_epsilon = kSumEpsilon;
  rule.groups = config.n_group, rule.kept_groups = config.topk_group;
  rule.group_score = sigmoid ? GroupScore::kTwoLargest : GroupScore::kLargest;
  return rule;
}

InputForms inputs_of(const FeedForwardWeights& weights) {
  InputForms forms;
  forms.add(weights.shared.gate).add(weights.shared.up);
  if (!weights.experts.empty()) forms.add(weights.gate).add(weights.experts[0].gate).add(weights.experts[0].up);
  return forms;
}

void feed_forward(const ModelStep& step, int layer, const ModelConfig& config, const FeedForwardWeights& weights,
                  const RouteArgs& routing, const Rows& x, const Rows& y, FeedForwardScratch& scratch) {
  const MoeConfig& moe = config.moe;
  const int rows = step.rows();
  ExpertsArgs args;
  args.rows = rows, args.hidden = config.hidden_size, args.x = x;
  const Rows own_y = step.own_part(y, &OwnColumns::y);
  args.y = own_y.values;
  args.activation = activation_of(moe);
  if (weights.shared.gate.out() > 0) args.shared = &weights.shared;
  if (!weights.shared_gate_bias.empty()) {
    args.shared_biases = {weights.shared_gate_bias.data(), weights.shared_up_bias.data(),
                          weights.shared_down_bias.data()};
  }
  if (!weights.experts.empty()) {
    RouteArgs router = routing;
    router.rows = rows, router.experts = moe.n_routed_experts, router.slots = moe.num_experts_per_tok;
    router.gate = &weights.gate, router.x = x, router.logits = scratch.router_logits.floats(rows);
    if (!weights.gate_bias.empty()) router.bias = weights.gate_bias.data();
    if (!weights.tid2eid.empty()) router.hash_ids = weights.tid2eid.data(), router.tokens = step.tables.ids.data();
    router.scaling = static_cast<float>(moe.routed_scaling_factor);
    router.ids = scratch.router_ids.ints(rows), router.weights = scratch.router_weights.floats(rows);
    route(step.exec, router);
    step.show(layer, "router_weights", scratch.router_weights.rows(rows));
    step.show(layer, "router_ids", router.ids, router.slots);
    if (step.exports != nullptr && step.exports->on_experts) step.exports->on_experts(layer, router.ids, router.slots);
    args.slots = router.slots, args.expert_ids = router.ids, args.expert_weights = router.weights;
    args.experts = weights.experts;
  }
  experts(step.exec, args);
  step.gather(own_y, y);
}

}  // namespace sluice
