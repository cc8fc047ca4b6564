// sample, a team a row, and take_ids (kernels/sample.h).
#include <cstdint>

#include "kernels/cuda/shared/select_head.h"
#include "kernels/math.h"
#include "kernels/order_key.h"
#include "kernels/sample.h"
#include "kernels/sample_noise.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

constexpr int kSampleThreads = 512;
using SampleTeam = Team<kSampleThreads>;

SLUICE_DEVICE std::uint64_t weight_units(float w) {
  return static_cast<std::uint64_t>(std::nearbyint(w * kWeightUnits));
}

// The best of candidates: higher value, then lower id; id -1: none.
struct Best {
  float value;
  TokenId id;

  SLUICE_DEVICE void take(float other, TokenId other_id) {
    if (other > value || (other == value && other_id >= 0 && (other_id < id || id < 0))) {
      value = other;
      id = other_id;
    }
  }
};

struct SampleShared {
  SelectScratch<kSampleThreads> select;
  float values[kSampleThreads];
  TokenId ids[kSampleThreads];
  std::int32_t broken, listed;
};

// All threads' best ones; each of them has passed a sync().
SLUICE_DEVICE Best best_of_team(const SampleTeam& team, SampleShared& shared, PerThread<Best, kSampleThreads>& best) {
  team.sync();
  team.each([&](int t) {
    shared.values[t] = best[t].value;
    shared.ids[t] = best[t].id;
  });
  for (int half = kSampleThreads / 2; half > 0; half /= 2) {
    team.sync();
    team.each([&](int t) {
      if (t >= half) return;
      best[t].take(shared.values[t + half], shared.ids[t + half]);
      shared.values[t] = best[t].value;
      shared.ids[t] = best[t].id;
    });
  }
  team.sync();
  return {shared.values[0], shared.ids[0]};
}

struct Sample {
  static constexpr int kThreads = kSampleThreads;
  SampleArgs args;

  SLUICE_DEVICE void operator()(const SampleTeam& team) const {
    SampleShared& shared = *reinterpret_cast<SampleShared*>(team.shared);
    const SampleRow row = args.params[team.index];
    const float* logits = args.logits + static_cast<std::ptrdiff_t>(row.row) * args.vocab;
    SampledRow& out = args.out[team.index];
    team.each([&](int t) {
      if (t == 0) {
        out.status = SampleStatus::kOk;
        out.token = -1;
        out.logprob = 0.0F;
        out.top_count = 0;
        shared.broken = 0;
      }
      if (t < kSampledTop + kSampledIds) {
        out.top_ids.data()[t] = 0;
        out.top_logprobs.data()[t] = 0.0F;
      }
    });
    team.sync();
    const auto adjusted = [&](int i) {
      const float a = row.bias != nullptr ? logits[i] + row.bias[i] : logits[i];
      return row.allowed == nullptr || (row.allowed[i / 32] >> (i % 32) & 1U) != 0 ? a : -INFINITY;
    };
    PerThread<Best, kThreads> raw, best;
    team.each([&](int t) {
      raw[t] = best[t] = {-INFINITY, -1};
      bool broken = false;
      SLUICE_UNROLL_8
      for (int i = t; i < args.vocab; i += kThreads) {
        const float logit = logits[i], a = adjusted(i);
        broken |= !(logit < INFINITY) || !(a < INFINITY);
        raw[t].take(logit, i);
        best[t].take(a, i);
      }
      if (broken) shared.broken = 1;
    });
    const Best highest = best_of_team(team, shared, raw), first = best_of_team(team, shared, best);
    if (shared.broken != 0 || first.value == -INFINITY) {
      team.each([&](int t) {
        if (t > 0) return;
        out.status = shared.broken != 0 ? SampleStatus::kNotNumbers : SampleStatus::kNoCandidate;
        if (row.slot >= 0) args.newest[row.slot] = 0;
      });
      return;
    }
    HeadEnd end{INT32_MIN, args.vocab};  // of those that are kept: all
    const TokenId token = row.temperature == 0.0F ? first.id : draw(team, shared, row, first.value, adjusted, end);
    team.each([&](int t) {
      if (t > 0) return;
      out.token = token;
      if (row.slot >= 0) args.newest[row.slot] = token < 0 ? 0 : token;
    });
    if (row.top_logprobs < 0) return;
    if (!row.processed) {
      return add_logprobs(
          team, shared, row, highest.value, 1.0F, [&](int i) { return logits[i]; }, [](int) { return true; }, token,
          out);
    }
    const float r = row.temperature == 0.0F ? 1.0F : scale_of(row);
    const float min_p = row.temperature == 0.0F ? 0.0F : row.min_p;
    const auto kept = [&](int i) {
      const float a = adjusted(i);
      return a > -INFINITY && end.holds(order_key(a), i) && !(min_p > 0.0F && exp_f32((a - first.value) * r) < min_p);
    };
    add_logprobs(team, shared, row, first.value, r, adjusted, kept, token, out);
  }

  SLUICE_DEVICE static float scale_of(const SampleRow& row) {
    const float inverse = 1.0F / row.temperature;
    return inverse < 0x1p-126F ? 0x1p-126F : inverse;
  }

  template <class Adjusted>
  SLUICE_DEVICE TokenId draw(const SampleTeam& team, SampleShared& shared, const SampleRow& row, float m,
                             const Adjusted& adjusted, HeadEnd& end) const {
    const float r = scale_of(row);
    const auto key = [&](int i) { return order_key(adjusted(i)); };
    if (row.top_k > 0 && row.top_k < args.vocab) {
      const auto wanted = static_cast<std::uint64_t>(row.top_k);
      end = select_head(
          team, shared.select, args.vocab, key, [](int) { return std::uint64_t{1}; },
          [&](std::uint64_t sum, std::uint64_t) { return sum >= wanted; });
    }
    if (row.top_p < 1.0F) {
      const HeadEnd kept = end;
      end = select_head(
          team, shared.select, args.vocab, key,
          [&](int i) {
            const float a = adjusted(i);
            return kept.holds(order_key(a), i) ? weight_units(exp_f32((a - m) * r)) : 0;
          },
          [&](std::uint64_t sum, std::uint64_t all) {
            return static_cast<double>(sum) >= static_cast<double>(row.top_p) * static_cast<double>(all);
          });
    }
    PerThread<Best, kThreads> best;
    team.each([&](int t) {
      best[t] = {-INFINITY, -1};
      for (int call = t; 4 * call < args.vocab; call += kThreads) {
        bool any = false;
        for (int i = 4 * call; i < 4 * call + 4 && i < args.vocab; ++i) {
          const float a = adjusted(i);
          any |= a > -INFINITY && (a - m) * r + kMaxNoise >= best[t].value;
        }
        if (!any) continue;
        const PhiloxCounter words = noise_words(row.seed, row.position, static_cast<std::uint32_t>(call));
        for (int i = 4 * call; i < 4 * call + 4 && i < args.vocab; ++i) {
          const float a = adjusted(i), d = (a - m) * r;
          if (!(a > -INFINITY) || !end.holds(order_key(a), i)) continue;
          if (row.min_p > 0.0F && exp_f32(d) < row.min_p) continue;
          best[t].take(d + gumbel_noise(words[static_cast<std::size_t>(i % 4)]), i);
        }
      }
    });
    return best_of_team(team, shared, best).id;
  }

  // Of values, the highest of which is `highest`; `kept(i)`: whether an id has any, as a head of the list does.
  template <class Value, class Kept>
  SLUICE_DEVICE void add_logprobs(const SampleTeam& team, SampleShared& shared, const SampleRow& row, float highest,
                                  float scale, const Value& value, const Kept& kept, TokenId token,
                                  SampledRow& out) const {
    team.sync();
    team.each([&](int t) {
      if (t == 0) {
        shared.select.sums[0] = 0;
        shared.listed = 0;
      }
    });
    team.sync();
    team.each([&](int t) {
      std::uint64_t sum = 0;
      for (int i = t; i < args.vocab; i += kThreads) {
        if (kept(i)) sum += weight_units(exp_f32((value(i) - highest) * scale));
      }
      add_to_sum(&shared.select.sums[0], sum);
    });
    team.sync();
    const float log_sum = log_f32(static_cast<float>(shared.select.sums[0]) * (1.0F / kWeightUnits));
    const auto logprob = [&](int i) { return kept(i) ? ((value(i) - highest) * scale - log_sum) + 0.0F : -INFINITY; };
    const int count = row.top_logprobs < args.vocab ? row.top_logprobs : args.vocab;
    if (count > 0) {
      const auto key = [&](int i) { return order_key(value(i)); };
      const HeadEnd end = select_head(
          team, shared.select, args.vocab, key, [](int) { return std::uint64_t{1}; },
          [&](std::uint64_t sum, std::uint64_t) { return sum >= static_cast<std::uint64_t>(count); });
      team.each([&](int t) {
        for (int i = t; i < args.vocab; i += kThreads) {
          if (end.holds(key(i), i)) shared.ids[add_atomically(&shared.listed, 1)] = i;
        }
      });
      team.sync();
      team.each([&](int t) {
        if (t >= count || !kept(shared.ids[t])) return;
        const TokenId id = shared.ids[t];
        int rank = 0;
        for (int i = 0; i < count; ++i) {
          rank += HeadEnd{key(id), id - 1}.holds(key(shared.ids[i]), shared.ids[i]) ? 1 : 0;
        }
        out.top_ids.data()[rank] = id;
        out.top_logprobs.data()[rank] = logprob(id);
      });
    }
    team.each([&](int t) {
      if (t > row.id_count) return;
      int best = 0;
      for (int i = 0; i < count; ++i) best += kept(shared.ids[i]) ? 1 : 0;
      if (t == row.id_count) {
        out.logprob = logprob(token);
        out.top_count = best + row.id_count;
        return;
      }
      const TokenId id = args.params[team.index].ids.data()[t];
      out.top_ids.data()[best + t] = id;
      out.top_logprobs.data()[best + t] = logprob(id);
    });
  }
};

struct TakeIds {
  static constexpr int kThreads = 1;
  TakeIdsArgs args;
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const std::int32_t slot = args.slots[team.index];
    if (slot >= 0) args.ids[team.index] = args.newest[slot];
  }
};

}  // namespace

void take_ids(const Exec& exec, const TakeIdsArgs& args) {
  launch(exec, args.rows, TakeIds{args});
}

void sample(const Exec& exec, const SampleArgs& args) {
  SLUICE_CHECK(args.vocab <= kMaxSampleVocab, "a vocabulary whose weights can be summed");
  launch(exec, args.rows, Sample{args}, sizeof(SampleShared));
}

}  // namespace sluice::SLUICE_CUDA_OPS
