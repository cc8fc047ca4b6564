#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/common/math.h"
#include "kernels/common/sample_noise.h"
#include "kernels/ops/sample.h"
#include "kernels/ref/kernels.h"

namespace sluice::ref {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint64_t weight_units(float w) {
  return static_cast<std::uint64_t>(std::nearbyint(w * kWeightUnits));
}

std::vector<TokenId> list_of(const std::vector<float>& a) {
  std::vector<TokenId> list(a.size());
  std::iota(list.begin(), list.end(), 0);
  std::stable_sort(list.begin(), list.end(), [&](TokenId i, TokenId j) {
    return a[static_cast<std::size_t>(i)] > a[static_cast<std::size_t>(j)];
  });
  return list;
}

struct Drawn {
  TokenId token = -1;
  std::vector<TokenId> kept = {};  // the start of the list that the filters keep
  float r = 1.0F;
};

Drawn draw(const std::vector<float>& a, const SampleRow& row) {
  std::vector<TokenId> list = list_of(a);
  const auto at = [](TokenId id) { return static_cast<std::size_t>(id); };
  std::erase_if(list, [&](TokenId id) { return a[at(id)] == -kInfinity; });
  if (row.temperature == 0.0F) return {.token = list[0], .kept = list};
  const float m = a[at(list[0])];
  const float r = std::max(1.0F / row.temperature, std::numeric_limits<float>::min());
  std::vector<float> d(a.size()), w(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    d[i] = (a[i] - m) * r;
    w[i] = exp_f32(d[i]);
  }
  if (row.top_k > 0) list.resize(std::min(list.size(), static_cast<std::size_t>(row.top_k)));
  if (row.top_p < 1.0F) {
    std::uint64_t all = 0, kept = 0;
    for (const TokenId id : list) all += weight_units(w[at(id)]);
    const double enough = static_cast<double>(row.top_p) * static_cast<double>(all);
    std::size_t count = 0;
    while (static_cast<double>(kept) < enough) kept += weight_units(w[at(list[count++])]);
    list.resize(count);
  }
  if (row.min_p > 0.0F) std::erase_if(list, [&](TokenId id) { return w[at(id)] < row.min_p; });
  TokenId token = -1;
  float best = -kInfinity;
  for (const TokenId id : list) {
    const float z = d[at(id)] + gumbel_noise(noise_word(row.seed, row.position, id));
    if (z > best || (z == best && id < token)) {
      best = z;
      token = id;
    }
  }
  return {.token = token, .kept = list, .r = r};
}

// `list` has the ids that may have a log-probability, ordered by their values; `r` scales the values.
void add_logprobs(const std::vector<float>& values, const std::vector<TokenId>& list, float r, const SampleRow& row,
                  SampledRow* out) {
  const auto distance = [&](TokenId id) {
    return (values[static_cast<std::size_t>(id)] - values[static_cast<std::size_t>(list[0])]) * r;
  };
  std::uint64_t sum = 0;
  for (const TokenId id : list) sum += weight_units(exp_f32(distance(id)));
  const float log_sum = log_f32(static_cast<float>(sum) * (1.0F / kWeightUnits));
  const auto logprob = [&](TokenId id) {
    return std::ranges::find(list, id) != list.end() ? (distance(id) - log_sum) + 0.0F : -kInfinity;
  };
  out->logprob = logprob(out->token);
  const auto add = [&](TokenId id) {
    const auto at = static_cast<std::size_t>(out->top_count++);
    out->top_ids[at] = id;
    out->top_logprobs[at] = logprob(id);
  };
  std::for_each_n(list.begin(), std::min<std::size_t>(static_cast<std::size_t>(row.top_logprobs), list.size()), add);
  std::for_each_n(row.ids.begin(), row.id_count, add);
}

}  // namespace

void sample(const SampleArgs& args, int begin, int end) {
  const auto vocab = static_cast<std::size_t>(args.vocab);
  for (int i = begin; i < end; ++i) {
    const SampleRow& row = args.params[i];
    SampledRow& out = args.out[i];
    out = {};
    if (row.slot >= 0) args.newest[row.slot] = 0;
    const float* from = args.logits + static_cast<std::size_t>(row.row) * vocab;
    const std::vector<float> logits(from, from + vocab);
    std::vector<float> a = logits;
    bool numbers = true, any = false;
    const std::uint32_t* allowed = mask_of(args, row);
    for (std::size_t id = 0; id < vocab; ++id) {
      if (row.bias != nullptr) a[id] += row.bias[id];
      if (allowed != nullptr && (allowed[id / 32] >> (id % 32) & 1) == 0) a[id] = -kInfinity;
      numbers &= logits[id] < kInfinity && a[id] < kInfinity;
      any |= a[id] > -kInfinity;
    }
    if (!numbers || !any) {
      out.status = numbers ? SampleStatus::kNoCandidate : SampleStatus::kNotNumbers;
      continue;
    }
    const Drawn drawn = draw(a, row);
    out.token = drawn.token;
    if (row.slot >= 0) args.newest[row.slot] = out.token;
    if (row.top_logprobs < 0) continue;
    row.processed ? add_logprobs(a, drawn.kept, drawn.r, row, &out)
                  : add_logprobs(logits, list_of(logits), 1.0F, row, &out);
  }
}

std::uint64_t sample_weights(const SampleWeightsArgs& args) {
  std::uint64_t sum = 0;
  for (int i = 0; i < args.n; ++i) {
    const float w = exp_f32((args.a[i] - args.max) * args.scale);
    if (args.w != nullptr) args.w[i] = w;
    sum += weight_units(w);
  }
  return sum;
}

}  // namespace sluice::ref
