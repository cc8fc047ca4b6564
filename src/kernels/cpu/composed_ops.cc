// The CPU's composed ops (kernels/ops/ops.h). They consist of the same parts as on every device. But each thread sends
// a few rows through all parts of an op, instead of all threads sending all rows through one part after the other. So
// an op forks once, and a step of one row makes one call instead of ten.
// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>
#include <functional>
#include <vector>

#include "kernels/composed/composed_rows.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/linear/tiles.h"

namespace sluice::cpu_ops {
namespace {

// Cuts rows [0, rows) into pieces and calls part(exec, begin, end) for each, with an exec of its thread alone.
template <class Part>
void by_rows(const Exec& exec, int rows, std::size_t operations_per_row, const Part& part) {
  const Exec inner = on_this_thread(exec);
  run_row_tiles(exec, rows, operations_per_row, [&](int begin, int end) { part(inner, begin, end); });
}

bool has_forms(const Rows& rows) {
  return std::ranges::any_of(kPreparedForms, [&](InputForm form) { return rows.form(form) != nullptr; });
}

}  // namespace

void project(const Exec& exec, const ProjectArgs& args) {
  thread_local std::vector<LinearJob> jobs;  // reused, so that later steps allocate nothing
  composed::products_of(args, jobs);
  cpu_ops::linear(exec, {args.rows, jobs});
  const std::span<const Product> products(args.products.data(), static_cast<std::size_t>(args.count));
  std::size_t operations = 0;
  int together = 1;  // rows that share a row of an addend
  for (const Product& product : products) {
    const bool more = product.bias != nullptr || product.addend != nullptr || product.norm != nullptr;
    if (more || has_forms(product.y)) operations += 8 * static_cast<std::size_t>(product.y.columns * product.y.parts);
    if (product.addend != nullptr) together = std::max(together, product.shared);
  }
  if (operations == 0) return;
  if (together > 1) {
    for (const Product& product : products) composed::finish_product(exec, args.rows, product);
    return;
  }
  by_rows(exec, args.rows, operations, [&](const Exec& inner, int begin, int end) {
    for (Product product : products) {
      product.y = rows_from(product.y, begin);
      if (product.addend != nullptr) product.addend += std::ptrdiff_t{begin} * product.y.columns;
      composed::finish_product(inner, end - begin, product);
    }
  });
}

void store_kv(const Exec& exec, const StoreKvArgs& args) {
  struct Piece {
    const KvRows* kind;
    composed::PlacedRows rows;
  };
  thread_local std::vector<Piece> of_thread;
  std::vector<Piece>& pieces = of_thread;  // a reference, since a pool's thread would name its own thread_local
  pieces.clear();
  constexpr int kOperationsPerValue = 32;
  const std::span<const KvRows> kinds(args.kinds.data(), static_cast<std::size_t>(args.count));
  const Exec inner = on_this_thread(exec);
  const auto store_all = [&](int, int) {
    for (const KvRows& kind : kinds) composed::store(inner, *args.step, kind);
  };
  std::size_t operations = 0;
  for (const KvRows& kind : kinds) {
    const int pooled = kind.ratio > 1 ? args.step->rows() : 0;
    const int rows = pooled + composed::placed_rows(*args.step, kind.ratio).rows;
    operations +=
        static_cast<std::size_t>(rows) * static_cast<std::size_t>(kind.heads * kind.dims * kOperationsPerValue);
  }
  if (args.step->rows() == 1 || operations < kTileOperations) return exec.pool->run(1, std::ref(store_all));
  for (const KvRows& kind : kinds) {
    if (kind.ratio > 1) composed::pool_windows(exec, *args.step, kind);
    const composed::PlacedRows all = composed::placed_rows(*args.step, kind.ratio);
    const int at_once = std::max(1, static_cast<int>(kTileOperations) / (kind.heads * kind.dims * kOperationsPerValue));
    for (int row = 0; row < all.rows; row += at_once) pieces.push_back({&kind, all.part(row, at_once)});
  }
  const auto store_piece = [&](int index, int) {
    const Piece& piece = pieces[static_cast<std::size_t>(index)];
    composed::store_rows(inner, *piece.kind, piece.rows);
  };
  exec.pool->run(static_cast<int>(pieces.size()), std::ref(store_piece));
}

void index_select(const Exec& exec, const IndexSelectArgs& args) {
  by_rows(exec, args.rows, static_cast<std::size_t>(16 * args.heads * args.dims),
          [&](const Exec& inner, int begin, int end) { composed::form_index_queries(inner, args, begin, end); });
  cpu_ops::select_entries(exec, args);
}

void add_norm(const Exec& exec, const AddNormArgs& args) {
  if (args.norm == nullptr || args.only.data() != nullptr) return composed::add_norm(exec, args);
  by_rows(exec, args.rows, static_cast<std::size_t>(5 * args.dim), [&](const Exec& inner, int begin, int end) {
    AddNormArgs part = args;
    part.rows = end - begin;
    part.x += std::ptrdiff_t{begin} * args.dim;
    if (args.y != nullptr) part.y += std::ptrdiff_t{begin} * args.dim;
    part.normed = rows_from(args.normed, begin);
    composed::add_norm(inner, part);
  });
}

namespace {

// True if each head's part of the forms of `out` can be made by itself.
bool forms_by_heads(const AttendArgs& args) {
  return std::ranges::all_of(kPreparedForms, [&](InputForm form) {
    return args.out_rows.form(form) == nullptr || args.value_dims % input_block(form) == 0;
  });
}

// Makes the forms of columns [from, to) of row `row`, whose parts lie next to each other.
void make_forms(const KernelTable& kernels, const Rows& rows, int row, int from, int to) {
  for (const InputForm form : kPreparedForms) {
    if (rows.form(form) == nullptr) continue;
    const std::ptrdiff_t width = input_floats(form, rows.columns);
    for (int at = from, end = from; at < to; at = end) {
      const int part = at / rows.columns, column = at % rows.columns;
      end = std::min(to, (part + 1) * rows.columns);
      kernels.prepare_inputs(
          form, end - at, rows.values + row * rows.ld + part * rows.part_step + column,
          rows.form(form) + (row * std::ptrdiff_t{rows.parts} + part) * width + input_floats(form, column));
    }
  }
}

// The work of attend() before and after the keys, for the rows and heads of a piece.
class HeadForms {
 public:
  HeadForms(const Exec& exec, const AttendArgs& args)
      : inner_(on_this_thread(exec)),
        args_(args),
        first_row_(args.spans.front().row_begin),
        forms_(forms_by_heads(args)) {}

  bool makes_forms() const { return forms_; }

  void operator()(const AttendPiece& tile, const std::function<void()>& keys) const {
    const int heads = tile.head_end - tile.head_begin;
    for (int row = tile.begin; row < tile.end; ++row) form(row, tile.head_begin, heads);
    keys();
    for (int row = tile.begin; row < tile.end; ++row) finish(row, tile.head_begin, heads);
  }

 private:
  void form(std::ptrdiff_t row, int head, int heads) const {
    const Position* position = args_.step->positions.data() + row;
    float* q = args_.q + (row * args_.heads + head) * args_.dims;
    if (args_.query_heads == nullptr) {
      return composed::form_heads(inner_, args_.query, 1, heads, args_.dims, q, 0, position);
    }
    const int dims = args_.query_dims, rope_dims = args_.query.rope.dims;
    float* x = args_.query_heads + (row * args_.heads + head) * dims;
    composed::form_heads(inner_, args_.query, 1, heads, dims, x, 0, position);
    cpu_ops::copy_heads(
        inner_, {1, heads, rope_dims, x + args_.query.rope.offset, dims, 0, q + args_.dims - rope_dims, args_.dims, 0});
  }

  void finish(std::ptrdiff_t row, int head, int heads) const {
    float* out = args_.out + (row * args_.heads + head) * args_.value_dims;
    if (args_.out_rope.table != nullptr) {
      cpu_ops::rope_heads(inner_, {.rows = 1,
                                   .heads = heads,
                                   .head_dim = args_.value_dims,
                                   .rope_dims = args_.out_rope.dims,
                                   .offset = args_.out_rope.offset,
                                   .x = out,
                                   .ldx = 0,
                                   .positions = args_.step->positions.data() + row,
                                   .table = args_.out_rope.table,
                                   .inverse = true,
                                   .half_split = args_.out_rope.half_split});
    }
    if (forms_) {
      make_forms(*inner_.kernels, args_.out_rows, static_cast<int>(row) - first_row_, head * args_.value_dims,
                 (head + heads) * args_.value_dims);
    }
  }

  const Exec inner_;
  const AttendArgs& args_;
  const int first_row_;
  const bool forms_;
};

}  // namespace

void attend(const Exec& exec, const AttendArgs& args) {
  if (args.spans.empty()) return;
  const HeadForms forms(exec, args);
  attend_keys_around(exec, args, std::ref(forms));
  if (!forms.makes_forms()) composed::make_forms(exec, args.rows, args.out_rows);
}

}  // namespace sluice::cpu_ops
