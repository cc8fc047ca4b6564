#include "model/feed_forward.h"

#include "kernels/router.h"

namespace sluice {
namespace {

constexpr float kSumEpsilon = 1e-20F;  // under the sum of the chosen scores (spec section 17.2)

}  // namespace

void FeedForwardScratch::reserve(Scratch& scratch, const MoeConfig& config, std::size_t rows) {
  const auto slots = static_cast<std::size_t>(config.num_experts_per_tok);
  scratch.add(rows * static_cast<std::size_t>(config.n_routed_experts), &router_logits);
  scratch.add(rows * slots, &router_weights);
  scratch.add(rows * slots, &router_ids);
}

void feed_forward(const ModelStep& step, int layer, const ModelConfig& config, const FeedForwardWeights& weights,
                  const float* x, float* y, FeedForwardScratch& scratch) {
  const MoeConfig& moe = config.moe;
  const int rows = step.rows(), hidden = config.hidden_size;
  ExpertsArgs args;
  args.rows = rows, args.hidden = hidden, args.x = x, args.y = y;
  if (weights.shared.gate.out() > 0) args.shared = &weights.shared;
  if (!weights.experts.empty()) {
    float* logits = scratch.router_logits.get(step.floats(moe.n_routed_experts));
    const LinearJob gate{&weights.gate, x, hidden, logits, moe.n_routed_experts};
    linear(step.exec, rows, {&gate, 1});
    const bool sigmoid = !weights.gate_bias.empty();
    RouteArgs router;
    router.rows = rows, router.experts = moe.n_routed_experts, router.slots = moe.num_experts_per_tok;
    router.logits = logits;
    router.bias = sigmoid ? weights.gate_bias.data() : nullptr;
    router.scaling = static_cast<float>(moe.routed_scaling_factor);
    router.ids = scratch.router_ids.ints(step.floats(router.slots));
    router.weights = scratch.router_weights.get(step.floats(router.slots));
    router.score = sigmoid ? RouterScore::kSigmoid : RouterScore::kSoftmax;
    router.normalised = moe.norm_topk_prob, router.sum_epsilon = kSumEpsilon;
    router.groups = moe.n_group, router.kept_groups = moe.topk_group;
    router.group_score = sigmoid ? GroupScore::kTwoLargest : GroupScore::kLargest;
    route(step.exec, router);
    step.show(layer, "router_weights", router.weights, router.slots);
    step.show(layer, "router_ids", router.ids, router.slots);
    args.slots = router.slots, args.expert_ids = router.ids, args.expert_weights = router.weights;
    args.experts = weights.experts;
  }
  experts(step.exec, args);
}

}  // namespace sluice
