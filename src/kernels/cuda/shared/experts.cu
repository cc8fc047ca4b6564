// experts (kernels/experts.h): the (row, slot) pairs are sorted by expert on the device, then multiplied in groups that
// share an expert, few pairs each by itself.
#include <algorithm>
#include <vector>

#include "kernels/cuda/shared/linear_products.h"
#include "kernels/cuda/shared/quantize_block.h"
#include "kernels/cuda/shared/scan.h"
#include "kernels/experts.h"
#include "kernels/linear_inputs.h"
#include "kernels/math.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

constexpr int kMostExperts = 512;
constexpr int kAlonePairs = 16;  // so few are not worth sorting

struct ExpertTable {
  const std::byte *gate[kMostExperts], *up[kMostExperts], *down[kMostExperts];
};

// Where the pairs of a piece of rows lie, in the workspace.
struct PairLists {
  std::int32_t* rows;          // [pairs], sorted by expert: the row
  std::int32_t* positions;     // [pairs]: where a pair was sorted to
  float* weights;              // [pairs], sorted
  RowGroup *gate, *up, *down;  // [groups]
};

SLUICE_DEVICE void put_group(const ExpertTable& table, const PairLists& lists, int group, int expert, int first,
                             int rows) {
  lists.gate[group] = {table.gate[expert], first, rows};
  lists.up[group] = {table.up[expert], first, rows};
  lists.down[group] = {table.down[expert], first, rows};
}

// A thread a pair, each a group.
struct TakePairs {
  static constexpr int kThreads = 1;
  ExpertTable table;
  PairLists lists;
  const std::int32_t* ids;
  const float* weights;
  int slots;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int p = team.index;
    lists.rows[p] = p / slots;
    lists.positions[p] = p;
    lists.weights[p] = weights[p];
    put_group(table, lists, p, ids[p], p, 1);
  }
};

// One team.
struct SortPairs {
  static constexpr int kThreads = kMostExperts;
  ExpertTable table;
  PairLists lists;
  const std::int32_t* ids;
  const float* weights;
  int slots, pairs, groups;

  static constexpr std::size_t kSharedBytes = 2 * kMostExperts * sizeof(std::int32_t);

  // Thread t has expert t.
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    auto* next = reinterpret_cast<std::int32_t*>(team.shared);  // of an expert: where its next pair goes
    std::int32_t* scratch = next + kMostExperts;
    PerThread<std::int32_t, kThreads> count, end, group_end;
    team.each([&](int t) { next[t] = 0; });
    team.sync();
    team.each([&](int t) {
      for (int p = t; p < pairs; p += kThreads) add_atomically(&next[ids[p]], 1);
    });
    team.sync();
    team.each([&](int t) {
      count[t] = next[t];
      end[t] = count[t];
      group_end[t] = (count[t] + kManyRows - 1) / kManyRows;
    });
    scan(team, end, scratch);
    scan(team, group_end, scratch);
    const int used = scratch[kThreads - 1];
    team.each([&](int t) {
      next[t] = end[t] - count[t];
      const int of_expert = (count[t] + kManyRows - 1) / kManyRows;
      for (int g = 0; g < of_expert; ++g) {
        const int left = count[t] - g * kManyRows;
        put_group(table, lists, group_end[t] - of_expert + g, t, end[t] - left, left < kManyRows ? left : kManyRows);
      }
      for (int g = used + t; g < groups; g += kThreads) put_group(table, lists, g, 0, 0, 0);
    });
    team.sync();
    team.each([&](int t) {
      for (int p = t; p < pairs; p += kThreads) {
        const int at = add_atomically(&next[ids[p]], 1);
        lists.rows[at] = p / slots;
        lists.positions[p] = at;
        lists.weights[at] = weights[p];
      }
    });
  }
};

// m = (silu(gate) * up) * weight, the weight a row's: kernels/experts.h.
struct SwiGluValues {
  const float* gate;
  const float* up;
  const float* weights;  // null: 1
  int dim;
  float limit;

  SLUICE_DEVICE float operator()(std::ptrdiff_t row, int d) const {
    float a = gate[row * dim + d], b = up[row * dim + d];
    if (limit > 0.0F) {
      a = limit < a ? limit : a;
      b = limit < b ? limit : b;
      b = b < -limit ? -limit : b;
    }
    return (silu_f32(a) * b) * (weights != nullptr ? weights[row] : 1.0F);
  }
};

struct SwiGlu {
  static constexpr int kThreads = 1;
  SwiGluValues values;
  float* to;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    to[team.index] = values(team.index / values.dim, team.index % values.dim);
  }
};

// As a product with int8 inputs takes them.
struct SwiGluAndQuantize {
  static constexpr int kThreads = 16;
  SwiGluValues values;
  QuantizedBlock* to;
  int blocks;  // of a row

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int row = team.index / blocks, first = team.index % blocks * kQuantizedInputs;
    quantize_block(
        team, [&](int i) { return first + i < values.dim ? values(row, first + i) : 0.0F; }, to[team.index]);
  }
};

struct CombineSlots {
  static constexpr int kThreads = 1;
  const float* outputs;  // of the pairs, sorted
  const std::int32_t* positions;
  const float* shared;  // null: none
  float* y;
  int hidden, slots;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int row = team.index / hidden, d = team.index % hidden;
    const std::int32_t* of_row = positions + static_cast<std::ptrdiff_t>(row) * slots;
    float sum = slots > 0 ? outputs[static_cast<std::ptrdiff_t>(of_row[0]) * hidden + d] : 0.0F;
    for (int s = 1; s < slots; ++s) sum += outputs[static_cast<std::ptrdiff_t>(of_row[s]) * hidden + d];
    if (shared != nullptr) sum += shared[team.index];
    y[team.index] = sum;
  }
};

// Hands out pieces of the workspace; without memory it counts bytes.
class Carver {
 public:
  explicit Carver(std::byte* memory) : memory_(memory) {}
  template <class T>
  T* take(std::size_t count) {
    auto* at = reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += (count * sizeof(T) + 255) / 256 * 256;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::size_t bytes_ = 0;
};

// m of a row: floats, or blocks of integers, of which one takes 12.
std::size_t inner_floats(std::size_t dim) {
  return std::max(dim, static_cast<std::size_t>(input_floats(InputForm::kInt8, static_cast<int>(dim))));
}

struct ExpertsWork {
  PairLists lists;
  float *gate, *up, *inner, *outputs, *shared_gate, *shared_up, *shared_inner, *shared_out;

  ExpertsWork(const ExpertsArgs& args, int rows, int groups, Carver& carver) {
    const auto n = static_cast<std::size_t>(rows), pairs = n * static_cast<std::size_t>(args.slots),
               hidden = static_cast<std::size_t>(args.hidden), all = static_cast<std::size_t>(groups);
    const auto inter = args.experts.empty() ? 0 : static_cast<std::size_t>(args.experts[0].gate.out());
    const auto shared = args.shared == nullptr ? 0 : static_cast<std::size_t>(args.shared->gate.out());
    lists.rows = carver.take<std::int32_t>(pairs);
    lists.positions = carver.take<std::int32_t>(pairs);
    lists.weights = carver.take<float>(pairs);
    lists.gate = carver.take<RowGroup>(all);
    lists.up = carver.take<RowGroup>(all);
    lists.down = carver.take<RowGroup>(all);
    gate = carver.take<float>(pairs * inter);
    up = carver.take<float>(pairs * inter);
    inner = carver.take<float>(pairs * inner_floats(inter));
    outputs = carver.take<float>(pairs * hidden);
    shared_gate = carver.take<float>(n * shared);
    shared_up = carver.take<float>(n * shared);
    shared_inner = carver.take<float>(n * inner_floats(shared));
    shared_out = carver.take<float>(args.shared == nullptr ? 0 : n * hidden);
  }
};

int groups_of(const ExpertsArgs& args, int rows) {
  const int pairs = rows * args.slots;
  if (pairs <= kAlonePairs) return pairs;
  return std::min(pairs, pairs / kManyRows + static_cast<int>(args.experts.size()));
}

std::size_t work_bytes(const ExpertsArgs& args, int rows) {
  Carver carver(nullptr);
  const ExpertsWork work(args, rows, groups_of(args, rows), carver);
  return carver.bytes();
}

ExpertTable table_of(const ExpertsArgs& args) {
  SLUICE_CHECK(args.experts.size() <= kMostExperts, "no more experts than a kernel takes");
  ExpertTable table{};
  for (std::size_t e = 0; e < args.experts.size(); ++e) {
    table.gate[e] = args.experts[e].gate.packed();
    table.up[e] = args.experts[e].up.packed();
    table.down[e] = args.experts[e].down.packed();
  }
  return table;
}

LinearProduct product_of(const LinearWeight& weight, const float* x, const std::int32_t* x_rows, float* y) {
  return {.weight = packed_linear(weight),
          .form = weight.input_form(),
          .x = x,
          .ldx = weight.in(),
          .x_rows = x_rows,
          .y = y,
          .ldy = weight.out()};
}

// Of the op's rows from `first` on, in the form that the weight multiplies where somebody has made it.
LinearProduct product_of(const LinearWeight& weight, const Rows& x, int first, const std::int32_t* x_rows, float* y) {
  const InputForm form = weight.input_form();
  const bool prepared = form != InputForm::kF32 && x.form(form) != nullptr;
  LinearProduct product = product_of(weight, prepared ? x.form(form) : x.values, x_rows, y);
  product.prepared = prepared;
  product.ldx = prepared ? input_floats(form, weight.in()) : x.ld;
  product.x += first * product.ldx;
  return product;
}

// The product with m of rows, which `values` gives, made at `inner` in a form that the kernel takes.
LinearProduct product_with_swiglu(const Exec& exec, int rows, const SwiGluValues& values, const LinearWeight& down,
                                  float* inner, float* y) {
  LinearProduct product = product_of(down, inner, nullptr, y);
  if (product.form == InputForm::kInt8) {
    const int blocks = (values.dim + kQuantizedInputs - 1) / kQuantizedInputs;
    product.prepared = true;
    product.ldx = input_floats(InputForm::kInt8, values.dim);
    launch(exec, std::int64_t{rows} * blocks,
           SwiGluAndQuantize{values, reinterpret_cast<QuantizedBlock*>(inner), blocks});
  } else {
    launch(exec, std::int64_t{rows} * values.dim, SwiGlu{values, inner});
  }
  return product;
}

void run_routed(const Exec& exec, const ExpertsArgs& args, int first, int rows, int groups, const ExpertsWork& work) {
  const int pairs = rows * args.slots;
  const bool many = pairs > kAlonePairs;
  const std::int32_t* ids = args.expert_ids + std::ptrdiff_t{first} * args.slots;
  const float* weights = args.expert_weights + std::ptrdiff_t{first} * args.slots;
  if (many) {
    launch(exec, 1, SortPairs{table_of(args), work.lists, ids, weights, args.slots, pairs, groups},
           SortPairs::kSharedBytes);
  } else {
    launch(exec, pairs, TakePairs{table_of(args), work.lists, ids, weights, args.slots});
  }
  const ExpertWeights& expert = args.experts[0];  // all are alike
  const auto grouped = [&](LinearProduct product, const RowGroup* of_role) {
    product.groups = of_role;
    product.group_count = groups;
    return product;
  };
  const LinearProduct inner[] = {
      grouped(product_of(expert.gate, args.x, first, work.lists.rows, work.gate), work.lists.gate),
      grouped(product_of(expert.up, args.x, first, work.lists.rows, work.up), work.lists.up)};
  multiply(exec, 0, many, inner);
  const int inter = expert.gate.out();
  const SwiGluValues values{work.gate, work.up, work.lists.weights, inter, args.limit};
  const LinearProduct outer = grouped(
      product_with_swiglu(exec, pairs, values, expert.down, work.inner, work.outputs), work.lists.down);
  multiply(exec, 0, many, {&outer, 1});
}

void run_shared(const Exec& exec, const ExpertsArgs& args, int first, int rows, const ExpertsWork& work) {
  const LinearProduct inner[] = {product_of(args.shared->gate, args.x, first, nullptr, work.shared_gate),
                                 product_of(args.shared->up, args.x, first, nullptr, work.shared_up)};
  multiply(exec, rows, rows > 1, inner);
  const int inter = args.shared->gate.out();
  const SwiGluValues values{work.shared_gate, work.shared_up, nullptr, inter, args.limit};
  const LinearProduct outer =
      product_with_swiglu(exec, rows, values, args.shared->down, work.shared_inner, work.shared_out);
  multiply(exec, rows, rows > 1, {&outer, 1});
}

void check_alike(const ExpertsArgs& args) {
  const auto alike = [](const LinearWeight& a, const LinearWeight& b) {
    const CudaLinear x(a.view()), y(b.view());
    return x.kind == y.kind && x.scale_kind == y.scale_kind && x.block == y.block && x.out == y.out && x.in == y.in &&
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
  int piece = args.rows;  // rows at once
  while (piece > 1 && work_bytes(args, piece) > kCudaWorkspaceBytes) piece = (piece + 1) / 2;
  for (int first = 0; first < args.rows; first += piece) {
    const int rows = std::min(piece, args.rows - first), groups = groups_of(args, rows);
    Carver carver(workspace(exec, work_bytes(args, rows)));
    const ExpertsWork work(args, rows, groups, carver);
    if (args.slots > 0) run_routed(exec, args, first, rows, groups, work);
    if (args.shared != nullptr) run_shared(exec, args, first, rows, work);
    launch(exec, std::int64_t{rows} * args.hidden,
           CombineSlots{work.outputs, work.lists.positions, args.shared != nullptr ? work.shared_out : nullptr,
                        args.y + std::ptrdiff_t{first} * args.hidden, args.hidden, args.slots});
  }
}

}  // namespace sluice::SLUICE_CUDA_OPS
