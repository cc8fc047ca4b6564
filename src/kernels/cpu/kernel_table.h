// KernelTable: the kernels that run, as plain function pointers over tiles of rows. They are resolved once from the
// lists of kernels (kernels/cpu/kernel_list.h) for the features that may be used (kernels/device/cpu_features.h). Only
// for kernels/cpu and its tests (tools/check_layering.sh).
//
// Every entry of every table gives the same bits as the scalar one (kernels/device/exec.h), so the choice changes speed
// only.
// Used by bench, kernels/cpu, kernels/cpu/attention and kernels/cpu/linear.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/common/index_tile.h"
#include "kernels/device/cpu_features.h"
#include "kernels/ops/attend_expanded.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/compressor.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/experts.h"
#include "kernels/ops/hyper_connection.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/plane.h"
#include "kernels/ops/router.h"
#include "kernels/ops/sample.h"

namespace sluice {

// Rows [begin, end) of an op, run on one thread.
template <class Args>
using RowsKernel = void (*)(const Args& args, int begin, int end);

struct Kernel;  // kernels/cpu/kernel_list.h
struct LinearKernel;

class LinearKernels {
 public:
  // The kernels for a weight format, with or without f32 scales stored apart, and an input form. The first that fits
  // the rows, the weight's blocks and its size runs. The last one fits all cases; after it come nulls.
  using Cell = std::array<const LinearKernel*, 6>;

  // Computes outputs [begin, end), cut like pack()'s, of y[0..rows). x is in the form that the weight multiplies.
  void run(const LinearJob& job, int rows, int begin, int end) const;
  const LinearKernel& kernel(const WeightView& view, InputForm inputs, int rows) const;
  // True if the kernel that would run wants its inputs as tiles.
  bool wants_tiles(const LinearWeight& weight, int rows) const;
  // A piece of one row should begin and end at multiples of this many outputs. For kernels that can do any group it is
  // two groups, which are a pair of cache lines.
  int row_unit(const LinearWeight& weight) const;
  Cell& cell(WeightFormat format, bool f32_scales, InputForm inputs) {
    return cells_[f32_scales ? 1 : 0][static_cast<std::size_t>(format)][static_cast<std::size_t>(inputs)];
  }
  const Cell& cell(WeightFormat format, bool f32_scales, InputForm inputs) const {
    return cells_[f32_scales ? 1 : 0][static_cast<std::size_t>(format)][static_cast<std::size_t>(inputs)];
  }
  const Cell& cell(const WeightView& view, InputForm inputs) const {
    return cell(view.format, view.scale_format == ScaleFormat::kF32, inputs);
  }

  LinearPacking packing{};

 private:
  std::array<std::array<std::array<Cell, kInputForms>, kWeightFormats>, 2> cells_{};
};

struct KernelTable {
  const char* isa = "scalar";         // the level (--isa), by which weights are packed
  std::string name;                   // the level and how the features differ from the machine's: "avx512vbmi -amx"
  CpuFeatures features;               // the features that its kernels may need
  std::vector<const Kernel*> chosen;  // the kernels of the entries below, except linear's
  LinearKernels linear;
  // The function prepare_inputs() of kernels/weights/linear_inputs.h.
  void (*prepare_inputs)(InputForm form, int count, const float* x, float* to) = nullptr;
  RowsKernel<ActivationArgs> activation = nullptr;
  RowsKernel<RmsNormArgs> rms_norm = nullptr;
  RowsKernel<LayerNormArgs> layer_norm = nullptr;
  RowsKernel<RopeHeadsArgs> rope_heads = nullptr;
  RowsKernel<HadamardArgs> hadamard = nullptr;
  RowsKernel<HcMixArgs> hc_product = nullptr;  // fn z, of weights in lines of 16 outputs and of 8
  RowsKernel<HcMixArgs> hc_finish = nullptr;   // everything of hc_mix after fn z
  RowsKernel<HcCollapseArgs> hc_collapse = nullptr;
  RowsKernel<HcExpandArgs> hc_expand = nullptr;
  RowsKernel<RouteArgs> route = nullptr;
  // Heads [head_begin, head_end) of rows [begin, end), all of span `span` of the args.
  using Attend = void (*)(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end);
  Attend attend = nullptr;           // f32
  Attend attend_bf16 = nullptr;      // AttendArgs::bf16, and value_offset a multiple of 32
  Attend attend_bf16_odd = nullptr;  // a value_offset that is a multiple of 16 only
  Attend attend_tiles = nullptr;     // AttendArgs::tiles
  // Rows [begin, end), 64 at most, of head `head`.
  void (*attend_expanded)(const AttendExpandedArgs& args, int head, int begin, int end) = nullptr;
  RowsKernel<MergeAttentionArgs> merge_attention = nullptr;
  // Scores a tile: writes to args.scores if the caller wants them, and to the candidates of its rows.
  using IndexScores = void (*)(const IndexTile& tile);
  IndexScores index_scores = nullptr;      // for keys of IndexQueries::kFloats
  IndexScores index_scores_fp8 = nullptr;  // for keys of IndexQueries::kBf16
  IndexScores index_scores_fp4 = nullptr;  // for keys of IndexQueries::kCodes
  IndexScores index_scores_of(RowCodec keys) const {
    const IndexQueries queries = index_queries(keys);
    return queries == IndexQueries::kCodes  ? index_scores_fp4
           : queries == IndexQueries::kBf16 ? index_scores_fp8
                                            : index_scores;
  }
  // Drops all candidates but the k best, by the rule of kernels/ops/indexer.h.
  void (*keep_best)(IndexCandidates& candidates, int k) = nullptr;
  // Channels [begin, end) of span `span` of the args.
  void (*compress)(const CompressArgs& args, int span, int begin, int end) = nullptr;
  // Row i is coded from, or decoded to, or simulated in x + i * ldx (kernels/ops/plane.h).
  void (*encode_rows)(const RowFormat& format, const float* x, std::ptrdiff_t ldx, const RowRef* rows,
                      int count) = nullptr;
  void (*decode_rows)(const RowFormat& format, const RowRef* rows, int count, float* x, std::ptrdiff_t ldx) = nullptr;
  void (*simulate_rows)(RowCodec codec, int dims, int rope_dims, float* x, std::ptrdiff_t ldx, int count) = nullptr;
  // Computes the weights w of a row's candidates, and the sum of W (kernels/ops/sample.h).
  std::uint64_t (*sample_weights)(const SampleWeightsArgs& args) = nullptr;
};

// The table for exactly these features, which the machine must have. There is one table for each set of features, made
// once and kept.
const KernelTable& kernels_with(CpuFeatures features);

}  // namespace sluice
