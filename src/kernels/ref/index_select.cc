#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/common/order_key.h"
#include "kernels/ref/kernels.h"

namespace sluice::ref {
namespace {

// A vector in the codes of the keys' codec.
struct Coded {
  std::vector<std::byte> data, scales;
  void encode(const RowFormat& format, const float* x) {
    data.resize(static_cast<std::size_t>(format.data_bytes));
    scales.resize(static_cast<std::size_t>(format.scale_bytes));
    encode_row(format, x, {data.data(), scales.data()});
  }
};

int doubled(const std::byte* data, int d) {
  const int code = std::to_integer<int>(data[d / 2]) >> (d % 2 * 4);
  return static_cast<int>(2.0F * e2m1_to_float(static_cast<std::uint8_t>(code & 15)));
}

float scale_of(std::byte code) {
  return e8m0_to_float(std::clamp(std::to_integer<std::uint8_t>(code), kMinIndexScale, kMaxIndexScale));
}

float dot_of_codes(const Coded& q, RowRef key, const RowFormat& format) {
  const int block = row_codec(format.codec).block;
  float dot = 0.0F;
  for (int b = 0; b < format.dims / block; ++b) {
    int sum = 0;
    for (int d = block * b; d < block * (b + 1); ++d) sum += doubled(q.data.data(), d) * doubled(key.data, d);
    const float scale = scale_of(key.scales[b]) * (scale_of(q.scales[static_cast<std::size_t>(b)]) * 0.25F);
    dot = std::fma(static_cast<float>(sum), scale, dot);
  }
  return dot;
}

float dot_pairs(const float* q, const float* key, int dims) {
  float dot = 0.0F;
  for (int d = 0; d < dims; d += 2) {
    if (d + 1 < dims) dot = std::fma(q[d + 1], key[d + 1], dot);
    dot = std::fma(q[d], key[d], dot);
  }
  return dot;
}

// The queries of a row, in the form that the keys' codec wants.
class Queries {
 public:
  Queries(const IndexSelectArgs& args, int row) : args_(args) {
    const float* q = args.q + static_cast<std::ptrdiff_t>(row) * args.heads * args.dims;
    const RowFormat& format = args.keys->format;
    const IndexQueries form = index_queries(format.codec);
    if (form == IndexQueries::kCodes) {
      coded_.resize(static_cast<std::size_t>(args.heads));
      for (std::size_t h = 0; h < coded_.size(); ++h) coded_[h].encode(format, q + static_cast<int>(h) * args.dims);
    } else {
      values_.assign(q, q + args.heads * args.dims);
      if (form != IndexQueries::kBf16) return;
      for (float& value : values_) value = round_to_bf16(value);
    }
  }
  // `key` has the values of `row`.
  float dot(int h, RowRef row, const float* key) const {
    if (!coded_.empty()) return dot_of_codes(coded_[static_cast<std::size_t>(h)], row, args_.keys->format);
    return dot_pairs(values_.data() + h * args_.dims, key, args_.dims);
  }

 private:
  const IndexSelectArgs& args_;
  std::vector<Coded> coded_;
  std::vector<float> values_;
};

}  // namespace

void index_scores(const IndexTile& tile) {
  const IndexSelectArgs& args = *tile.args;
  const RowSpan& span = args.step->spans[static_cast<std::size_t>(tile.span)];
  std::vector<float> key(static_cast<std::size_t>(args.dims));
  for (int row = tile.begin; row < tile.end; ++row) {
    const std::int32_t last = std::min(tile.last, visible_entries(args, span, row));
    const float* weights = args.weights + static_cast<std::ptrdiff_t>(row) * args.heads;
    const Queries queries(args, row);
    IndexCandidates& candidates = tile.candidates[row - tile.begin];
    for (std::int32_t e = tile.first; e < last; ++e) {
      const RowRef ref = latent_row(*args.step, span, *args.keys, e);
      decode_row(args.keys->format, ref, key.data());
      float score = 0.0F;
      for (int h = 0; h < args.heads; ++h) {
        const float dot = queries.dot(h, ref, key.data());
        score = std::fma(weights[h], dot > 0.0F ? dot : 0.0F, score);
      }
      if (e < args.first_entry) score = -std::numeric_limits<float>::infinity();
      if (args.scores != nullptr) args.scores[row * args.scores_stride + e] = score;
      if (candidates.capacity == 0) continue;
      if (candidates.count == candidates.capacity) keep_best(candidates, args.top_k);
      if (order_key(score) <= candidates.bound) continue;
      candidates.keys[candidates.count] = order_key(score);
      candidates.entries[candidates.count++] = e;
    }
  }
}

void keep_best(IndexCandidates& candidates, int k) {
  if (candidates.count <= k) return;
  std::vector<int> order(static_cast<std::size_t>(candidates.count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return candidates.keys[a] > candidates.keys[b]; });
  candidates.bound = candidates.keys[order[static_cast<std::size_t>(k - 1)]];
  std::sort(order.begin(), order.begin() + k);
  for (int i = 0; i < k; ++i) {
    candidates.keys[i] = candidates.keys[order[static_cast<std::size_t>(i)]];
    candidates.entries[i] = candidates.entries[order[static_cast<std::size_t>(i)]];
  }
  candidates.count = k;
}

}  // namespace sluice::ref
