#include "model/feed_forward.h"

#include "kernels/device/device.h"

namespace sluice {

void FeedForwardScratch::reserve(Scratch& scratch, const MoeConfig& config, std::size_t rows) {
  scratch.add(rows, config.n_routed_experts, &router_logits);
  scratch.add(rows, config.num_experts_per_tok, &router_weights);
  scratch.add(rows, config.num_experts_per_tok, &router_ids);
}

Status check_mlp_bias(const Exec& exec, bool mlp_bias) {
  if (!mlp_bias || exec.device == nullptr || exec.device == &cpu_device()) return {};
  return invalid_argument(
      "config.json: key 'mlp_bias': biases of feed-forward layers are computed on the CPU alone, found true with "
      "another device; start with --device cpu");
}

RouteArgs routing(const MoeConfig& config, const FeedForwardWeights& weights) {
  constexpr float kSumEpsilon = 1e-20F;  // under the sum of the chosen scores (docs/models/deepseek_v3.md §2)
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
  args.rows = rows, args.hidden = config.hidden_size, args.x = x, args.y = y.values;
  args.limit = static_cast<float>(moe.swiglu_limit.value_or(0.0));
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
}

}  // namespace sluice
