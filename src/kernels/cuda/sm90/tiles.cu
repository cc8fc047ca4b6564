// Products with hundreds of rows, for weights that are not experts' (tile_products.h). With fewer rows it has weights
// of several segments, which are products of their own then.
// Used by sm90_experts.cu.
#include <algorithm>
#include <vector>

#include "kernels/cuda/sm90/inner_tiles.h"
#include "kernels/cuda/sm90/tile_products.h"

namespace sluice::cuda_sm90 {
namespace {

// Returns the strips of a tile.
int tile_strips(const StripProduct& product) {
  return product.weight.segments == 1 && product.weight.kind != StripKind::kFp8Scaled ? 16 : 8;
}
// Returns the rows of tiles of 16 strips, whose warps have no registers for more than 112. It chooses the least time:
// tiles cost as much as their rows and about 40 for the weights.
int wide_tile_rows(int rows) {
  const auto cost = [&](int of_tile) { return (rows + of_tile - 1) / of_tile * (of_tile + 40); };
  return cost(64) < cost(112) ? 64 : 112;
}
std::int64_t tiles_of(int rows, const StripProduct& product) {
  const int strips = tile_strips(product), of_tile = strips == 16 ? wide_tile_rows(rows) : kTileRows;
  return std::int64_t{(product.weight.strips + strips - 1) / strips} * ((rows + of_tile - 1) / of_tile);
}

// follows: TileLaunch.
template <StripKind kKind>
void launch(const Exec& exec, int rows, std::span<const StripProduct> products, bool follows = false) {
  for (const int strips : {8, 16}) {
    TileLaunch launch{};
    launch.rows = rows, launch.follows = follows;
    for (const StripProduct& product : products) {
      if (tile_strips(product) != strips) continue;
      launch.products[launch.count] = product;
      launch.first_tile[launch.count++] = launch.tiles;
      launch.tiles += static_cast<std::int32_t>(tiles_of(rows, product));
    }
    if (launch.count == 0) continue;
    if constexpr (kKind != StripKind::kMxfp4) {
      if (strips == 8) launch_tiles<kKind, 1, kTileRows, TileOutput::kY>(exec, launch);
    }
    if constexpr (kKind != StripKind::kFp8Scaled) {
      if (strips == 8) continue;
      wide_tile_rows(rows) == 64 ? launch_tiles<kKind, 2, 64, TileOutput::kY>(exec, launch)
                                 : launch_tiles<kKind, 2, 112, TileOutput::kY>(exec, launch);
    }
  }
}

// Adds the sums of segments in ascending order; a thread has an output.
struct AddSegments {
  static constexpr int kThreads = 1;
  struct Product {
    const float* sums;  // [segments][rows][out]
    float* y;
    std::ptrdiff_t ldy;
    std::int32_t out, first;  // the number of outputs; the product's first thread
  };
  Product products[kMostStripProducts];
  std::int32_t count, rows, segments;

  SLUICE_DEVICE void operator()(const cuda_ops::Team<kThreads>& team) const {
    int i = 0;
    while (i + 1 < count && team.index >= products[i + 1].first) ++i;
    const Product& product = products[i];
    const int at = team.index - product.first, apart = rows * product.out;
    float of[kMostSegments];  // all loads are under way at once
#pragma unroll
    for (int s = 0; s < kMostSegments; ++s) {
      if (s < segments) of[s] = __ldcg(product.sums + s * apart + at);
    }
    float y = 0.0F;
#pragma unroll
    for (int s = 0; s < kMostSegments; ++s) {
      if (s < segments) y += of[s];
    }
    product.y[at / product.out * product.ldy + at % product.out] = y;
  }
};

// Makes a product of one segment.
StripProduct segment_product(const StripProduct& product, int segment, float* sums) {
  const StripLinear& w = product.weight;
  const int first = segment * w.segment_cells;
  const std::size_t bytes = static_cast<std::size_t>(first) * w.cell_bytes;
  StripProduct of = product;
  of.weight.cells = of.weight.segment_cells = std::min(w.segment_cells, w.cells - first);
  of.weight.in = of.weight.padded_in();
  of.weight.segments = 1;
  of.weight.scales_at = w.scales_at - bytes;
  if (w.kind == StripKind::kFp8) of.weight.scales_at += static_cast<std::size_t>(first / w.scale_cells) * 16;
  of.data += bytes;
  of.x += first * kCellInputs;
  of.y = sums, of.ldy = w.out;
  return of;
}

}  // namespace

bool multiply_segments(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products) {
  using enum StripRows::Cut;
  const StripLinear& first = products[0].weight;
  const auto alike = [&](const StripProduct& product) {
    const StripLinear& w = product.weight;
    return w.segments == first.segments && (w.kind != StripKind::kFp8 || w.segment_cells % w.scale_cells == 0);
  };
  std::int64_t tiles = 0;
  std::size_t outputs = 0;
  for (const StripProduct& product : products) {
    tiles += (product.weight.strips + 15) / 16 * product.weight.segments;
    outputs += static_cast<std::size_t>(product.weight.out);
  }
  const std::size_t sums = static_cast<std::size_t>(rows.rows) * static_cast<std::size_t>(first.segments) * outputs;
  const bool possible = rows.group_count == 0 && (first.kind == StripKind::kFp8 || first.kind == StripKind::kBf16) &&
                        first.segments > 1 && std::ranges::all_of(products, alike) &&
                        rows.workspace_used <= cuda_ops::workspace_bytes(exec) &&
                        sums * sizeof(float) <= cuda_ops::workspace_bytes(exec) - rows.workspace_used;
  // No cluster of blocks (many_rows.cu) shares a strip with another number of segments.
  const bool shared = first.segments == 2 || first.segments == 4 || first.segments == 8;
  const bool suits = (rows.rows <= kTileRows && 3 * tiles / 2 >= cuda_ops::processors(exec)) ||
                     (rows.rows <= kManyRows && !shared && 4 * tiles >= cuda_ops::processors(exec));
  if (!possible || (rows.cut != kSegments && (rows.cut != kAny || !suits))) return false;
  auto* to = reinterpret_cast<float*>(cuda_ops::workspace(exec, rows.workspace_used + sums * sizeof(float)) +
                                      rows.workspace_used);
  AddSegments adding{};
  std::vector<StripProduct> parts;
  std::int32_t threads = 0;
  for (const StripProduct& product : products) {
    adding.products[adding.count++] = {to, product.y, product.ldy, product.weight.out, threads};
    for (int s = 0; s < first.segments; ++s, to += rows.rows * product.weight.out)
      parts.push_back(segment_product(product, s, to));
    threads += rows.rows * product.weight.out;
  }
  for (std::size_t i = 0; i < parts.size(); i += kMostStripProducts) {
    const auto some = std::span(parts).subspan(i, std::min<std::size_t>(kMostStripProducts, parts.size() - i));
    first.kind == StripKind::kFp8 ? launch<StripKind::kFp8>(exec, rows.rows, some, i > 0)
                                  : launch<StripKind::kBf16>(exec, rows.rows, some, i > 0);
  }
  adding.rows = rows.rows, adding.segments = first.segments;
  cuda_ops::launch(exec, threads, adding);
  return true;
}

bool fills_tiles(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products) {
  std::int64_t tiles = 0;
  for (const StripProduct& product : products) {
    // With up to 64 rows, tiles of 8 strips would have room for more rows than there are.
    if (rows.rows <= kManyRows && tile_strips(product) == 8) return false;
    tiles += tiles_of(rows.rows, product);
  }
  return (rows.rows <= kManyRows ? 3 * tiles / 2 : 2 * tiles) >= cuda_ops::processors(exec);
}

// Multiplies weights of bf16 in several segments.
static bool multiply_inner_segments(const Exec& exec, const StripRows& rows, const StripProduct& gate,
                                    const StripProduct& up, const Activation& activation, std::uint16_t* m) {
  const StripLinear& w = gate.weight;
  TileLaunch launch{};
  launch.products[0] = gate, launch.products[1] = up;
  launch.count = 1, launch.rows = rows.rows, launch.m = m, launch.activation = activation;
  launch.tiles = (w.strips + 3) / 4 * ((rows.rows + kTileRows - 1) / kTileRows);
  if (w.kind != StripKind::kBf16 || rows.rows <= kManyRows || 2 * launch.tiles < cuda_ops::processors(exec))
    return false;
  launch_tiles<StripKind::kBf16, 1, kTileRows, TileOutput::kInner>(exec, launch);
  return true;
}

bool multiply_inner(const Exec& exec, const StripRows& rows, const StripProduct& gate, const StripProduct& up,
                    const Activation& activation, std::uint16_t* m) {
  const StripLinear& w = gate.weight;
  const auto whole = [](const StripLinear& of) { return of.kind == StripKind::kBf16 && of.segments == 1; };
  if (rows.group_count > 0 || w.out % kCellInputs != 0 || w.kind != up.weight.kind) return false;
  if (w.segments > 1) return multiply_inner_segments(exec, rows, gate, up, activation, m);
  if (rows.rows <= kSomeRows || !whole(w) || !whole(up.weight)) return false;
  const int of_tile = wide_tile_rows(rows.rows);
  TileLaunch launch{};
  launch.products[0] = gate, launch.products[1] = up;
  launch.count = 1, launch.rows = rows.rows, launch.m = m, launch.activation = activation;
  launch.tiles = (w.strips + 7) / 8 * ((rows.rows + of_tile - 1) / of_tile);
  const int filled = rows.rows <= kManyRows ? 3 * launch.tiles / 2 : 2 * launch.tiles;
  if (filled < cuda_ops::processors(exec)) return false;
  of_tile == 64 ? launch_tiles<StripKind::kBf16, 2, 64, TileOutput::kInner>(exec, launch)
                : launch_tiles<StripKind::kBf16, 2, 112, TileOutput::kInner>(exec, launch);
  return true;
}

void multiply_tiles(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products) {
  switch (products[0].weight.kind) {
    case StripKind::kBf16:
      return launch<StripKind::kBf16>(exec, rows.rows, products);
    case StripKind::kFp8:
      return launch<StripKind::kFp8>(exec, rows.rows, products);
    case StripKind::kFp8Scaled:
      return launch<StripKind::kFp8Scaled>(exec, rows.rows, products);
    case StripKind::kMxfp4:
      return launch<StripKind::kMxfp4>(exec, rows.rows, products);
  }
}

}  // namespace sluice::cuda_sm90
