// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <vector>

#include "base/aligned.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear/linear_split.h"
#include "kernels/cpu/linear/tiles.h"
#include "kernels/device/host_exchange.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::cpu_ops {

namespace {

// The memory of a call, reused between calls, so that later steps allocate nothing.
struct ExpertsScratch {
  // The (row, slot) pairs of one expert, which are contiguous once sorted; the shared expert is a group of all rows.
  struct Group {
    const ExpertWeights* weights;
    const std::int32_t* x_rows;     // [rows], the rows of x; null: all rows
    const float* row_weights;       // [rows]; null: all are 1
    float *gate, *up, *down, *out;  // [rows, inter], [rows, inter], inputs of the down product, its outputs
    int rows;
    ExpertBiases biases;           // this expert's: [inter], [inter], [hidden]
    std::byte* x_tiles = nullptr;  // gate's and up's inputs as tiles, for kernels that want them; null: row by row
    bool down_tiles = false;       // true if `down` has its inputs as tiles
    float* gathered = nullptr;     // [rows, inputs of down]: the activations of all ranks; null: gate has them all
  };
  std::vector<Group> groups;
  struct RowBlock {
    int group, row;
  };
  std::vector<RowBlock> blocks;                             // blocks of the groups whose inputs become tiles
  std::vector<std::int32_t> first, sorted_rows, positions;  // indexed by expert, by sorted pair, and by (row, slot)
  FloatBuffer row_weights, gate, up, gathered, down, outputs, tiles;
  std::array<FloatBuffer, kInputForms> inputs;  // x in each InputForm; kF32 is x itself
};

using Group = ExpertsScratch::Group;

// Sorts the (row, slot) pairs by expert, a stable counting sort: scratch.first[e] is where expert e's pairs begin.
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
  // The loop above moved each expert's start to its end, which is the start of the next expert.
  for (std::size_t e = scratch.first.size() - 1; e > 0; --e) scratch.first[e] = scratch.first[e - 1];
  scratch.first[0] = 0;
}

std::size_t down_floats(const Group& group) {
  const int inter = group.weights->down.in();
  if (group.down_tiles) return tile_input_bytes(group.rows, inter) / sizeof(float);
  return static_cast<std::size_t>(group.rows) *
         static_cast<std::size_t>(input_floats(group.weights->down.input_form(), inter));
}

// True if each rank computes a share of the activations, and needs all of them.
bool gathers(const ExpertWeights& weights) {
  return weights.gate.out() < weights.down.in();
}

// The number of a row's outputs on this rank.
int outputs_of(const ExpertsArgs& args) {
  return (args.shared != nullptr ? *args.shared : args.experts.front()).down.out();
}

// Returns the biases of expert `index`; all experts have the shape of `weights`.
ExpertBiases biases_of(const ExpertBiases& all, std::size_t index, const ExpertWeights& weights) {
  const auto from = [&](const float* bias, const LinearWeight& weight) {
    return bias != nullptr ? bias + index * static_cast<std::size_t>(weight.out()) : nullptr;
  };
  return {from(all.gate, weights.gate), from(all.up, weights.up), from(all.down, weights.down)};
}

void make_groups(const LinearKernels& linear, const ExpertsArgs& args, ExpertsScratch& scratch) {
  scratch.groups.clear();
  std::size_t activations = 0;
  for (std::size_t e = 0; e < args.experts.size(); ++e) {
    const auto begin = static_cast<std::size_t>(scratch.first[e]);
    const int rows = scratch.first[e + 1] - scratch.first[e];
    if (rows == 0) continue;
    scratch.groups.push_back({&args.experts[e], scratch.sorted_rows.data() + begin, scratch.row_weights.get(0) + begin,
                              nullptr, nullptr, nullptr, nullptr, rows, biases_of(args.biases, e, args.experts[e])});
  }
  if (args.shared != nullptr) {
    scratch.groups.push_back(
        {args.shared, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, args.rows, args.shared_biases});
  }
  std::size_t outputs = 0, downs = 0, gathered = 0;
  const int columns = outputs_of(args);
  for (Group& group : scratch.groups) {
    group.down_tiles = linear.wants_tiles(group.weights->down, group.rows);
    downs += down_floats(group);
    activations += static_cast<std::size_t>(group.rows) * static_cast<std::size_t>(group.weights->gate.out());
    outputs += static_cast<std::size_t>(group.rows) * static_cast<std::size_t>(columns);
    if (!gathers(*group.weights)) continue;
    gathered += static_cast<std::size_t>(group.rows) * static_cast<std::size_t>(group.weights->down.in());
  }
  float* gate = scratch.gate.get(activations);
  float* up = scratch.up.get(activations);
  float* down = scratch.down.get(downs);
  float* out = scratch.outputs.get(outputs);
  float* whole = scratch.gathered.get(gathered);
  for (Group& group : scratch.groups) {
    group.gate = gate;
    group.up = up;
    const InputForm form = group.weights->down.input_form();
    if (gathers(*group.weights)) {
      group.gathered = whole;
      whole += std::ptrdiff_t{group.rows} * group.weights->down.in();
    }
    group.down = form != InputForm::kF32 ? down : group.gathered != nullptr ? group.gathered : gate;
    group.out = out;
    const std::ptrdiff_t size = std::ptrdiff_t{group.rows} * group.weights->gate.out();
    gate += size;
    up += size;
    if (form != InputForm::kF32) down += down_floats(group);
    out += std::ptrdiff_t{group.rows} * columns;
  }
}

// Returns the inputs of a row in the form that `weight` wants.
const float* inputs_of(const ExpertsArgs& args, ExpertsScratch& scratch, const LinearWeight& weight,
                       std::ptrdiff_t& stride) {
  const InputForm form = weight.input_form();
  stride = form == InputForm::kF32 ? args.x.ld : input_floats(form, args.hidden);
  if (form == InputForm::kF32) return args.x.values;
  return args.x.form(form) != nullptr ? args.x.form(form) : scratch.inputs[static_cast<std::size_t>(form)].get(0);
}

// y = y + weight * bias for the outputs of one piece, [rows, columns]. Without a bias (null) y stays; row_weights null:
// all are 1.
void add_biases(const LinearPiece& piece, const float* bias, const float* row_weights, float* y, int columns) {
  for (int r = piece.row_begin; bias != nullptr && r < piece.row_end; ++r) {
    const float weight = row_weights != nullptr ? row_weights[r] : 1.0F;
    float* row = y + std::ptrdiff_t{r} * columns;
    for (int i = piece.out_begin; i < piece.out_end; ++i) row[i] += weight * bias[i];
  }
}

// Makes inputs of the down product from a piece of the activations, which is whole blocks of them, unless the inputs
// are f32.
void prepare_down(const KernelTable& kernels, const Group& group, const LinearPiece& piece) {
  const InputForm form = group.weights->down.input_form();
  if (form == InputForm::kF32) return;
  const float* m = group.gathered != nullptr ? group.gathered : group.gate;
  const int inter = group.weights->down.in(), width = piece.out_end - piece.out_begin;
  float* prepared = group.down_tiles ? thread_scratch(static_cast<std::size_t>(input_floats(form, width))) : nullptr;
  for (int r = piece.row_begin; r < piece.row_end; ++r) {
    const float* row = m + std::ptrdiff_t{r} * inter + piece.out_begin;
    if (group.down_tiles) {
      kernels.prepare_inputs(form, width, row, prepared);
      put_tile_inputs(prepared, r, piece.out_begin, width, inter, reinterpret_cast<std::byte*>(group.down));
    } else {
      float* down = group.down + std::ptrdiff_t{r} * input_floats(form, inter);
      kernels.prepare_inputs(form, width, row, down + input_floats(form, piece.out_begin));
    }
  }
}

// Computes the activation m of the outputs of one piece of one group, in gate; unless the down product's inputs are
// f32, also in the form that it wants, in `down`.
void activate(const Exec& exec, const ExpertsArgs& args, ExpertsScratch& scratch, const LinearPiece& piece) {
  const Group& group = scratch.groups[static_cast<std::size_t>(piece.item)];
  const LinearKernels& kernels = exec.kernels->linear;
  const int inter = group.weights->gate.out();
  const int rows = piece.row_end - piece.row_begin;
  std::ptrdiff_t ldx = 0;
  const float* x = inputs_of(args, scratch, group.weights->gate, ldx);
  LinearJob gate{&group.weights->gate, x, ldx, group.gate, inter, group.x_rows};
  gate.x_tiles = group.x_tiles;
  x = inputs_of(args, scratch, group.weights->up, ldx);
  LinearJob up{&group.weights->up, x, ldx, group.up, inter, group.x_rows};
  up.x_tiles = group.x_tiles;
  run_outputs(kernels, rows_from(gate, piece.row_begin), rows, piece.out_begin, piece.out_end);
  run_outputs(kernels, rows_from(up, piece.row_begin), rows, piece.out_begin, piece.out_end);
  add_biases(piece, group.biases.gate, nullptr, group.gate, inter);
  add_biases(piece, group.biases.up, nullptr, group.up, inter);
  const std::ptrdiff_t at = std::ptrdiff_t{piece.row_begin} * inter + piece.out_begin;
  const int width = piece.out_end - piece.out_begin;
  exec.kernels->activation({.gate = group.gate + at,
                            .up = group.up + at,
                            .row_weight = group.row_weights != nullptr ? group.row_weights + piece.row_begin : nullptr,
                            .out = group.gate + at,
                            .dim = width,
                            .ld = inter,
                            .activation = args.activation},
                           0, rows);
  if (group.gathered == nullptr) prepare_down(*exec.kernels, group, piece);
}

// Brings the activations of all ranks together, which have the same groups, and makes the inputs of the down product.
void gather_activations(const Exec& exec, ExpertsScratch& scratch) {
  const auto copy_shares = [&](std::span<const void* const> shown) {
    for (std::size_t i = 0; i < scratch.groups.size(); ++i) {
      const Group& group = scratch.groups[i];
      if (group.gathered == nullptr) continue;
      const int share = group.weights->gate.out(), inter = group.weights->down.in();
      for (std::size_t r = 0; r < shown.size(); ++r) {
        const float* from = static_cast<const ExpertsScratch*>(shown[r])->groups[i].gate;
        float* to = group.gathered + static_cast<std::ptrdiff_t>(r) * share;
        for (std::ptrdiff_t row = 0; row < group.rows; ++row) std::copy_n(from + row * share, share, to + row * inter);
      }
    }
  };
  static_cast<HostExchange*>(exec.group.exchange)->meet(exec.group.rank, scratch.groups.size(), &scratch, copy_shares);
  auto prepare = [&](int i, int) {
    const Group& group = scratch.groups[static_cast<std::size_t>(i)];
    if (group.gathered == nullptr) return;
    prepare_down(*exec.kernels, group, {i, 0, group.rows, 0, group.weights->down.in()});
  };
  exec.pool->run(static_cast<int>(scratch.groups.size()), std::ref(prepare));
}

// Makes the inputs of groups whose kernels want tiles, once for all pieces.
void make_tiles(const Exec& exec, const ExpertsArgs& args, ExpertsScratch& scratch) {
  const LinearKernels& linear = exec.kernels->linear;
  const auto wants = [&](const Group& group) {
    return linear.wants_tiles(group.weights->gate, group.rows) && linear.wants_tiles(group.weights->up, group.rows);
  };
  std::size_t bytes = 0;
  for (const Group& group : scratch.groups) bytes += wants(group) ? tile_input_bytes(group.rows, args.hidden) : 0;
  if (bytes == 0) return;
  auto* next = reinterpret_cast<std::byte*>(scratch.tiles.get(bytes / sizeof(float)));
  scratch.blocks.clear();
  for (std::size_t i = 0; i < scratch.groups.size(); ++i) {
    Group& group = scratch.groups[i];
    if (!wants(group)) continue;
    group.x_tiles = next;
    next += tile_input_bytes(group.rows, args.hidden);
    for (int row = 0; row < group.rows; row += kTileRows) scratch.blocks.push_back({static_cast<int>(i), row});
  }
  auto put = [&](int piece, int) {
    const auto& [index, row] = scratch.blocks[static_cast<std::size_t>(piece)];
    const Group& group = scratch.groups[static_cast<std::size_t>(index)];
    std::ptrdiff_t ldx = 0;
    const float* x = inputs_of(args, scratch, group.weights->gate, ldx);
    const LinearJob job{&group.weights->gate, x, ldx, nullptr, 0, group.x_rows};
    put_tile_rows(job, row, std::min(group.rows, row + kTileRows), group.x_tiles);
  };
  exec.pool->run(static_cast<int>(scratch.blocks.size()), std::ref(put));
}

// y = y + x, then y + z unless z is null.
void add_rows(int count, const float* x, const float* z, float* y) {
  if (z == nullptr) {
    for (int i = 0; i < count; ++i) y[i] += x[i];
  } else {
    for (int i = 0; i < count; ++i) y[i] = (y[i] + x[i]) + z[i];
  }
}

// Adds a row's outputs, slots ascending, then the shared expert; two at a time, so that y is read and written half as
// often.
void combine_rows(const ExpertsArgs& args, const ExpertsScratch& scratch, const float* outputs, int begin, int end) {
  const Group* shared = args.shared != nullptr ? &scratch.groups.back() : nullptr;
  const int columns = outputs_of(args), count = args.slots + (shared != nullptr ? 1 : 0);
  for (int t = begin; t < end; ++t) {
    float* y = args.y + std::ptrdiff_t{t} * columns;
    const std::int32_t* positions = scratch.positions.data() + std::ptrdiff_t{t} * args.slots;
    const auto output = [&](int s) -> const float* {
      if (s == count) return nullptr;
      if (s == args.slots) return shared->out + std::ptrdiff_t{t} * columns;
      return outputs + std::ptrdiff_t{positions[s]} * columns;
    };
    if (args.slots > 0) {
      std::copy_n(output(0), columns, y);
    } else {
      std::fill_n(y, columns, 0.0F);
    }
    for (int s = std::min(args.slots, 1); s < count; s += 2) add_rows(columns, output(s), output(s + 1), y);
  }
}

}  // namespace

void experts(const Exec& exec, const ExpertsArgs& args) {
  thread_local ExpertsScratch of_thread;
  ExpertsScratch& scratch = of_thread;  // a reference, since a pool's thread would name its own thread_local
  if (args.rows == 0) return;
  sort_pairs(args, scratch);
  const LinearKernels& linear = exec.kernels->linear;
  make_groups(linear, args, scratch);
  const int groups = static_cast<int>(scratch.groups.size()), columns = outputs_of(args);
  const int out_tile = linear.packing.out_tile;
  int activation_tile = out_tile;  // so that a piece of the activations is whole blocks of the next inputs
  for (const Group& g : scratch.groups) {
    const int block = input_block(g.weights->down.input_form());
    if (activation_tile % block != 0) activation_tile = std::lcm(activation_tile, block);
  }
  const auto group = [&](int i) -> const Group& { return scratch.groups[static_cast<std::size_t>(i)]; };

  for (const InputForm form : kPreparedForms) {
    const auto wants = [&](const Group& g) {
      return g.weights->gate.input_form() == form || g.weights->up.input_form() == form;
    };
    if (args.x.form(form) != nullptr || std::none_of(scratch.groups.begin(), scratch.groups.end(), wants)) continue;
    const int width = input_floats(form, args.hidden);
    float* buffer = scratch.inputs[static_cast<std::size_t>(form)].get(static_cast<std::size_t>(args.rows) *
                                                                       static_cast<std::size_t>(width));
    cpu_ops::prepare_rows(exec, {form, args.rows, args.hidden, args.x.values, args.x.ld, buffer, width});
  }
  make_tiles(exec, args, scratch);
  const bool gathered = std::ranges::any_of(scratch.groups, [](const Group& g) { return g.gathered != nullptr; });
  const bool pieces = gathered || exec.pool->threads() > 1;
  const auto of_activation = [&](int i) {
    const ExpertWeights& w = *group(i).weights;
    // A piece of the activations is whole blocks of the next inputs.
    const int unit =
        pieces ? std::lcm(std::lcm(linear.row_unit(w.gate), linear.row_unit(w.up)), input_block(w.down.input_form()))
               : 0;
    return LinearExtent{group(i).rows, w.gate.out(), 2 * args.hidden, group(i).x_tiles != nullptr, unit};
  };
  const auto of_down = [&](int i) {
    const LinearWeight& down = group(i).weights->down;
    const int unit = pieces ? linear.row_unit(down) : 0;
    return LinearExtent{group(i).rows, columns, down.in(), group(i).down_tiles, unit};
  };
  const auto activation = [&](const LinearPiece& piece) { activate(exec, args, scratch, piece); };
  const auto down = [&](const LinearPiece& piece) {
    const Group& g = group(piece.item);
    const int width = input_floats(g.weights->down.input_form(), g.weights->down.in());
    LinearJob job{.weight = &g.weights->down, .x = g.down, .ldx = width, .y = g.out, .ldy = columns};
    if (g.down_tiles) job.x_tiles = reinterpret_cast<const std::byte*>(g.down);
    run_outputs(linear, rows_from(job, piece.row_begin), piece.row_end - piece.row_begin, piece.out_begin,
                piece.out_end);
    add_biases(piece, g.biases.down, g.row_weights, g.out, columns);
  };
  // One thread runs one expert after the other; an expert's weights lie next to each other.
  const auto all = [&](int, int) {
    for (int i = 0; i < groups; ++i) {
      LinearGrid::walk_all(of_activation(i), activation_tile, i, activation);
      LinearGrid::walk_all(of_down(i), out_tile, i, down);
    }
  };
  if (!pieces) {
    exec.pool->run(1, std::ref(all));
  } else {
    split_linear(*exec.pool, activation_tile, groups, of_activation, activation);
    if (gathered) gather_activations(exec, scratch);
    split_linear(*exec.pool, out_tile, groups, of_down, down);
  }
  const float* outputs = scratch.outputs.get(0);
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(2 * columns * (args.slots + 1)),
                [&](int begin, int end) { combine_rows(args, scratch, outputs, begin, end); });
}

}  // namespace sluice::cpu_ops
