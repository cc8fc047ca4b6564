#include <cmath>
#include <limits>
#include <vector>

#include "kernels/math.h"
#include "kernels/order_key.h"
#include "kernels/ref/kernels.h"

namespace sluice::ref {
namespace {

void choose(const RouteArgs& args, const std::vector<float>& scores, std::int32_t* ids) {
  std::vector<bool> taken(scores.size(), false);
  for (int slot = 0; slot < args.slots; ++slot) {
    int best = -1;
    std::int32_t best_key = 0;
    for (int e = 0; e < args.experts; ++e) {
      if (taken[static_cast<std::size_t>(e)]) continue;
      const float score = scores[static_cast<std::size_t>(e)];
      const std::int32_t key = order_key(args.bias != nullptr ? score + args.bias[e] : score);
      if (best < 0 || key > best_key) {
        best = e;
        best_key = key;
      }
    }
    taken[static_cast<std::size_t>(best)] = true;
    ids[slot] = best;
  }
}

}  // namespace

void route(const RouteArgs& args, int begin, int end) {
  std::vector<float> scores(static_cast<std::size_t>(args.experts));
  for (int row = begin; row < end; ++row) {
    const float* logits = args.logits + static_cast<std::ptrdiff_t>(row) * args.experts;
    for (int e = 0; e < args.experts; ++e) scores[static_cast<std::size_t>(e)] = std::sqrt(softplus_f32(logits[e]));
    std::int32_t* ids = args.ids + static_cast<std::ptrdiff_t>(row) * args.slots;
    float* weights = args.weights + static_cast<std::ptrdiff_t>(row) * args.slots;
    if (args.given_ids != nullptr) {
      for (int s = 0; s < args.slots; ++s) ids[s] = args.given_ids[static_cast<std::ptrdiff_t>(row) * args.slots + s];
    } else {
      choose(args, scores, ids);
    }
    float sum = 0.0F;
    for (int s = 0; s < args.slots; ++s) sum += scores[static_cast<std::size_t>(ids[s])];
    for (int s = 0; s < args.slots; ++s) weights[s] = scores[static_cast<std::size_t>(ids[s])] / sum * args.scaling;
  }
}

}  // namespace sluice::ref
