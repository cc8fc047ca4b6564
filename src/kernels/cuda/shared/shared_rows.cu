// add, add_bias, scale, gather_rows, copy_heads: a thread for each value (kernels/ops/elementwise.h).
// Called through the table of ops (kernels/ops/ops.h).
#include "kernels/cuda/launch.h"
#include "kernels/ops/elementwise.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct Add {
  static constexpr int kThreads = 1;
  AddArgs args;
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int row = team.index / args.dim / args.copies;
    args.y[team.index] += args.x[row * args.dim + team.index % args.dim];
  }
};

struct AddBias {
  static constexpr int kThreads = 1;
  AddBiasArgs args;
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    args.y[team.index] += args.bias[team.index % args.dim];
  }
};

struct Scale {
  static constexpr int kThreads = 1;
  ScaleArgs args;
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const { args.x[team.index] *= args.factor; }
};

struct GatherRows {
  static constexpr int kThreads = 1;
  const std::int32_t* from;
  int dim;
  const float* x;
  float* y;
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const std::ptrdiff_t row = from[team.index / dim];
    y[team.index] = x[row * dim + team.index % dim];
  }
};

struct CopyHeads {
  static constexpr int kThreads = 1;
  CopyHeadsArgs args;
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int width = args.dims + args.zeros;
    const int d = team.index % width, head = team.index / width % args.heads, row = team.index / width / args.heads;
    args.y[row * args.ldy + head * args.head_y + d] =
        d < args.dims ? args.x[row * args.ldx + head * args.head_x + d] : 0.0F;
  }
};

}  // namespace

void add(const Exec& exec, const AddArgs& args) {
  launch(exec, std::int64_t{args.rows} * args.copies * args.dim, Add{args});
}

void add_bias(const Exec& exec, const AddBiasArgs& args) {
  launch(exec, std::int64_t{args.rows} * args.dim, AddBias{args});
}

void scale(const Exec& exec, const ScaleArgs& args) {
  launch(exec, std::int64_t{args.rows} * args.dim, Scale{args});
}

void gather_rows(const Exec& exec, const GatherRowsArgs& args) {
  launch(exec, static_cast<std::int64_t>(args.from.size()) * args.dim,
         GatherRows{args.from.data(), args.dim, args.x, args.y});
}

void copy_heads(const Exec& exec, const CopyHeadsArgs& args) {
  launch(exec, std::int64_t{args.rows} * args.heads * (args.dims + args.zeros), CopyHeads{args});
}

}  // namespace sluice::SLUICE_CUDA_OPS
