// choose_experts (kernels/ops/router.h): a team for each row, with its scores in shared memory. The bias is loaded
// before the kernels ahead have ended.
// Called through the table of ops (kernels/ops/ops.h).
#include "kernels/cuda/launch.h"
#include "kernels/common/math.h"
#include "kernels/common/order_key.h"
#include "kernels/common/route_groups.h"
#include "kernels/ops/router.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct alignas(16) FourKeys {
  std::int32_t values[4];
};

struct Route {
  static constexpr int kThreads = 256;
  static constexpr bool kWaits = true;
  RouteArgs args;

  // Scores, biased scores and keys of the experts; keys of groups; the row's experts.
  SLUICE_HD static std::size_t shared_bytes(const RouteArgs& args) {
    return static_cast<std::size_t>(3 * args.experts + args.groups + args.slots) * sizeof(float);
  }

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    float* scores = reinterpret_cast<float*>(team.shared);
    auto* chosen = reinterpret_cast<std::int32_t*>(scores + 3 * args.experts + args.groups);
    std::int32_t* ids = args.ids + static_cast<std::ptrdiff_t>(team.index) * args.slots;
    float* weights = args.weights + static_cast<std::ptrdiff_t>(team.index) * args.slots;
    PerThread<float, kThreads> bias;  // the bias of the thread's first expert
    team.each([&](int t) { bias[t] = args.bias != nullptr && t < args.experts ? args.bias[t] : 0.0F; });
    wait_for_kernels();
    score(team, args.logits + static_cast<std::ptrdiff_t>(team.index) * args.experts, scores);
    if (args.hash_ids != nullptr) {
      team.each([&](int t) {
        for (int s = t; s < args.slots; s += kThreads) chosen[s] = args.given_id(team.index, s);
      });
    } else {
      choose(team, scores, bias, chosen);
    }
    team.sync();
    team.each([&](int t) {
      if (t >= args.slots) return;
      float sum = 0.0F;
      for (int s = 0; s < args.slots; ++s) sum += scores[chosen[s]];
      sum += args.sum_epsilon;
      for (int s = t; s < args.slots; s += kThreads) {
        const float of_slot = scores[chosen[s]];
        ids[s] = chosen[s];
        weights[s] = args.normalised ? of_slot / sum * args.scaling : of_slot * args.scaling;
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
    // Sixteen threads are the lanes of the sum; every other sixteen compute the same.
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

  // An expert's slot is the number of other experts that precede it.
  SLUICE_DEVICE void choose(const Team<kThreads>& team, const float* scores, PerThread<float, kThreads>& bias,
                            std::int32_t* chosen) const {
    float* biased = reinterpret_cast<float*>(team.shared) + args.experts;
    auto* keys = reinterpret_cast<std::int32_t*>(biased + args.experts);
    std::int32_t* group_keys = keys + args.experts;
    team.each([&](int t) {
      for (int e = t; e < args.experts; e += kThreads) {
        const float more = e == t || args.bias == nullptr ? bias[t] : args.bias[e];
        biased[e] = args.bias != nullptr ? scores[e] + more : scores[e];
        keys[e] = order_key(biased[e]);
      }
    });
    team.sync();
    if (args.groups > 1) {
      team.each([&](int t) {
        if (t == 0) keep_best_groups(args, biased, keys, group_keys);
      });
      team.sync();
    }
    team.each([&](int t) {
      for (int e = t; e < args.experts; e += kThreads) {
        const std::int32_t own = keys[e];
        if (own == kNoKey) continue;
        int slot = 0, other = 0;
        const auto count = [&](std::int32_t key) {
          slot += key > own - (other < e ? 1 : 0) ? 1 : 0;
          ++other;
        };
        if (args.experts % 4 == 0) {
          SLUICE_UNROLL_8
          for (int i = 0; i < args.experts / 4; ++i) {
            const FourKeys four = reinterpret_cast<const FourKeys*>(keys)[i];
            SLUICE_UNROLL
            for (const std::int32_t key : four.values) count(key);
          }
        }
        while (other < args.experts) count(keys[other]);
        if (slot < args.slots) chosen[slot] = e;
      }
    });
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
