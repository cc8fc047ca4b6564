// Cases of kernels/ops/store_kv.h.
#include <fmt/format.h>

#include "kernels/cuda/op_cases_testing.h"

namespace sluice {
namespace {

constexpr int kPositions = 600;  // a span begins at 300 at most and has 260 rows

// Draws the steps that follow the values of a row: a norm, rotation, transform and rounding. Now and then one of them
// is left out.
void form_rows(Random& random, CaseMemory& memory, KvRows& rows) {
  const auto dims = static_cast<std::size_t>(rows.dims);
  if (random.between(0, 3) > 0) {
    rows.norm = {memory.put(random.floats(dims)).data(), nullptr, 1e-6F, rows.dims};
    if (random.between(0, 3) == 0) rows.norm.dims = random.between(1, rows.dims);
  }
  const int rope_dims = std::min(64, rows.dims / 2 * 2);
  if (rope_dims > 0 && random.between(0, 3) > 0) {
    const auto table = memory.put(random.floats(static_cast<std::size_t>(kPositions * rope_dims)));
    rows.rope = {table.data(), rope_dims, rows.dims - rope_dims, random.between(0, 1) == 0};
  }
  rows.hadamard = std::has_single_bit(dims) && random.between(0, 1) == 0;
  const RowCodec simulated = random.pick(std::vector<RowCodec>{RowCodec::kF32, RowCodec::kBf16, RowCodec::kV4Fp8,
                                                               RowCodec::kIndexFp4, RowCodec::kIndexFp8});
  if (takes_rows(simulated, rows.dims, 0)) rows.simulation = simulated;
}

const PlaneView& plane_for(Random& random, CaseMemory& memory, int dims, int of_page, int pages, OpCase& op_case) {
  std::vector<RowFormat> formats{make_row_format(RowCodec::kF32, dims, 0), make_row_format(RowCodec::kBf16, dims, 0)};
  for (const auto& [codec, rope_dims] :
       {std::pair{RowCodec::kV4Fp8, 64}, {RowCodec::kMlaFp8, 64}, {RowCodec::kIndexFp8, 0}, {RowCodec::kIndexFp4, 0}}) {
    if (dims > rope_dims && takes_rows(codec, dims, rope_dims))
      formats.push_back(make_row_format(codec, dims, rope_dims));
  }
  const PlaneView& plane = random_plane(random, memory, random.pick(formats), of_page, pages);
  op_case.bytes.emplace_back(plane.base, plane.page_bytes * static_cast<std::size_t>(pages));
  op_case.text += fmt::format(", {} of {}", name(plane.format.codec), dims);
  return plane;
}

OpCase store_kv_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const CompressorCase compressor = random_compressor(random, memory, sizes);
  const CompressArgs& pool = compressor.args;
  const StepTables& step = *pool.step;
  OpCase op_case{compressor.text, nullptr, {compressor.states}, {compressor.boundaries}};
  StoreKvArgs args{.step = &step};
  if (random.between(0, 3) > 0) {
    KvRows window{.dims = pick(random, sizes, {1, 17, 64, 128, 512}, {512})};
    window.planes = &plane_for(random, memory, window.dims, kBlockTokens, compressor.pages, op_case);
    const auto x = memory.put(random.floats(static_cast<std::size_t>(step.rows() * window.dims)));
    window.x = x.data();
    op_case.floats.push_back(x);
    form_rows(random, memory, window);
    args.add(window);
  }
  KvRows entries{.ratio = pool.ratio, .dims = pool.dim};
  entries.planes =
      &plane_for(random, memory, pool.dim, kBlockTokens / pool.ratio, std::max(1, compressor.latent_pages), op_case);
  const auto x = memory.poisoned<float>(static_cast<std::size_t>(step.closed_by(pool.ratio).count * pool.dim));
  entries.x = x.data();
  op_case.floats.push_back(x);
  entries.compressor = pool;
  form_rows(random, memory, entries);
  args.add(entries);
  op_case.run = [args](const Exec& exec, bool) { store_kv(exec, args); };
  return op_case;
}

// Keys and values of several heads, each with a plane of its own, together with queries.
OpCase store_heads_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const CompressorCase compressor = random_compressor(random, memory, sizes);
  const StepTables& step = *compressor.args.step;
  OpCase op_case{compressor.text, nullptr, {}, {}};
  const auto floats = [&](int count) {
    const auto values = memory.put(random.floats(static_cast<std::size_t>(step.rows()) * count));
    return values;
  };
  KvRows keys{.heads = pick(random, sizes, {1, 2, 3, 8}, {8}),
              .dims = pick(random, sizes, {2, 17, 64, 80, 128}, {128})};
  form_rows(random, memory, keys);
  if (random.between(0, 4) > 0) keys.hadamard = false, keys.simulation = RowCodec::kF32;
  const auto x = floats(keys.heads * keys.dims);
  keys.x = x.data();
  int row_dims = keys.dims;
  std::span<float> joined;
  if (random.between(0, 3) > 0) {
    keys.value_offset = (keys.dims + 15) / 16 * 16, keys.value_dims = random.pick(std::vector<int>{keys.dims, 32});
    row_dims = keys.value_offset + keys.value_dims;
    joined = memory.poisoned<float>(static_cast<std::size_t>(step.rows() * keys.heads * row_dims));
    keys.values = floats(keys.heads * keys.value_dims).data(), keys.joined = joined.data();
  }
  const RowCodec codec = random.between(0, 3) > 0 ? RowCodec::kBf16 : RowCodec::kF32;
  std::vector<PlaneView> planes;
  for (int head = 0; head < keys.heads; ++head) {
    planes.push_back(random_plane(random, memory, make_row_format(codec, row_dims, 0), kBlockTokens, compressor.pages));
    op_case.bytes.emplace_back(planes.back().base,
                               planes.back().page_bytes * static_cast<std::size_t>(compressor.pages));
  }
  keys.planes = memory.keep<std::vector<PlaneView>>(planes).data();
  keys.codes_only = random.between(0, 1) == 0;
  const auto given = memory.put(x);  // x need not be compared, but each run has to begin with the same
  if (!keys.codes_only) op_case.floats = {x, joined};
  StoreKvArgs args{.step = &step};
  args.add(keys);
  if (random.between(0, 3) > 0) {
    KvRows queries{.heads = random.between(1, 9), .dims = keys.dims};
    form_rows(random, memory, queries);
    if (random.between(0, 4) > 0) queries.hadamard = false, queries.simulation = RowCodec::kF32;
    const auto q = floats(queries.heads * queries.dims);
    queries.x = q.data();
    op_case.floats.push_back(q);
    args.add(queries);
  }
  op_case.text += fmt::format(", {} heads of {} in {}, rows of {}, {} kinds", keys.heads, keys.dims, name(codec),
                              row_dims, args.count);
  op_case.run = [args, x, given](const Exec& exec, bool) {
    std::ranges::copy(given, x.begin());
    store_kv(exec, args);
  };
  return op_case;
}

}  // namespace

std::vector<OpCases> store_cases() {
  return {{"store_kv", store_kv_case}, {"store_heads", store_heads_case}};
}

}  // namespace sluice
