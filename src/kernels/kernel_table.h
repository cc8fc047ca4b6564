// The kernels of one ISA: plain function pointers over tiles of rows, chosen once at start and never mixed within a run.
//
// Every entry of every table gives the same bits as the scalar one (kernels/exec.h), so an ISA changes speed only.
// A table may leave an entry to the next lower ISA; `sluice kernels` prints which is which.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/compressor.h"
#include "kernels/elementwise.h"
#include "kernels/experts.h"
#include "kernels/hyper_connection.h"
#include "kernels/indexer.h"
#include "kernels/linear.h"
#include "kernels/router.h"
#include "sluice/status.h"

namespace sluice {

// Rows [begin, end) of an op, run on one thread.
template <class Args>
using RowsKernel = void (*)(const Args& args, int begin, int end);

struct LinearKernels {
  // Bytes of the packed form of `view` (0: works on the view itself), and the packing of outputs [begin, end), multiples of
  // `out_tile` but for the last.
  std::size_t (*packed_bytes)(const WeightView& view);
  void (*pack)(const WeightView& view, int begin, int end, std::byte* packed);
  int out_tile;
  // y[0..rows) x outputs [begin, end) of one job.
  void (*run)(const LinearJob& job, int rows, int begin, int end);
};

struct HcFinishArgs {  // everything of hc_mix after fn z
  const HcMixArgs* mix;
};
struct SwiGluArgs {  // gate, up, out: [rows, dim], row_weight [rows] or null for 1
  const float* gate;
  const float* up;
  const float* row_weight;
  float* out;
  int dim;
  float limit;
};
struct HcCollapseArgs {
  int dim;
  const float* x;
  const float* pre;
  float* y;
};
struct HcExpandArgs {
  int dim;
  const float* y;
  const float* post;
  const float* comb;
  float* x;
};
struct HadamardArgs {
  int dim;
  float* x;
};

struct KernelTable {
  const char* isa = "scalar";
  LinearKernels linear{};
  RowsKernel<SwiGluArgs> swiglu = nullptr;
  RowsKernel<RmsNormArgs> rms_norm = nullptr;
  RowsKernel<RopeHeadsArgs> rope_heads = nullptr;
  RowsKernel<HadamardArgs> hadamard = nullptr;
  RowsKernel<HcFinishArgs> hc_finish = nullptr;
  RowsKernel<HcCollapseArgs> hc_collapse = nullptr;
  RowsKernel<HcExpandArgs> hc_expand = nullptr;
  RowsKernel<RouteArgs> route = nullptr;
  // Rows [begin, end), all of span `span` of the args.
  void (*attend)(const AttendArgs& args, int span, int begin, int end) = nullptr;
  void (*index_select)(const IndexSelectArgs& args, int span, int begin, int end) = nullptr;
  // Channels [begin, end) of one span.
  void (*compress)(const CompressArgs& args, int span, int begin, int end) = nullptr;
  void (*decode_rows)(const RowFormat& format, const RowRef* rows, int count, float* out) = nullptr;  // out [count, dims]
  void (*encode_rows)(const RowFormat& format, const float* x, const RowRef* rows, int count) = nullptr;
};

const KernelTable& scalar_kernels();
// Null when this build or this machine lacks the ISA.
const KernelTable* avx2_kernels();
const KernelTable* avx512_kernels();

// "auto" picks the best that the machine has; a name that is unknown or that it lacks is an error that says what it has.
Result<const KernelTable*> select_kernels(const std::string& isa);

struct KernelRow {  // for `sluice kernels`
  std::string op, isa, why;
};
std::vector<KernelRow> describe_kernels(const KernelTable& table);

}  // namespace sluice
