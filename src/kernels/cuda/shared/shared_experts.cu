// experts (kernels/ops/experts.h): the (row, slot) pairs are sorted by expert on the device, then multiplied in groups
// that share an expert. A few pairs are multiplied each by itself.
// Used by kernels/cuda/shared and kernels/cuda/sm90.
#include <algorithm>
#include <vector>

#include "kernels/cuda/shared/expert_pairs.h"
#include "kernels/cuda/shared/quantize_block.h"
#include "kernels/cuda/shared/shared_ops.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct Activate {
  static constexpr int kThreads = 1;
  ActivationValues values;
  float* to;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    to[team.index] = values(team.index / values.dim, team.index % values.dim);
  }
};

// Computes m (the activation, kernels/ops/experts.h) and quantises it to blocks of int8.
struct ActivateAndQuantize {
  static constexpr int kThreads = 16;
  ActivationValues values;
  QuantizedBlock* to;
  int blocks;  // the blocks of a row

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int row = team.index / blocks, first = team.index % blocks * kQuantizedInputs;
    quantize_block(team, [&](int i) { return first + i < values.dim ? values(row, first + i) : 0.0F; }, to[team.index]);
  }
};

// The room for a row of m, in floats: m as floats, or as int8 blocks, each of which takes the room of 12 floats.
std::size_t inner_floats(std::size_t dim) {
  return std::max(dim, static_cast<std::size_t>(input_floats(InputForm::kInt8, static_cast<int>(dim))));
}

struct ExpertsWork {
  PairLists lists;
  float *gate, *up, *inner, *outputs, *shared_gate, *shared_up, *shared_inner, *shared_out;

  ExpertsWork(const ExpertsArgs& args, int rows, int groups, Carver& carver) {
    const auto n = static_cast<std::size_t>(rows), pairs = n * static_cast<std::size_t>(args.slots),
               outs = static_cast<std::size_t>(output_columns(args)), all = static_cast<std::size_t>(groups);
    const auto own = [](const ExpertWeights& expert) { return static_cast<std::size_t>(expert.gate.out()); };
    const auto whole = [](const ExpertWeights& expert) { return static_cast<std::size_t>(expert.down.in()); };
    const auto inter = args.experts.empty() ? 0 : own(args.experts[0]);
    const auto shared = args.shared == nullptr ? 0 : own(*args.shared);
    lists.rows = carver.take<std::int32_t>(pairs);
    lists.positions = carver.take<std::int32_t>(pairs);
    lists.weights = carver.take<float>(pairs);
    if (args.biases.any()) lists.experts = carver.take<std::int32_t>(pairs);
    lists.gate = carver.take<RowGroup>(all);
    lists.up = carver.take<RowGroup>(all);
    lists.down = carver.take<RowGroup>(all);
    gate = carver.take<float>(pairs * inter);
    up = carver.take<float>(pairs * inter);
    inner = carver.take<float>(pairs * inner_floats(args.experts.empty() ? 0 : whole(args.experts[0])));
    outputs = carver.take<float>(pairs * outs);
    shared_gate = carver.take<float>(n * shared);
    shared_up = carver.take<float>(n * shared);
    shared_inner = carver.take<float>(n * inner_floats(args.shared == nullptr ? 0 : whole(*args.shared)));
    shared_out = carver.take<float>(args.shared == nullptr ? 0 : n * outs);
  }
};

std::size_t work_bytes(const ExpertsArgs& args, int rows) {
  Carver carver(nullptr);
  const ExpertsWork work(args, rows, groups_of(args, rows, kManyRows), carver);
  return carver.bytes();
}

LinearProduct product_of(const LinearWeight& weight, const float* x, const std::int32_t* x_rows, float* y) {
  return {.weight = packed_linear(weight),
          .form = values_form(weight.input_form()),
          .x = x,
          .ldx = weight.in(),
          .x_rows = x_rows,
          .y = y,
          .ldy = weight.out()};
}

// Returns the product with the op's rows from `first` on. It reads x in the weight's input form if an earlier op made
// that, else as floats.
LinearProduct product_of(const LinearWeight& weight, const Rows& x, int first, const std::int32_t* x_rows, float* y) {
  const InputForm form = values_form(weight.input_form());
  const bool prepared = form != InputForm::kF32 && x.form(form) != nullptr;
  LinearProduct product = product_of(weight, prepared ? x.form(form) : x.values, x_rows, y);
  product.prepared = prepared;
  product.ldx = prepared ? input_floats(form, weight.in()) : x.ld;
  product.x += first * product.ldx;
  return product;
}

// Computes this rank's share of m and gathers all ranks' shares at `inner`. They travel in the product's input form if
// a share is whole blocks of it, else as floats. The memory of gate and up in `values` is free afterwards.
void gather_activation(const Exec& exec, int rows, const ActivationValues& values, float* gate, float* up, float* inner,
                       LinearProduct& product) {
  const int share = values.dim, all = product.weight.in;
  launch(exec, std::int64_t{rows} * share, Activate{values, gate});
  product.prepared = product.form != InputForm::kF32 && share % input_block(product.form) == 0;
  if (!product.prepared) return gather_words(exec, rows, {gate, share, share}, {inner, all, all});
  const int of_share = input_floats(product.form, share), of_all = input_floats(product.form, all);
  SLUICE_CUDA_OPS::prepare_rows(exec, PrepareRowsArgs{product.form, rows, share, gate, share, up, of_share});
  gather_words(exec, rows, {up, of_share, of_share}, {inner, of_all, of_all});
  product.ldx = of_all;
}

// Writes m, which `values` computes, at `inner` in a form that the kernel can multiply, and returns the product with
// it. The memory of gate and up in `values` is free afterwards.
LinearProduct product_with_activation(const Exec& exec, int rows, const ActivationValues& values, float* gate,
                                      float* up, const LinearWeight& down, float* inner, float* y) {
  LinearProduct product = product_of(down, inner, nullptr, y);
  if (values.dim != down.in()) {
    gather_activation(exec, rows, values, gate, up, inner, product);
  } else if (product.form == InputForm::kInt8) {
    const int blocks = (values.dim + kQuantizedInputs - 1) / kQuantizedInputs;
    product.prepared = true;
    product.ldx = input_floats(InputForm::kInt8, values.dim);
    launch(exec, std::int64_t{rows} * blocks,
           ActivateAndQuantize{values, reinterpret_cast<QuantizedBlock*>(inner), blocks});
  } else {
    launch(exec, std::int64_t{rows} * values.dim, Activate{values, inner});
  }
  return product;
}

void run_routed(const Exec& exec, const ExpertsArgs& args, int first, int rows, int groups, const ExpertsWork& work) {
  const int pairs = rows * args.slots;
  const bool many = pairs > kAlonePairs;
  list_pairs(exec, args, first, rows, kManyRows, work.lists);
  const ExpertWeights& expert = args.experts[0];  // all experts have the same shapes and formats
  const auto grouped = [&](LinearProduct product, const RowGroup* of_role) {
    product.groups = of_role;
    product.group_count = groups;
    return product;
  };
  const LinearProduct inner[] = {
      grouped(product_of(expert.gate, args.x, first, work.lists.rows, work.gate), work.lists.gate),
      grouped(product_of(expert.up, args.x, first, work.lists.rows, work.up), work.lists.up)};
  // 0 rows: products with groups have the rows of their groups.
  multiply(exec, 0, many, inner);
  const int inter = expert.gate.out();
  const ActivationValues values{work.gate,       work.up,     work.lists.weights, inter,
                                args.activation, args.biases, work.lists.experts};
  const LinearProduct outer =
      grouped(product_with_activation(exec, pairs, values, work.gate, work.up, expert.down, work.inner, work.outputs),
              work.lists.down);
  multiply(exec, 0, many, {&outer, 1});
}

void run_shared(const Exec& exec, const ExpertsArgs& args, int first, int rows, const ExpertsWork& work) {
  const LinearProduct inner[] = {product_of(args.shared->gate, args.x, first, nullptr, work.shared_gate),
                                 product_of(args.shared->up, args.x, first, nullptr, work.shared_up)};
  multiply(exec, rows, rows > 1, inner);
  const int inter = args.shared->gate.out();
  const ActivationValues values{work.shared_gate, work.shared_up,  nullptr,
                                inter,            args.activation, args.shared_biases};
  const LinearProduct outer =
      product_with_activation(exec, rows, values, work.shared_gate, work.shared_up, args.shared->down,
                              work.shared_inner, work.shared_out);
  multiply(exec, rows, rows > 1, {&outer, 1});
}

void check_alike(const ExpertsArgs& args) {
  const auto alike = [](const LinearWeight& a, const LinearWeight& b) {
    const CudaLinear x(a.view()), y(b.view());
    return x.coding == y.coding && x.scales == y.scales && x.min == y.min && x.block == y.block && x.out == y.out && x.in == y.in &&
           x.lowest == y.lowest && a.input_form() == b.input_form();
  };
  for (const ExpertWeights& expert : args.experts) {
    const ExpertWeights& first = args.experts[0];
    SLUICE_CHECK(alike(expert.gate, first.gate) && alike(expert.up, first.up) && alike(expert.down, first.down),
                 "the experts of a layer have the same shapes and formats");
  }
}

}  // namespace

void experts(const Exec& exec, const ExpertsArgs& args) {
  if (args.rows == 0) return;
  check_alike(args);
  check_shares(exec, args);
  int piece = args.rows;  // rows of one pass
  while (piece > 1 && work_bytes(args, piece) > kCudaWorkspaceBytes) piece = (piece + 1) / 2;
  for (int first = 0; first < args.rows; first += piece) {
    const int rows = std::min(piece, args.rows - first), groups = groups_of(args, rows, kManyRows);
    Carver carver(workspace(exec, work_bytes(args, rows)));
    const ExpertsWork work(args, rows, groups, carver);
    if (args.slots > 0) run_routed(exec, args, first, rows, groups, work);
    if (args.shared != nullptr) run_shared(exec, args, first, rows, work);
    combine_slots(exec, args, first, rows, work.outputs, work.lists,
                  args.shared != nullptr ? work.shared_out : nullptr);
  }
}

}  // namespace sluice::SLUICE_CUDA_OPS
