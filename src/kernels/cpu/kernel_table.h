// The kernels of one ISA (kernels/isa.h): plain function pointers over tiles of rows. For kernels/cpu and its tests
// alone (tools/check_layering.sh).
//
// Every entry of every table gives the same bits as the scalar one (kernels/exec.h), so an ISA changes speed only.
// A table may leave an entry to the next lower ISA.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attend_expanded.h"
#include "kernels/attention.h"
#include "kernels/compressor.h"
#include "kernels/elementwise.h"
#include "kernels/experts.h"
#include "kernels/hyper_connection.h"
#include "kernels/index_tile.h"
#include "kernels/isa.h"
#include "kernels/linear.h"
#include "kernels/linear_packing.h"
#include "kernels/plane.h"
#include "kernels/router.h"
#include "kernels/sample.h"

namespace sluice {

// Rows [begin, end) of an op, run on one thread.
template <class Args>
using RowsKernel = void (*)(const Args& args, int begin, int end);

struct LinearKernels {
  LinearPacking packing;
  // Outputs [begin, end), cut like pack()'s, of y[0..rows). x is in the form that the weight multiplies.
  void (*run)(const LinearJob& job, int rows, int begin, int end);
  // kernels/linear_inputs.h's prepare_inputs().
  void (*prepare)(InputForm form, int count, const float* x, float* to);
};

struct KernelTable {
  const char* isa = "scalar";
  LinearKernels linear{};
  RowsKernel<SwiGluArgs> swiglu = nullptr;
  RowsKernel<RmsNormArgs> rms_norm = nullptr;
  RowsKernel<LayerNormArgs> layer_norm = nullptr;
  RowsKernel<RopeHeadsArgs> rope_heads = nullptr;
  RowsKernel<HadamardArgs> hadamard = nullptr;
  RowsKernel<HcMixArgs> hc_finish = nullptr;  // everything of hc_mix after fn z
  RowsKernel<HcCollapseArgs> hc_collapse = nullptr;
  RowsKernel<HcExpandArgs> hc_expand = nullptr;
  RowsKernel<RouteArgs> route = nullptr;
  // Heads [head_begin, head_end) of rows [begin, end), all of span `span` of the args.
  void (*attend)(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end) = nullptr;
  // Rows [begin, end), 64 at most, of head `head`.
  void (*attend_expanded)(const AttendExpandedArgs& args, int head, int begin, int end) = nullptr;
  RowsKernel<MergeAttentionArgs> merge_attention = nullptr;
  // Scores a tile: to args.scores where the caller wants them, and to the candidates of its rows.
  void (*index_scores)(const IndexTile& tile) = nullptr;
  // Leaves the k best of the candidates, by the rule of kernels/indexer.h, where there are more.
  void (*keep_best)(IndexCandidates& candidates, int k) = nullptr;
  // Channels [begin, end) of span `span` of the args.
  void (*compress)(const CompressArgs& args, int span, int begin, int end) = nullptr;
  // Row i is coded from, or decoded to, or simulated in x + i * ldx (kernels/plane.h).
  void (*encode_rows)(const RowFormat& format, const float* x, std::ptrdiff_t ldx, const RowRef* rows,
                      int count) = nullptr;
  void (*decode_rows)(const RowFormat& format, const RowRef* rows, int count, float* x, std::ptrdiff_t ldx) = nullptr;
  void (*simulate_rows)(RowCodec codec, int dims, int rope_dims, float* x, std::ptrdiff_t ldx, int count) = nullptr;
  // The weights w of a row's candidates, and the sum of W (kernels/sample.h).
  std::uint64_t (*sample_weights)(const SampleWeightsArgs& args) = nullptr;
};

// Null when this build or this machine lacks the ISA.
const KernelTable* avx2_kernels();
const KernelTable* avx512_kernels();
const KernelTable* avx512vbmi_kernels();

}  // namespace sluice
