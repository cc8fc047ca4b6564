// choose_experts (kernels/router.h): a team a row, its scores in shared memory.
#include "kernels/cuda/launch.h"
#include "kernels/math.h"
#include "kernels/order_key.h"
#include "kernels/route_groups.h"
#include "kernels/router.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct Route {
  static constexpr int kThreads = 32;
  RouteArgs args;

  // Scores, biased scores and keys of the experts; keys of groups; the best expert of each thread.
  SLUICE_HD static std::size_t shared_bytes(const RouteArgs& args) {
    return static_cast<std::size_t>(3 * args.experts + args.groups + kThreads) * sizeof(float);
  }

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    float* scores = reinterpret_cast<float*>(team.shared);
    std::int32_t* ids = args.ids + static_cast<std::ptrdiff_t>(team.index) * args.slots;
    float* weights = args.weights + static_cast<std::ptrdiff_t>(team.index) * args.slots;
    score(team, args.logits + static_cast<std::ptrdiff_t>(team.index) * args.experts, scores);
    if (args.hash_ids != nullptr) {
      team.each([&](int t) {
        for (int s = t; s < args.slots; s += kThreads) ids[s] = args.given_id(team.index, s);
      });
    } else {
      choose(team, scores, ids);
    }
    team.sync();
    team.each([&](int t) {
      if (t > 0) return;
      float sum = 0.0F;
      for (int s = 0; s < args.slots; ++s) sum += scores[ids[s]];
      sum += args.sum_epsilon;
      for (int s = 0; s < args.slots; ++s) {
        const float chosen = scores[ids[s]];
        weights[s] = args.normalised ? chosen / sum * args.scaling : chosen * args.scaling;
      }
    });
  }

  SLUICE_DEVICE void score(const Team<kThreads>& team, const float* logits, float* scores) const {
    if (args.score != RouterScore::kSoftmax) {
      team.each([&](int t) {
        for (int e = t; e < args.experts; e += kThreads) {
          scores[e] = args.score == RouterScore::kSigmoid ? sigmoid_f32(logits[e]) : std::sqrt(softplus_f32(logits[e]));
        }
      });
      team.sync();
      return;
    }
    // Sixteen threads, as the lanes of the sum; the others do the same for themselves.
    PerThread<float, kThreads> m, z;
    team.each([&](int t) {
      m[t] = -INFINITY;
      for (int e = t % 16; e < args.experts; e += 16) m[t] = logits[e] > m[t] ? logits[e] : m[t];
    });
    max16(team, m);
    team.each([&](int t) {
      z[t] = 0.0F;
      for (int e = t % 16; e < args.experts; e += 16) {
        const float w = exp_f32(logits[e] - m[t]);
        if (t < 16) scores[e] = w;
        z[t] += w;
      }
    });
    tree_sum16(team, z);
    team.sync();
    team.each([&](int t) {
      for (int e = t; e < args.experts; e += kThreads) scores[e] = scores[e] / z[t];
    });
    team.sync();
  }

  SLUICE_DEVICE void choose(const Team<kThreads>& team, const float* scores, std::int32_t* ids) const {
    float* biased = reinterpret_cast<float*>(team.shared) + args.experts;
    auto* keys = reinterpret_cast<std::int32_t*>(biased + args.experts);
    std::int32_t* group_keys = keys + args.experts;
    std::int32_t* best_of = group_keys + args.groups;
    team.each([&](int t) {
      for (int e = t; e < args.experts; e += kThreads) {
        biased[e] = args.bias != nullptr ? scores[e] + args.bias[e] : scores[e];
        keys[e] = order_key(biased[e]);
      }
    });
    team.sync();
    team.each([&](int t) {
      if (t == 0 && args.groups > 1) keep_best_groups(args, biased, keys, group_keys);
    });
    for (int slot = 0; slot < args.slots; ++slot) {
      team.sync();
      team.each([&](int t) {
        int best = t < args.experts ? t : 0;
        for (int e = t; e < args.experts; e += kThreads) {
          if (keys[e] > keys[best]) best = e;
        }
        best_of[t] = best;
      });
      team.sync();
      team.each([&](int t) {
        if (t > 0) return;
        int best = best_of[0];
        for (int i = 1; i < kThreads; ++i) {
          const int e = best_of[i];
          if (keys[e] > keys[best] || (keys[e] == keys[best] && e < best)) best = e;
        }
        keys[best] = kNoKey;
        ids[slot] = best;
      });
    }
  }
};

}  // namespace

void choose_experts(const Exec& exec, const RouteArgs& args) {
  SLUICE_CHECK(args.hash_ids != nullptr || args.slots <= args.experts,
               "a row cannot choose more experts than there are");
  SLUICE_CHECK(args.groups > 0 && args.experts % args.groups == 0 && args.kept_groups <= args.groups,
               "groups of experts have equal length, and no more are kept than there are");
  launch(exec, args.rows, Route{args}, Route::shared_bytes(args));
}

}  // namespace sluice::SLUICE_CUDA_OPS
