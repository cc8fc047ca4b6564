#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/math.h"
#include "kernels/common/order_key.h"
#include "kernels/common/route_groups.h"
#include "kernels/ref/kernels.h"
#include "kernels/ref/lanes16.h"

namespace sluice::ref {
namespace {

void softmax(const float* logits, std::vector<float>& scores) {
  float m = -std::numeric_limits<float>::infinity();
  for (std::size_t e = 0; e < scores.size(); ++e) m = logits[e] > m ? logits[e] : m;
  Lanes16 z{};
  for (std::size_t e = 0; e < scores.size(); ++e) {
    scores[e] = exp_f32(logits[e] - m);
    z[e % 16] += scores[e];
  }
  const float sum = tree_sum(z);
  for (float& score : scores) score = score / sum;
}

void score(RouterScore kind, const float* logits, std::vector<float>& scores) {
  if (kind == RouterScore::kSoftmax) return softmax(logits, scores);
  for (std::size_t e = 0; e < scores.size(); ++e) {
    scores[e] = kind == RouterScore::kSigmoid ? sigmoid_f32(logits[e]) : std::sqrt(softplus_f32(logits[e]));
  }
}

void choose(const RouteArgs& args, const std::vector<float>& scores, std::int32_t* ids) {
  std::vector<float> biased = scores;
  std::vector<std::int32_t> keys(scores.size()), group_keys(static_cast<std::size_t>(args.groups));
  for (std::size_t e = 0; e < scores.size(); ++e) {
    if (args.bias != nullptr) biased[e] = scores[e] + args.bias[e];
    keys[e] = order_key(biased[e]);
  }
  if (args.groups > 1) keep_best_groups(args, biased.data(), keys.data(), group_keys.data());
  for (int slot = 0; slot < args.slots; ++slot) {
    std::size_t best = 0;
    for (std::size_t e = 1; e < keys.size(); ++e) {
      if (keys[e] > keys[best]) best = e;
    }
    keys[best] = kNoKey;
    ids[slot] = static_cast<std::int32_t>(best);
  }
}

}  // namespace

void route(const RouteArgs& args, int begin, int end) {
  std::vector<float> scores(static_cast<std::size_t>(args.experts));
  for (int row = begin; row < end; ++row) {
    score(args.score, args.logits + static_cast<std::ptrdiff_t>(row) * args.experts, scores);
    std::int32_t* ids = args.ids + static_cast<std::ptrdiff_t>(row) * args.slots;
    float* weights = args.weights + static_cast<std::ptrdiff_t>(row) * args.slots;
    if (args.hash_ids != nullptr) {
      for (int s = 0; s < args.slots; ++s) ids[s] = args.given_id(row, s);
    } else {
      choose(args, scores, ids);
    }
    float sum = 0.0F;
    for (int s = 0; s < args.slots; ++s) sum += scores[static_cast<std::size_t>(ids[s])];
    sum += args.sum_epsilon;
    for (int s = 0; s < args.slots; ++s) {
      const float chosen = scores[static_cast<std::size_t>(ids[s])];
      weights[s] = args.normalised ? chosen / sum * args.scaling : chosen * args.scaling;
    }
  }
}

}  // namespace sluice::ref
