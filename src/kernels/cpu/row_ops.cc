// Ops whose rows are computed each by itself (kernels/ops/elementwise.h, router.h, hyper_connection.h, embedding.h).
// They are cut into tiles of rows.
// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "base/check.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear/tiles.h"
#include "kernels/weights/input_forms.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::cpu_ops {

void rms_norm(const Exec& exec, const RmsNormArgs& args) {
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(2 * args.dim),
                [&](int begin, int end) { exec.kernels->rms_norm(args, begin, end); });
}

void check_norm(const NormInputsArgs& args) {
  SLUICE_CHECK(args.y.parts == 1 && args.y.columns == args.norm.dim, "a norm is of whole rows");
}

void norm_rows(const KernelTable& kernels, const NormInputsArgs& args, int begin, int end) {
  const RmsNormArgs& norm = args.norm;
  kernels.rms_norm(norm, begin, end);
  for (const InputForm form : kPreparedForms) {
    if (args.y.form(form) == nullptr) continue;
    const std::ptrdiff_t width = input_floats(form, norm.dim);
    for (int r = begin; r < end; ++r) {
      kernels.prepare_inputs(form, norm.dim, norm.y + r * norm.ldy, args.y.form(form) + r * width);
    }
  }
}

void norm_inputs(const Exec& exec, const NormInputsArgs& args) {
  check_norm(args);
  run_row_tiles(exec, args.norm.rows, static_cast<std::size_t>(4 * args.norm.dim),
                [&](int begin, int end) { norm_rows(*exec.kernels, args, begin, end); });
}

void layer_norm(const Exec& exec, const LayerNormArgs& args) {
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(4 * args.dim),
                [&](int begin, int end) { exec.kernels->layer_norm(args, begin, end); });
}

void rope_heads(const Exec& exec, const RopeHeadsArgs& args) {
  SLUICE_CHECK(args.rope_dims % 2 == 0 && args.offset >= 0 && args.offset + args.rope_dims <= args.head_dim,
               "the rotary dims are pairs inside the head");
  const int touched = args.norm_eps >= 0.0F ? args.head_dim : args.rope_dims;
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(2 * args.heads * touched),
                [&](int begin, int end) { exec.kernels->rope_heads(args, begin, end); });
}

void hadamard(const Exec& exec, const HadamardArgs& args) {
  SLUICE_CHECK(args.dim > 0 && std::has_single_bit(static_cast<unsigned>(args.dim)), "Hadamard needs a power of two");
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(8 * args.dim),
                [&](int begin, int end) { exec.kernels->hadamard(args, begin, end); });
}

void add(const Exec& exec, const AddArgs& args) {
  const int copies = args.copies;
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(copies * args.dim), [&](int begin, int end) {
    for (std::ptrdiff_t t = begin; t < end; ++t) {
      const float* x = args.x + t * args.dim;
      for (std::ptrdiff_t c = t * copies; c < (t + 1) * copies; ++c) {
        float* y = args.y + c * args.dim;
        for (int d = 0; d < args.dim; ++d) y[d] += x[d];
      }
    }
  });
}

void add_bias(const Exec& exec, const AddBiasArgs& args) {
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(args.dim), [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      float* to = args.y + std::ptrdiff_t{row} * args.dim;
      for (int i = 0; i < args.dim; ++i) to[i] += args.bias[i];
    }
  });
}

void scale(const Exec& exec, const ScaleArgs& args) {
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(args.dim), [&](int begin, int end) {
    const std::ptrdiff_t last = std::ptrdiff_t{end} * args.dim;
    for (std::ptrdiff_t i = std::ptrdiff_t{begin} * args.dim; i < last; ++i) args.x[i] *= args.factor;
  });
}

void gather_rows(const Exec& exec, const GatherRowsArgs& args) {
  const std::ptrdiff_t dim = args.dim;
  run_row_tiles(exec, static_cast<int>(args.from.size()), static_cast<std::size_t>(dim), [&](int begin, int end) {
    for (int i = begin; i < end; ++i) {
      std::copy_n(args.x + args.from[static_cast<std::size_t>(i)] * dim, dim, args.y + i * dim);
    }
  });
}

void copy_heads(const Exec& exec, const CopyHeadsArgs& args) {
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(args.heads * args.dims), [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      for (int head = 0; head < args.heads; ++head) {
        float* end = std::copy_n(args.x + row * args.ldx + head * args.head_x, args.dims,
                                 args.y + row * args.ldy + head * args.head_y);
        std::fill_n(end, args.zeros, 0.0F);
      }
    }
  });
}

void choose_experts(const Exec& exec, const RouteArgs& args) {
  SLUICE_CHECK(args.hash_ids != nullptr || args.slots <= args.experts,
               "a row cannot choose more experts than there are");
  SLUICE_CHECK(args.groups > 0 && args.experts % args.groups == 0 && args.kept_groups <= args.groups,
               "groups of experts have equal length, and no more are kept than there are");
  SLUICE_CHECK(args.groups == 1 || (args.slots <= args.experts / args.groups * args.kept_groups &&
                                    (args.group_score == GroupScore::kLargest || args.groups < args.experts)),
               "the groups that are kept have enough experts");
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(4096 + (8 + args.slots) * args.experts),
                [&](int begin, int end) { exec.kernels->route(args, begin, end); });
}

namespace {

void embed_row(const WeightView& table, TokenId id, int copies, float* out) {
  const std::size_t dim = static_cast<std::size_t>(table.in);
  table.values(id, 0, table.in, out);
  for (int c = 1; c < copies; ++c) std::memcpy(out + static_cast<std::size_t>(c) * dim, out, dim * sizeof(float));
}

}  // namespace

void embed(const Exec& exec, const EmbedArgs& args) {
  const WeightView& table = *args.table;
  SLUICE_CHECK(!weight_format(table.format).scaled, "embedding tables are f32, bf16 or codes");
  constexpr int kRowsPerTile = 64;
  const int rows = static_cast<int>(args.ids.size());
  const auto stride = static_cast<std::size_t>(args.copies) * static_cast<std::size_t>(table.in);
  const auto tile = [&](int index, int) {
    for (int t = index * kRowsPerTile; t < rows && t < (index + 1) * kRowsPerTile; ++t) {
      embed_row(table, args.ids[static_cast<std::size_t>(t)], args.copies,
                args.out + static_cast<std::size_t>(t) * stride);
    }
  };
  exec.pool->run((rows + kRowsPerTile - 1) / kRowsPerTile, std::ref(tile));
}

}  // namespace sluice::cpu_ops
