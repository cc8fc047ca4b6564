// select_entries (kernels/ops/indexer.h): scores of tiles of entries, a thread for each entry, then the choice of each
// row from their order keys.
// Used by kernels/cuda/shared.
#include <algorithm>

#include "kernels/cuda/shared/row_codec.h"
#include "kernels/cuda/shared/select_head.h"
#include "kernels/cuda/shared/step_rows.h"
#include "kernels/cuda/shared/words.h"
#include "kernels/ops/indexer.h"
#include "kernels/common/order_key.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct IndexPlan {
  IndexSelectArgs args;  // its pointers to host memory are replaced by the fields below
  StepTables step;
  PlaneView keys;
  IndexQueries form;
  int first_row, tiles;      // the launch's first row; tiles of a row's entries
  std::int32_t* order_keys;  // [rows of the launch][stride]
  std::ptrdiff_t stride;

  SLUICE_DEVICE RowSpan span(int row) const {
    return span_of_row(step.spans.data(), static_cast<int>(step.spans.size()), row);
  }
  SLUICE_DEVICE int visible(const RowSpan& of_row, int row) const {
    return (of_row.first_position + (row - of_row.row_begin) + 1) / args.tokens_per_row;
  }
  SLUICE_DEVICE bool takes_all(int visible) const { return visible - args.first_entry <= args.top_k; }
};

constexpr int kTileEntries = 128;
constexpr int kBlockDims = 32;  // for IndexQueries::kCodes

SLUICE_DEVICE float index_scale(std::uint8_t code) {
  return e8m0_to_float(code < kMinIndexScale ? kMinIndexScale : code > kMaxIndexScale ? kMaxIndexScale : code);
}

struct IndexScores {
  static constexpr int kThreads = kTileEntries;
  IndexPlan plan;

  // The queries of a row: floats, or IndexQueries::kCodes doubled and the scales of its blocks.
  SLUICE_HD static std::size_t shared_bytes(const IndexSelectArgs& args) {
    return static_cast<std::size_t>(args.heads) * static_cast<std::size_t>(args.dims) * sizeof(float);
  }

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int row = plan.first_row + team.index / plan.tiles, first = team.index % plan.tiles * kTileEntries;
    const RowSpan span = plan.span(row);
    const int visible = plan.visible(span, row);
    float* scores = plan.args.scores != nullptr ? plan.args.scores + row * plan.args.scores_stride : nullptr;
    if (first < visible && (scores != nullptr || !plan.takes_all(visible))) {
      const bool fp4 = plan.form == IndexQueries::kCodes;
      if (fp4) {
        encode_queries(team, row);
      } else {
        stage_queries(team, row);
      }
      team.sync();
      team.each([&](int t) {
        const int e = first + t;
        if (e >= visible) return;
        const RowRef key = latent_row(plan.step, span, plan.keys, e);
        const float of_key = fp4 ? score_fp4(team, row, key) : score_floats(team, row, key);
        const float score = e < plan.args.first_entry ? -INFINITY : of_key;
        if (scores != nullptr) scores[e] = score;
        if (plan.order_keys != nullptr) {
          plan.order_keys[(row - plan.first_row) * plan.stride + e] = order_key(score);
        }
      });
    }
    if (scores == nullptr) return;
    team.each([&](int t) {
      if (first + t >= visible && first + t < plan.args.scores_stride) scores[first + t] = 0.0F;
    });
  }

  SLUICE_DEVICE const float* queries(int row) const {
    return plan.args.q + static_cast<std::ptrdiff_t>(row) * plan.args.heads * plan.args.dims;
  }

  SLUICE_DEVICE void stage_queries(const Team<kThreads>& team, int row) const {
    float* staged = reinterpret_cast<float*>(team.shared);
    const bool rounded = plan.form == IndexQueries::kBf16;
    const float* q = queries(row);
    team.each([&](int t) {
      for (int i = t; i < plan.args.heads * plan.args.dims; i += kThreads) {
        staged[i] = rounded ? round_to_bf16(q[i]) : q[i];
      }
    });
  }

  SLUICE_DEVICE float score_floats(const Team<kThreads>& team, int row, const RowRef& key) const {
    constexpr int kHeads = 8;  // heads computed at once, which share the key's decoded values
    const float* staged = reinterpret_cast<const float*>(team.shared);
    const float* weights = plan.args.weights + static_cast<std::ptrdiff_t>(row) * plan.args.heads;
    const int dims = plan.args.dims;
    float score = 0.0F;
    for (int head = 0; head < plan.args.heads; head += kHeads) {
      float dots[kHeads] = {};
      const auto add = [&](int d) {
        const float k = decode_value(plan.keys.format, key, d);
        SLUICE_UNROLL
        for (int h = 0; h < kHeads; ++h) {
          if (head + h < plan.args.heads) dots[h] = std::fma(staged[(head + h) * dims + d], k, dots[h]);
        }
      };
      for (int d = 0; d < dims; d += 2) {
        if (d + 1 < dims) add(d + 1);
        add(d);
      }
      SLUICE_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        if (head + h < plan.args.heads) {
          score = std::fma(weights[head + h], dots[h] > 0.0F ? dots[h] : 0.0F, score);
        }
      }
    }
    return score;
  }

  // [heads][dims / 4] words of four codes, then [heads][dims / 32] scales times 1/4.
  SLUICE_DEVICE void encode_queries(const Team<kThreads>& team, int row) const {
    auto* codes = reinterpret_cast<std::uint32_t*>(team.shared);
    float* scales = reinterpret_cast<float*>(codes + plan.args.heads * plan.args.dims / 4);
    const float* q = queries(row);
    team.each([&](int t) {
      for (int block = t; block < plan.args.heads * (plan.args.dims / kBlockDims); block += kThreads) {
        const float* x = q + block * kBlockDims;
        float amax = 6.0F * 0x1p-126F;
        for (int i = 0; i < kBlockDims; ++i) amax = std::fabs(x[i]) > amax ? std::fabs(x[i]) : amax;
        const float scale = pow2_ceil(amax / 6.0F);
        scales[block] = index_scale(pow2_to_e8m0(scale)) * 0.25F;
        for (int word = 0; word < kBlockDims / 4; ++word) {
          std::uint32_t bytes = 0;
          for (int i = 0; i < 4; ++i) {
            const int doubled = e2m1_doubled(float_to_e2m1(x[4 * word + i] / scale));
            bytes |= (static_cast<std::uint32_t>(doubled) & 0xFFU) << (8 * i);
          }
          codes[block * (kBlockDims / 4) + word] = bytes;
        }
      }
    });
  }

  SLUICE_DEVICE float score_fp4(const Team<kThreads>& team, int row, const RowRef& key) const {
    constexpr int kHeads = 4, kMostBlocks = 8;
    const auto* codes = reinterpret_cast<const std::uint32_t*>(team.shared);
    const float* scales = reinterpret_cast<const float*>(codes + plan.args.heads * plan.args.dims / 4);
    const float* weights = plan.args.weights + static_cast<std::ptrdiff_t>(row) * plan.args.heads;
    const int blocks = plan.args.dims / kBlockDims;
    float score = 0.0F;
    for (int head = 0; head < plan.args.heads; head += kHeads) {
      float dots[kHeads] = {};
      for (int b = 0; b < blocks && b < kMostBlocks; ++b) {
        std::int32_t sums[kHeads] = {};
        SLUICE_UNROLL
        for (int word = 0; word < kBlockDims / 4; ++word) {
          const std::uint32_t nibbles = load_u16(key.data + b * (kBlockDims / 2) + 2 * word);
          const std::uint32_t doubled = doubled_e2m1(nibbles);
          SLUICE_UNROLL
          for (int h = 0; h < kHeads; ++h) {
            if (head + h >= plan.args.heads) continue;
            sums[h] = dot4(codes[((head + h) * blocks + b) * (kBlockDims / 4) + word], doubled, sums[h]);
          }
        }
        const float of_key = index_scale(static_cast<std::uint8_t>(key.scales[b]));
        SLUICE_UNROLL
        for (int h = 0; h < kHeads; ++h) {
          if (head + h >= plan.args.heads) continue;
          const float scale = of_key * scales[(head + h) * blocks + b];
          dots[h] = std::fma(static_cast<float>(sums[h]), scale, dots[h]);
        }
      }
      SLUICE_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        if (head + h < plan.args.heads) {
          score = std::fma(weights[head + h], dots[h] > 0.0F ? dots[h] : 0.0F, score);
        }
      }
    }
    return score;
  }
};

// Selects the entries of a row; each team has a row.
struct IndexChoice {
  static constexpr int kThreads = 512;
  IndexPlan plan;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    auto& scratch = *reinterpret_cast<SelectScratch<kThreads>*>(team.shared);
    const int row = plan.first_row + team.index, top_k = plan.args.top_k;
    const int visible = plan.visible(plan.span(row), row);
    std::int32_t* selected = plan.args.selected + static_cast<std::ptrdiff_t>(row) * top_k;
    team.each([&](int t) {
      const int first = plan.args.first_entry, seen = visible > first ? visible - first : 0;
      if (t == 0) plan.args.count[row] = seen < top_k ? seen : top_k;
      for (int i = t; i < seen && seen <= top_k; i += kThreads) selected[i] = first + i;
    });
    if (plan.takes_all(visible) || top_k == 0) return;
    const std::int32_t* keys = plan.order_keys + team.index * plan.stride;
    const HeadEnd end = select_head(
        team, scratch, visible, [&](int i) { return keys[i]; }, [](int) { return std::uint64_t{1}; },
        [&](std::uint64_t sum, std::uint64_t) { return sum >= static_cast<std::uint64_t>(top_k); });
    const int run = (visible + kThreads - 1) / kThreads;
    PerThread<std::int32_t, kThreads> taken;
    team.each([&](int t) {
      taken[t] = 0;
      for (int i = t * run; i < (t + 1) * run && i < visible; ++i) taken[t] += end.holds(keys[i], i) ? 1 : 0;
    });
    scan(team, taken, scratch.counts);
    team.each([&](int t) {
      int at = t > 0 ? scratch.counts[t - 1] : 0;
      for (int i = t * run; i < (t + 1) * run && i < visible; ++i) {
        if (end.holds(keys[i], i)) selected[at++] = i;
      }
    });
  }
};

}  // namespace

void select_entries(const Exec& exec, const IndexSelectArgs& args) {
  IndexPlan plan{};
  plan.form = index_queries(args.keys->format.codec);
  SLUICE_CHECK(plan.form != IndexQueries::kCodes || args.dims <= 256, "no more dims than a kernel takes");
  plan.args = args;
  plan.step = *args.step;
  plan.keys = *args.keys;
  int most = 0;
  for (const RowSpan& span : args.step->host_spans) {
    most = std::max(most, (span.first_position + span.rows) / args.tokens_per_row);
  }
  const bool choose = most > args.top_k;
  plan.stride = most;
  const std::ptrdiff_t covered = args.scores != nullptr ? std::max<std::ptrdiff_t>(most, args.scores_stride) : most;
  plan.tiles = static_cast<int>((covered + kTileEntries - 1) / kTileEntries);
  const std::size_t row_bytes = static_cast<std::size_t>(most) * sizeof(std::int32_t);
  const int at_once =
      choose ? static_cast<int>(std::min<std::size_t>(kCudaWorkspaceBytes / row_bytes, INT32_MAX)) : args.rows;
  SLUICE_CHECK(at_once > 0 || args.rows == 0, "no more entries of a row than the workspace holds");
  for (plan.first_row = 0; plan.first_row < args.rows; plan.first_row += at_once) {
    const int rows = std::min(at_once, args.rows - plan.first_row);
    if (choose) {
      plan.order_keys = reinterpret_cast<std::int32_t*>(workspace(exec, static_cast<std::size_t>(rows) * row_bytes));
    }
    if (choose || args.scores != nullptr) {
      launch(exec, std::int64_t{rows} * plan.tiles, IndexScores{plan}, IndexScores::shared_bytes(args));
    }
    launch(exec, rows, IndexChoice{plan}, sizeof(SelectScratch<IndexChoice::kThreads>));
  }
}

}  // namespace sluice::SLUICE_CUDA_OPS
