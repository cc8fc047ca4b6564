#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <vector>

#include "base/aligned.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear_split.h"
#include "kernels/cpu/ops.h"
#include "kernels/linear_inputs.h"

namespace sluice::cpu_ops {

namespace {

// Reused between calls, so that a step allocates nothing once warm.
struct ExpertsScratch {
  // The (row, slot) pairs of one expert, which are contiguous once sorted; the shared expert is a group of all rows.
  struct Group {
    const ExpertWeights* weights;
    const std::int32_t* x_rows;     // [rows], null for all rows
    const float* row_weights;       // [rows], null for 1
    float *gate, *up, *down, *out;  // [rows, inter], [rows, inter], inputs of the down product, [rows, hidden]
    int rows;
  };
  std::vector<Group> groups;
  std::vector<std::int32_t> first, sorted_rows, positions;  // by expert, by sorted pair, by (row, slot)
  FloatBuffer row_weights, gate, up, down, outputs;
  std::array<FloatBuffer, 4> inputs;  // by InputForm; x itself where that is kF32
};

using Group = ExpertsScratch::Group;

// Counting sort of the (row, slot) pairs by expert, stable: scratch.first[e] is where expert e's pairs begin.
void sort_pairs(const ExpertsArgs& args, ExpertsScratch& scratch) {
  const auto pairs = static_cast<std::size_t>(args.rows) * static_cast<std::size_t>(args.slots);
  scratch.first.assign(args.experts.size() + 1, 0);
  for (std::size_t p = 0; p < pairs; ++p) ++scratch.first[static_cast<std::size_t>(args.expert_ids[p]) + 1];
  for (std::size_t e = 1; e < scratch.first.size(); ++e) scratch.first[e] += scratch.first[e - 1];
  scratch.sorted_rows.resize(pairs);
  scratch.positions.resize(pairs);
  float* weights = scratch.row_weights.get(pairs);
  for (std::size_t p = 0; p < pairs; ++p) {
    const auto at = static_cast<std::size_t>(scratch.first[static_cast<std::size_t>(args.expert_ids[p])]++);
    scratch.sorted_rows[at] = static_cast<std::int32_t>(p / static_cast<std::size_t>(args.slots));
    scratch.positions[p] = static_cast<std::int32_t>(at);
    weights[at] = args.expert_weights[p];
  }
  // Placing moved every start to its end, which is the next one's start.
  for (std::size_t e = scratch.first.size() - 1; e > 0; --e) scratch.first[e] = scratch.first[e - 1];
  scratch.first[0] = 0;
}

void make_groups(const ExpertsArgs& args, ExpertsScratch& scratch) {
  scratch.groups.clear();
  std::size_t activations = 0;
  for (std::size_t e = 0; e < args.experts.size(); ++e) {
    const auto begin = static_cast<std::size_t>(scratch.first[e]);
    const int rows = scratch.first[e + 1] - scratch.first[e];
    if (rows == 0) continue;
    scratch.groups.push_back({&args.experts[e], scratch.sorted_rows.data() + begin, scratch.row_weights.get(0) + begin,
                              nullptr, nullptr, nullptr, nullptr, rows});
  }
  if (args.shared != nullptr) {
    scratch.groups.push_back({args.shared, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, args.rows});
  }
  std::size_t outputs = 0, downs = 0;
  for (const Group& group : scratch.groups) {
    const int width = input_floats(group.weights->down.input_form(), group.weights->gate.out());
    downs += static_cast<std::size_t>(group.rows) * static_cast<std::size_t>(width);
    activations += static_cast<std::size_t>(group.rows) * static_cast<std::size_t>(group.weights->gate.out());
    outputs += static_cast<std::size_t>(group.rows) * static_cast<std::size_t>(args.hidden);
  }
  float* gate = scratch.gate.get(activations);
  float* up = scratch.up.get(activations);
  float* down = scratch.down.get(downs);
  float* out = scratch.outputs.get(outputs);
  for (Group& group : scratch.groups) {
    group.gate = gate;
    group.up = up;
    const InputForm form = group.weights->down.input_form();
    group.down = form == InputForm::kF32 ? gate : down;
    group.out = out;
    const std::ptrdiff_t size = std::ptrdiff_t{group.rows} * group.weights->gate.out();
    gate += size;
    up += size;
    if (form != InputForm::kF32) down += std::ptrdiff_t{group.rows} * input_floats(form, group.weights->gate.out());
    out += std::ptrdiff_t{group.rows} * args.hidden;
  }
}

// Row inputs in the form that `weight` wants.
const float* inputs_of(const ExpertsArgs& args, ExpertsScratch& scratch, const LinearWeight& weight,
                       std::ptrdiff_t& stride) {
  const InputForm form = weight.input_form();
  stride = form == InputForm::kF32 ? args.x.ld : input_floats(form, args.hidden);
  if (form == InputForm::kF32) return args.x.values;
  return args.x.form(form) != nullptr ? args.x.form(form) : scratch.inputs[static_cast<std::size_t>(form)].get(0);
}

// The activation m of the outputs of one piece of one group, in gate and, unless that is f32, in the form that the down
// product wants, in `down`.
void activate(const Exec& exec, const ExpertsArgs& args, ExpertsScratch& scratch, const LinearPiece& piece) {
  const Group& group = scratch.groups[static_cast<std::size_t>(piece.item)];
  const LinearKernels& kernels = exec.kernels->linear;
  const int inter = group.weights->gate.out();
  const int rows = piece.row_end - piece.row_begin;
  std::ptrdiff_t ldx = 0;
  const float* x = inputs_of(args, scratch, group.weights->gate, ldx);
  const LinearJob gate{&group.weights->gate, x, ldx, group.gate, inter, group.x_rows};
  x = inputs_of(args, scratch, group.weights->up, ldx);
  const LinearJob up{&group.weights->up, x, ldx, group.up, inter, group.x_rows};
  run_outputs(kernels, rows_from(gate, piece.row_begin), rows, piece.out_begin, piece.out_end);
  run_outputs(kernels, rows_from(up, piece.row_begin), rows, piece.out_begin, piece.out_end);
  const std::ptrdiff_t at = std::ptrdiff_t{piece.row_begin} * inter + piece.out_begin;
  const int width = piece.out_end - piece.out_begin;
  exec.kernels->swiglu({.gate = group.gate + at,
                        .up = group.up + at,
                        .row_weight = group.row_weights != nullptr ? group.row_weights + piece.row_begin : nullptr,
                        .out = group.gate + at,
                        .dim = width,
                        .ld = inter,
                        .limit = args.limit},
                       0, rows);
  const InputForm form = group.weights->down.input_form();
  if (form == InputForm::kF32) return;
  // A piece begins at a whole block.
  for (int r = 0; r < rows; ++r) {
    float* down = group.down + std::ptrdiff_t{piece.row_begin + r} * input_floats(form, inter);
    exec.kernels->prepare_inputs(form, width, group.gate + at + std::ptrdiff_t{r} * inter,
                                 down + input_floats(form, piece.out_begin));
  }
}

void add_row(int count, const float* x, float* y) {
  for (int i = 0; i < count; ++i) y[i] += x[i];
}

void combine_rows(const ExpertsArgs& args, const ExpertsScratch& scratch, const float* outputs, int begin, int end) {
  const Group* shared = args.shared != nullptr ? &scratch.groups.back() : nullptr;
  for (int t = begin; t < end; ++t) {
    float* y = args.y + std::ptrdiff_t{t} * args.hidden;
    const std::int32_t* positions = scratch.positions.data() + std::ptrdiff_t{t} * args.slots;
    if (args.slots > 0) {
      std::copy_n(outputs + std::ptrdiff_t{positions[0]} * args.hidden, args.hidden, y);
    } else {
      std::fill_n(y, args.hidden, 0.0F);
    }
    for (int s = 1; s < args.slots; ++s) add_row(args.hidden, outputs + std::ptrdiff_t{positions[s]} * args.hidden, y);
    if (shared != nullptr) add_row(args.hidden, shared->out + std::ptrdiff_t{t} * args.hidden, y);
  }
}

}  // namespace

void experts(const Exec& exec, const ExpertsArgs& args) {
  thread_local ExpertsScratch of_thread;
  ExpertsScratch& scratch = of_thread;  // the threads of the pool work in this one's
  if (args.rows == 0) return;
  sort_pairs(args, scratch);
  make_groups(args, scratch);
  const int groups = static_cast<int>(scratch.groups.size());
  const int out_tile = exec.kernels->linear.packing.out_tile;
  int activation_tile = out_tile;  // so that a piece of the activations is whole blocks of the next inputs
  for (const Group& g : scratch.groups) {
    activation_tile = std::lcm(activation_tile, input_block(g.weights->down.input_form()));
  }
  const auto group = [&](int i) -> const Group& { return scratch.groups[static_cast<std::size_t>(i)]; };

  for (const InputForm form : {InputForm::kBf16, InputForm::kInt8, InputForm::kFp8}) {
    const auto wants = [&](const Group& g) {
      return g.weights->gate.input_form() == form || g.weights->up.input_form() == form;
    };
    if (args.x.form(form) != nullptr || std::none_of(scratch.groups.begin(), scratch.groups.end(), wants)) continue;
    const int width = input_floats(form, args.hidden);
    float* buffer = scratch.inputs[static_cast<std::size_t>(form)].get(static_cast<std::size_t>(args.rows) *
                                                                       static_cast<std::size_t>(width));
    cpu_ops::prepare_rows(exec, {form, args.rows, args.hidden, args.x.values, args.x.ld, buffer, width});
  }
  split_linear(
      *exec.pool, activation_tile, groups,
      [&](int i) { return LinearExtent{group(i).rows, group(i).weights->gate.out(), 2 * args.hidden}; },
      [&](const LinearPiece& piece) { activate(exec, args, scratch, piece); });
  split_linear(
      *exec.pool, out_tile, groups,
      [&](int i) { return LinearExtent{group(i).rows, args.hidden, group(i).weights->down.in()}; },
      [&](const LinearPiece& piece) {
        const Group& g = group(piece.item);
        const int width = input_floats(g.weights->down.input_form(), g.weights->down.in());
        const LinearJob down{.weight = &g.weights->down, .x = g.down, .ldx = width, .y = g.out, .ldy = args.hidden};
        run_outputs(exec.kernels->linear, rows_from(down, piece.row_begin), piece.row_end - piece.row_begin,
                    piece.out_begin, piece.out_end);
      });
  constexpr int kRowsPerPiece = 32;
  const float* outputs = scratch.outputs.get(0);
  auto combine = [&](int piece, int) {
    combine_rows(args, scratch, outputs, piece * kRowsPerPiece, std::min(args.rows, (piece + 1) * kRowsPerPiece));
  };
  exec.pool->run((args.rows + kRowsPerPiece - 1) / kRowsPerPiece, std::ref(combine));
}

}  // namespace sluice::cpu_ops
