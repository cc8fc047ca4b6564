// Cases of kernels/ops/elementwise.h and kernels/ops/embedding.h.
#include <fmt/format.h>

#include "base/formats/number_formats.h"
#include "kernels/cuda/op_cases_testing.h"

namespace sluice {
namespace {

const std::vector<int>& row_counts() {
  static const std::vector<int> counts{1, 1, 2, 3, 7, 16, 33};
  return counts;
}

OpCase rms_norm_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  static const std::vector<int> kDims{1, 15, 16, 17, 64, 100, 128, 512, 1024, 1536, 4096, 7168};
  const int rows = random.pick(row_counts()), dim = pick(random, sizes, kDims, {512, 1024, 1536, 4096, 7168}),
            gap = random.between(0, 3);
  const bool in_place = random.between(0, 1) == 0, weighted = random.between(0, 3) != 0;
  const auto count = static_cast<std::size_t>(rows * (dim + gap));
  const auto x = memory.put(random.floats(count)), y = in_place ? x : memory.poisoned<float>(count);
  const auto weight = memory.put(random.floats(static_cast<std::size_t>(dim)));
  const RmsNormArgs args{rows,  dim,      x.data(), dim + gap, weighted ? weight.data() : nullptr,
                         1e-6F, y.data(), dim + gap};
  return {fmt::format("rows {} dim {} in place {}", rows, dim, in_place),
          [args](const Exec& exec, bool) { rms_norm(exec, args); },
          {y},
          {}};
}

OpCase layer_norm_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  static const std::vector<int> kDims{1, 15, 16, 64, 100, 128, 1000, 4200};
  const int rows = random.pick(row_counts()), dim = pick(random, sizes, kDims, {128}), gap = random.between(0, 3);
  const bool in_place = random.between(0, 1) == 0;
  const auto count = static_cast<std::size_t>(rows * (dim + gap)), width = static_cast<std::size_t>(dim);
  const auto x = memory.put(random.floats(count)), y = in_place ? x : memory.poisoned<float>(count);
  const auto weight = memory.put(random.floats(width)), bias = memory.put(random.floats(width));
  const LayerNormArgs args{rows, dim, x.data(), dim + gap, weight.data(), bias.data(), 1e-5F, y.data(), dim + gap};
  return {fmt::format("rows {} dim {} in place {}", rows, dim, in_place),
          [args](const Exec& exec, bool) { layer_norm(exec, args); },
          {y},
          {}};
}

OpCase rope_heads_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  static const std::vector<int> kHeadDims{64, 100, 128, 192, 512, 576}, kHeads{1, 3, 16, 64}, kRope{2, 32, 64};
  constexpr int kPositions = 50;
  RopeHeadsArgs args{.rows = random.pick(row_counts()),
                     .heads = pick(random, sizes, kHeads, {1, 64, 128}),
                     .head_dim = pick(random, sizes, kHeadDims, {128, 192, 512, 576}),
                     .rope_dims = pick(random, sizes, kRope, {64})};
  args.offset =
      random.between(0, 1) == 0 ? args.head_dim - args.rope_dims : random.between(0, args.head_dim - args.rope_dims);
  args.ldx = args.heads * args.head_dim + random.between(0, 5);
  args.inverse = random.between(0, 1) == 0;
  args.half_split = random.between(0, 1) == 0;
  args.norm_eps = random.between(0, 1) == 0 ? 1e-6F : -1.0F;
  const auto x = memory.put(random.floats(static_cast<std::size_t>(args.rows * args.ldx)));
  const auto positions = memory.poisoned<Position>(static_cast<std::size_t>(args.rows));
  for (Position& p : positions) p = random.between(0, kPositions - 1);
  const auto table = memory.put(random.floats(static_cast<std::size_t>(kPositions * args.rope_dims)));
  args.x = x.data();
  args.positions = positions.data();
  args.table = table.data();
  return {fmt::format("rows {} heads {} of {} rope {} at {} inverse {} half {} eps {}", args.rows, args.heads,
                      args.head_dim, args.rope_dims, args.offset, args.inverse, args.half_split, args.norm_eps),
          [args](const Exec& exec, bool) { rope_heads(exec, args); },
          {x},
          {}};
}

OpCase hadamard_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const bool official = sizes == CaseSizes::kOfficial;
  const int rows = random.pick(row_counts()) * (official ? 64 : 1), dim = 1 << (official ? 7 : random.between(0, 10));
  const auto x = memory.put(random.floats(static_cast<std::size_t>(rows * dim)));
  const HadamardArgs args{rows, dim, x.data()};
  return {fmt::format("rows {} dim {}", rows, dim), [args](const Exec& exec, bool) { hadamard(exec, args); }, {x}, {}};
}

struct Plain {
  int rows, dim;
  std::span<float> x, y;
};
Plain plain_rows(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const int rows = random.pick(row_counts()), dim = pick(random, sizes, {random.between(1, 300)}, {4096, 7168});
  const auto count = static_cast<std::size_t>(rows * dim);
  return {rows, dim, memory.put(random.floats(count)), memory.put(random.floats(count))};
}

OpCase add_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const Plain p = plain_rows(random, memory, sizes);
  const int copies = random.pick(std::vector<int>{1, 1, 3, 4});
  const auto y = memory.put(random.floats(p.x.size() * static_cast<std::size_t>(copies)));
  const AddArgs args{p.rows, p.dim, p.x.data(), y.data(), copies};
  return {fmt::format("{} x {}, {} times", p.rows, p.dim, copies),
          [args](const Exec& exec, bool) { add(exec, args); },
          {y},
          {}};
}

OpCase add_bias_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const Plain p = plain_rows(random, memory, sizes);
  const AddBiasArgs args{p.rows, p.dim, p.x.data(), p.y.data()};
  return {fmt::format("{} x {}", p.rows, p.dim), [args](const Exec& exec, bool) { add_bias(exec, args); }, {p.y}, {}};
}

OpCase scale_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const Plain p = plain_rows(random, memory, sizes);
  const ScaleArgs args{p.rows, p.dim, random.normal(), p.y.data()};
  return {fmt::format("{} x {}", p.rows, p.dim), [args](const Exec& exec, bool) { scale(exec, args); }, {p.y}, {}};
}

OpCase gather_rows_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const Plain p = plain_rows(random, memory, sizes);
  const auto from = memory.poisoned<std::int32_t>(static_cast<std::size_t>(random.between(0, 20)));
  for (std::int32_t& row : from) row = random.between(0, p.rows - 1);
  const auto y = memory.poisoned<float>(from.size() * static_cast<std::size_t>(p.dim));
  const GatherRowsArgs args{from, p.dim, p.x.data(), y.data()};
  return {fmt::format("{} of {} x {}", from.size(), p.rows, p.dim),
          [args](const Exec& exec, bool) { gather_rows(exec, args); },
          {y},
          {}};
}

OpCase copy_heads_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  CopyHeadsArgs args{.rows = random.pick(row_counts()),
                     .heads = pick(random, sizes, {random.between(1, 9)}, {64, 128}),
                     .dims = pick(random, sizes, {random.between(1, 70)}, {64, 128, 512})};
  args.zeros = random.between(0, 1) * random.between(0, 9);
  args.head_x = args.dims + random.between(0, 5);
  args.ldx = args.head_x * args.heads + random.between(0, 5);
  args.head_y = args.dims + args.zeros + random.between(0, 5);
  args.ldy = args.head_y * args.heads + random.between(0, 5);
  if (random.between(0, 1) == 0) {  // head by head
    args.ldy = args.dims + args.zeros;
    args.head_y = args.ldy * args.rows;
  }
  const auto x = memory.put(random.floats(static_cast<std::size_t>(args.rows * args.ldx)));
  const auto y = memory.poisoned<float>(
      static_cast<std::size_t>((args.rows - 1) * args.ldy + args.heads * args.head_y + args.dims + args.zeros));
  args.x = x.data();
  args.y = y.data();
  return {fmt::format("rows {} heads {} of {} + {}", args.rows, args.heads, args.dims, args.zeros),
          [args](const Exec& exec, bool) { copy_heads(exec, args); },
          {y},
          {}};
}

}  // namespace

std::vector<OpCases> row_cases() {
  return {{"rms_norm", rms_norm_case},
          {"layer_norm", layer_norm_case},
          {"rope_heads", rope_heads_case},
          {"hadamard", hadamard_case},
          {"add", add_case},
          {"add_bias", add_bias_case},
          {"scale", scale_case},
          {"gather_rows", gather_rows_case},
          {"copy_heads", copy_heads_case}};
}

}  // namespace sluice
