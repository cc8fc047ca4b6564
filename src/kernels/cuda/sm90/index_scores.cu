// The first kernel of index_select: a team of four warpgroups has a piece of a row's entries. A warpgroup has a tile of
// 128 keys. It turns 64 at a time to bf16 in registers and multiplies them with the queries of all heads, which lie in
// shared memory. Each warp copies its 32 keys of a tile by itself, some tiles ahead; lane 4 g + t has the score of key
// g + 8 t.
#include <cmath>

#include "base/formats/number_formats.h"
#include "kernels/cuda/sm90/attend_rows.h"
#include "kernels/cuda/sm90/bf16_codes.h"
#include "kernels/cuda/sm90/index_rows.h"
#include "kernels/common/order_key.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

constexpr unsigned kAll = 0xFFFFFFFFU;
constexpr int kGroups = 4, kWarpKeys = 32;

// The team's shared memory, whose address the compiler knows here to be the same in all threads.
SLUICE_DEVICE const std::byte* first_shared() {
  extern __shared__ __align__(1024) std::byte index_shared[];
  return index_shared;
}

// Spreads codes of e2m1 kPair and kPair + 4 of a word, kPair being 0 or 1, to bf16 times 2^-126. The product has each
// code twice: in one its sign is in place, in the other its other bits.
template <int kPair>
SLUICE_DEVICE std::uint32_t spread_e2m1(std::uint32_t word) {
  constexpr std::uint32_t kCodes = kPair == 0 ? 0x000F000FU : 0x00F000F0U, kTwice = kPair == 0 ? 0x1040U : 0x104U;
  return (word & kCodes) * kTwice & 0x81C081C0U;
}

template <bool kFp4, int kRows>
struct IndexScores {
  static constexpr int kThreads = kGroups * 128;
  static constexpr bool kWaits = true;
  static constexpr int kCopies = kFp4 ? 4 : 8;  // copies of 512 bytes: a warp's keys of a tile, then their scales
  static constexpr int kScalesAt = kCopies * 512, kSlotBytes = kScalesAt + kWarpKeys * 4, kAhead = kFp4 ? 3 : 2;
  struct Shared {
    std::byte q[kRows][2][kTileBytes];
    std::byte ring[kThreads / 32][kAhead][kSlotBytes];
    float weights[kRows][kIndexHeads];
  };
  IndexLaunch launch;

  struct Piece {
    RowSpan span;
    // The first row, the number of rows, the piece's number, the entries that the last row sees.
    int row, rows, index, visible;
  };
  // Returns the entries that a row of a piece sees; a row that does not exist sees none.
  SLUICE_DEVICE int visible_to(const Piece& piece, int r) const {
    return r < piece.rows ? launch.visible(piece.span, piece.row + r) : 0;
  }

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    auto& shared = *reinterpret_cast<Shared*>(team.shared);
    Piece piece;
    const bool found = find(team.index, &piece);
    const int warp = __shfl_sync(kAll, static_cast<int>(threadIdx.x) / 32, 0), lane = static_cast<int>(threadIdx.x) % 32;
    const int tiles = launch.piece_units * (kIndexUnit / kIndexTile);
    const int tile_end = min((piece.index + 1) * tiles, (piece.visible + kIndexTile - 1) / kIndexTile);
    int tile = piece.index * tiles;
    const bool with_scores = launch.args.scores != nullptr, none = !with_scores && launch.takes_all(piece.visible);
    // Every team of the launch has to wait.
    if (!found || none || tile >= tile_end) return cuda_ops::wait_for_kernels();
    tile += warp / 4;
    const int in_tile = warp % 4 * kWarpKeys;  // the first of the warp's keys
    const KeyCopies copies(launch, piece, lane);
    const auto page = [&](int of) { return of < tile_end ? copies.page(of * kIndexTile + in_tile) : -1; };
    const auto start = [&](int of, int on, int slot) {
      if (on >= 0) copies.start(of * kIndexTile + in_tile, on, shared.ring[warp][slot]);
      cuda_ops::commit_copies();
    };
    int pages[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) pages[i] = page(tile + i * kGroups);
    int next_page = page(tile + kAhead * kGroups);
    if (pages[0] >= 0) copies.expect(tile * kIndexTile + in_tile, pages[0]);
    expect_turns(piece);
    cuda_ops::wait_for_kernels();
#pragma unroll
    for (int i = 0; i < kAhead; ++i) start(tile + i * kGroups, pages[i], i);
    load_queries(shared, piece);
    load_weights(shared, piece);
    show_tensor_cores();
    __syncthreads();

    const GroupOperand q = inner_operand(first_shared());
    float most[kRows][2];  // the largest scores of the thread's groups
    int visible[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) most[r][0] = most[r][1] = NAN, visible[r] = visible_to(piece, r);
    int slot = 0;
    for (bool odd = false; tile < tile_end; tile += kGroups, odd = !odd) {
      cuda_ops::wait_copies<kAhead - 1>();
      __syncwarp();
      const std::byte* at = shared.ring[warp][slot];
      float sums[kRows][4];  // sums of keys g + 8 i, over this lane's heads
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        std::uint32_t a[kIndexSteps][4];
        take_keys(at, half, lane, a);
        float scale = 1.0F;
        if (half == 1) {
          if (!kFp4) scale = *reinterpret_cast<const float*>(at + kScalesAt + (lane / 4 + lane % 4 * 8) * 4);
          __syncwarp();
          start(tile + kAhead * kGroups, next_page, slot);
          next_page = page(tile + (kAhead + 1) * kGroups);
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          multiply(a, further(q, r * 2 * kTileBytes), shared.weights[r], sums[r] + 2 * half);
          if (half == 0) continue;
          const int e = tile * kIndexTile + in_tile + lane / 4 + lane % 4 * 8;
          const float score = sum_of_quad(sums[r], lane) * scale;
          if (e >= visible[r]) continue;
          const float own = e < launch.args.first_entry ? -INFINITY : score;
          (odd ? most[r][1] : most[r][0]) = fmaxf(odd ? most[r][1] : most[r][0], own);
          launch.order_keys[(piece.row + r - launch.first_row) * launch.stride + e] = order_key(own);
          if (with_scores) launch.args.scores[(piece.row + r) * launch.args.scores_stride + e] = own;
        }
      }
      slot = slot + 1 == kAhead ? 0 : slot + 1;
    }
    cuda_ops::wait_copies<0>();
    if (launch.maxima == nullptr) return;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (piece.index < launch.pieces(visible[r])) store_maxima(piece, r, visible[r], most[r]);
    }
  }

  // Asks for the row of the table that queries are rotated by, into the second cache.
  SLUICE_DEVICE void expect_turns(const Piece& piece) const {
    const Rotation& rope = launch.args.query_rope;
    if (!launch.forms_queries || rope.table == nullptr || static_cast<int>(threadIdx.x) >= rope.dims / 32) return;
    const Position position = piece.span.first_position + (piece.row - piece.span.row_begin);
    expect(rope.table + static_cast<std::ptrdiff_t>(position) * rope.dims + threadIdx.x * 32);
  }
  static SLUICE_DEVICE void expect(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

  // Multiplies two keys: gives the sum over the lane's heads.
  static SLUICE_DEVICE void multiply(std::uint32_t (&a)[kIndexSteps][4], GroupOperand q, const float* weights,
                                     float* sums) {
#pragma unroll
    for (auto& of_step : a) hold(of_step);
    float d[32];
    begin_products();
    multiply_group_rows(d, a[0], q);
#pragma unroll
    for (int step = 1; step < kIndexSteps; ++step) {
      add_group_rows(d, a[step], further(q, step / 4 * kTileBytes + step % 4 * 32));
    }
    commit_products();
    wait_products<0>();
    hold(d);
    sums[0] = sums[1] = 0.0F;
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // heads 8 i + 2 t and 8 i + 2 t + 1
      const float2 weight = *reinterpret_cast<const float2*>(weights + 8 * i + threadIdx.x % 4 * 2);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        sums[h] = std::fma(weight.x, fmaxf(d[i * 4 + 2 * h], 0.0F), sums[h]);
        sums[h] = std::fma(weight.y, fmaxf(d[i * 4 + 2 * h + 1], 0.0F), sums[h]);
      }
    }
  }
  // Returns sum t, for lane t of a quad, over the quad: (0 + 1) + (2 + 3).
  static SLUICE_DEVICE float sum_of_quad(const float (&sums)[4], int lane) {
    const bool odd = lane % 2 == 1, upper = lane % 4 >= 2;
    float pairs[2];  // sums of keys t % 2 and t % 2 + 2
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float other = __shfl_xor_sync(kAll, odd ? sums[2 * i] : sums[2 * i + 1], 1);
      pairs[i] = (odd ? sums[2 * i + 1] : sums[2 * i]) + other;
    }
    const float other = __shfl_xor_sync(kAll, upper ? pairs[0] : pairs[1], 2);
    return (upper ? pairs[1] : pairs[0]) + other;
  }

  // Finds the piece of a team, each warp by itself. False: the launch has no such team.
  SLUICE_DEVICE bool find(int index, Piece* piece) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int before = 0;
    for (int first = 0; first < launch.spans; first += 32) {
      IndexRows rows{0, 0, 0, 0};
      if (first + lane < launch.spans) {
        rows = rows_of_span(launch, launch.step.spans[static_cast<std::size_t>(first + lane)]);
      }
      int sum = rows.teams;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(kAll, sum, static_cast<unsigned>(distance));
        if (lane >= distance) sum += other;
      }
      const unsigned past = __ballot_sync(kAll, before + sum > index);
      if (past != 0) {
        const int of = __ffs(static_cast<int>(past)) - 1;
        const int pieces = __shfl_sync(kAll, rows.pieces, of), first_row = __shfl_sync(kAll, rows.first, of);
        const int in_span = index - before - __shfl_sync(kAll, sum - rows.teams, of);
        const int skipped = in_span / pieces * kRows;
        piece->span = launch.step.spans[static_cast<std::size_t>(first + of)];
        piece->row = first_row + skipped;
        piece->rows = min(kRows, __shfl_sync(kAll, rows.count, of) - skipped);
        piece->index = in_span % pieces;
        piece->visible = launch.visible(piece->span, piece->row + piece->rows - 1);
        return true;
      }
      before += __shfl_sync(kAll, sum, 31);
    }
    *piece = {};
    return false;
  }

  // Where a warp's keys lie, and a lane's copies of them. With index-fp4, lane 4 g + t has 16 bytes of rows g + 8 i;
  // with index-fp8, two such pieces of each row, one of either half. Then come all scales, by some lanes.
  struct KeyCopies {
    static constexpr int kRowBytes = kFp4 ? kIndexDims / 2 : kIndexDims;
    const std::byte *data, *scales;  // the lane's part of page 0
    const LatentPage* pages;
    std::uint32_t page_bytes;
    int page_shift, page_rows, visible, lane;

    SLUICE_DEVICE KeyCopies(const IndexLaunch& launch, const Piece& piece, int lane)
        : data(launch.keys.base + (kFp4 ? lane * 16 : lane / 4 * kRowBytes + lane % 4 * 16)),
          scales(launch.keys.base + launch.keys.rows_per_page * kRowBytes + lane * 16),
          pages(launch.step.latent_pages + piece.span.latent_list),
          page_bytes(static_cast<std::uint32_t>(launch.keys.page_bytes)),
          page_shift(launch.page_shift),
          page_rows(launch.keys.rows_per_page),
          visible(piece.visible),
          lane(lane) {}
    // Asks for the codes of the keys, into the second cache.
    SLUICE_DEVICE void expect(int entry, int page) const {
      const std::uint64_t skipped = std::uint64_t{static_cast<std::uint32_t>(page)} * page_bytes;
      const std::byte* from = data + skipped + (entry & (page_rows - 1)) * kRowBytes;
      if (kFp4 && lane % 8 == 0) {
#pragma unroll
        for (int i = 0; i < kCopies; ++i) IndexScores::expect(from + i * 512);
      }
    }
    // Returns the page of the entry; -1: the row sees no such entry.
    SLUICE_DEVICE int page(int entry) const { return entry < visible ? pages[entry >> page_shift].value : -1; }
    SLUICE_DEVICE void start(int entry, int page, std::byte* slot) const {
      const std::uint64_t skipped = std::uint64_t{static_cast<std::uint32_t>(page)} * page_bytes;
      const int row = entry & (page_rows - 1);
      const std::byte* from = data + skipped + row * kRowBytes;
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        cuda_ops::copy_16(slot + i * 512 + lane * 16, from + (kFp4 ? i * 512 : i / 2 * 8 * kRowBytes + i % 2 * 64));
      }
      if (lane < kWarpKeys / 4) cuda_ops::copy_16(slot + kScalesAt + lane * 16, scales + skipped + row * 4);
    }
  };

  // Gives the fragments of each step, for keys g and g + 8 of either half.
  static SLUICE_DEVICE void take_keys(const std::byte* slot, int half, int lane, std::uint32_t (&a)[kIndexSteps][4]) {
    const auto words = [&](int copy) { return *reinterpret_cast<const uint4*>(slot + copy * 512 + lane * 16); };
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int eight = 2 * half + h;
      if constexpr (kFp4) {
        const auto code = static_cast<std::uint32_t>(slot[kScalesAt + eight * 32 + lane]);
        const std::uint32_t limited = min(max(code, std::uint32_t{kMinIndexScale}), std::uint32_t{kMaxIndexScale});
        const std::uint32_t factor = (limited + 126 - kIndexShift) * 0x00800080U;
        const uint4 all = words(eight);
        const std::uint32_t word[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          a[2 * j][h] = multiply_pairs(spread_e2m1<0>(word[j]), factor);
          a[2 * j][h + 2] = multiply_pairs(spread_e2m1<1>(word[j]), factor);
          a[2 * j + 1][h] = multiply_pairs(spread_e2m1<0>(word[j] >> 8), factor);
          a[2 * j + 1][h + 2] = multiply_pairs(spread_e2m1<1>(word[j] >> 8), factor);
        }
      } else {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          const uint4 all = words(2 * eight + part);
          const std::uint32_t word[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            std::uint32_t pairs[2];
            codes_to_bf16(word[j], 0x7B807B80U, pairs);  // the factor is 2^120
            a[4 * part + j][h] = pairs[0], a[4 * part + j][h + 2] = pairs[1];
          }
        }
      }
    }
  }

  SLUICE_DEVICE void load_weights(Shared& shared, const Piece& piece) const {
    const int thread = static_cast<int>(threadIdx.x), r = thread / kIndexHeads, head = thread % kIndexHeads;
    if (r >= piece.rows) return;
    float weight = 0.0F;
    if (head < launch.args.heads) {
      weight = launch.args.weights[static_cast<std::ptrdiff_t>(piece.row + r) * launch.args.heads + head];
    }
    shared.weights[r][head] = launch.forms_queries ? weight * launch.args.weight_factor : weight;
  }

  // Loads queries: eight threads have a head, each four dims of every 32.
  SLUICE_DEVICE void load_queries(Shared& shared, const Piece& piece) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r < piece.rows) load_queries(shared.q[r], piece, piece.row + r);
    }
  }
  SLUICE_DEVICE void load_queries(std::byte (&to)[2][kTileBytes], const Piece& piece, int row) const {
    const int head = static_cast<int>(threadIdx.x) / 8, part = static_cast<int>(threadIdx.x) % 8;
    float v[4][4] = {};
    if (head < launch.args.heads) {
      const float* q = launch.args.q + (static_cast<std::ptrdiff_t>(row) * launch.args.heads + head) * kIndexDims;
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const auto four = *reinterpret_cast<const float4*>(q + 32 * m + 4 * part);
        v[m][0] = four.x, v[m][1] = four.y, v[m][2] = four.z, v[m][3] = four.w;
      }
    }
    if (launch.forms_queries) form(piece, row, part, v);
    constexpr float kScale = kFp4 ? static_cast<float>(std::int64_t{1} << kIndexShift) : 1.0F;
#pragma unroll
    for (auto& four : v) {
#pragma unroll
      for (float& x : four) x *= kScale;
    }
    if constexpr (kFp4) {
      store_pieces(to, head, part, v);
    } else {
#pragma unroll
      for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int place = index_place(kFp4, 32 * m + 4 * part + c);
          std::byte* at = to[place / 64] + tile_piece(head, place % 64 / 8) + place % 8 * 2;
          *reinterpret_cast<std::uint16_t*>(at) = static_cast<std::uint16_t>(bf16_pair(v[m][c], 0.0F));
        }
      }
    }
  }
  // Stores pieces in the order of index_place(). Values m of an even part and of the next are a piece; each of the two
  // threads has two of these pieces: those of c, and of c + 1.
  static SLUICE_DEVICE void store_pieces(std::byte (&to)[2][kTileBytes], int head, int part, const float (&v)[4][4]) {
    const bool odd = part % 2 != 0;
    const int first = part / 2 % 2 * 4 + (odd ? 2 : 0);
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      std::uint32_t words[4];
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const float other = __shfl_xor_sync(kAll, odd ? v[m][c] : v[m][c + 2], 1);
        words[m] = odd ? bf16_pair(other, v[m][c + 2]) : bf16_pair(v[m][c], other);
      }
      *reinterpret_cast<uint4*>(to[part / 4] + tile_piece(head, first + c)) = {words[0], words[1], words[2], words[3]};
    }
  }

  // Does the work that comes before the scores (kernels/ops/indexer.h).
  SLUICE_DEVICE void form(const Piece& piece, int row, int part, float (&v)[4][4]) const {
    const Rotation& rope = launch.args.query_rope;
    if (rope.table != nullptr) {
      const Position position = piece.span.first_position + (row - piece.span.row_begin);
      const float* table = rope.table + static_cast<std::ptrdiff_t>(position) * rope.dims;
      const auto rotate = [&](int pair, float& first, float& second) {
        const float2 turn = *reinterpret_cast<const float2*>(table + 2 * pair);
        const float x0 = first, x1 = second;
        first = std::fma(x0, turn.x, -(x1 * turn.y));
        second = std::fma(x0, turn.y, x1 * turn.x);
      };
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const int in_rope = 32 * m + 4 * part - rope.offset;
        if (rope.half_split) {
          if (m == 3 || in_rope < 0 || in_rope >= 32) continue;
#pragma unroll
          for (int c = 0; c < 4; ++c) rotate(in_rope + c, v[m][c], v[m == 3 ? 3 : m + 1][c]);
        } else if (in_rope >= 0 && in_rope < rope.dims) {
          rotate(in_rope / 2, v[m][0], v[m][1]);
          rotate(in_rope / 2 + 1, v[m][2], v[m][3]);
        }
      }
    }
    if (launch.args.query_hadamard) multiply_by_hadamard(part, v);
    const RowCodec codec = launch.args.query_simulation;
    if (codec == RowCodec::kBf16) {
#pragma unroll
      for (auto& four : v) {
#pragma unroll
        for (float& x : four) x = round_to_bf16(x);
      }
    } else if (codec != RowCodec::kF32) {
      simulate(codec == RowCodec::kIndexFp4, v);
    }
  }

  SLUICE_DEVICE void multiply_by_hadamard(int part, float (&v)[4][4]) const {
    const auto butterfly = [](float& a, float& b) {
      const float sum = a + b, difference = a - b;
      a = sum, b = difference;
    };
#pragma unroll
    for (auto& four : v) {
      butterfly(four[0], four[1]), butterfly(four[2], four[3]);
      butterfly(four[0], four[2]), butterfly(four[1], four[3]);
#pragma unroll
      for (int bit = 1; bit < 8; bit *= 2) {  // distances 4, 8, 16
#pragma unroll
        for (float& x : four) x = std::fma(x, (part & bit) == 0 ? 1.0F : -1.0F, __shfl_xor_sync(kAll, x, bit));
      }
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      butterfly(v[0][c], v[1][c]), butterfly(v[2][c], v[3][c]);
      butterfly(v[0][c], v[2][c]), butterfly(v[1][c], v[3][c]);
    }
#pragma unroll
    for (auto& four : v) {
#pragma unroll
      for (float& x : four) x *= launch.hadamard;
    }
  }

  // Scales are powers of two, so that a product with the inverse is the quotient. This is a few instructions a value,
  // and not those of base/formats/number_formats.h: a step comes here with none of them in any cache.
  SLUICE_DEVICE void simulate(bool fp4, float (&v)[4][4]) const {
    float largest[4];
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      largest[m] = fp4 ? 6.0F * 0x1p-126F : 1e-4F;
#pragma unroll
      for (const float x : v[m]) largest[m] = fmaxf(largest[m], fabsf(x));
    }
    if (!fp4) {
      largest[0] = fmaxf(fmaxf(largest[0], largest[1]), fmaxf(largest[2], largest[3]));
#pragma unroll
      for (int m = 1; m < 4; ++m) largest[m] = largest[0];
    }
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int bit = 1; bit < 8; bit *= 2) largest[m] = fmaxf(largest[m], __shfl_xor_sync(kAll, largest[m], bit));
    }
    if (fp4) {
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const float scale = e2m1_scale(largest[m]), inverse = inverse_of(scale);
#pragma unroll
        for (float& x : v[m]) x = round_to_e2m1(x * inverse) * scale;
      }
      return;
    }
    const float scale = pow2_ceil(largest[0] * (1.0F / 448.0F)), inverse = inverse_of(scale);
#pragma unroll
    for (auto& four : v) {
#pragma unroll
      for (float& x : four) x = e4m3_to_float(float_to_e4m3(x * inverse)) * scale;
    }
  }
  // pow2_ceil(largest / 6). The quotient, rounded, is above a power of two only if `largest` is above six times that
  // power: 1.5 times a power of two and the next float are further apart than the rounding goes.
  static SLUICE_DEVICE float e2m1_scale(float largest) {
    const std::uint32_t bits = __float_as_uint(largest);
    return bits < 0x7F800000U ? __uint_as_float((((bits + 0x3FFFFFU) >> 23) - 2U) << 23) : largest;
  }
  // Returns 1 / scale for a power of two of 2^-126 .. 2^126, or for infinity.
  static SLUICE_DEVICE float inverse_of(float scale) {
    const std::uint32_t bits = __float_as_uint(scale);
    return bits < 0x7F800000U ? __uint_as_float(0x7F000000U - bits) : 0.0F;
  }
  // e2m1_to_float(float_to_e2m1(x)): multiples of 0.5 to 1, then two bits of the significand, to the nearest, ties to
  // the even code.
  static SLUICE_DEVICE float round_to_e2m1(float x) {
    constexpr float kHalves = 0x1.8p22F;  // adding it rounds to multiples of 0.5: floats near it are 0.5 apart
    const float magnitude = fminf(fabsf(x), 6.0F);
    const std::uint32_t bits = __float_as_uint(magnitude);
    const float small = (magnitude + kHalves) - kHalves;
    const float large = __uint_as_float((bits + 0x1FFFFFU + (bits >> 22 & 1U)) & 0xFFC00000U);
    return copysignf(magnitude < 1.0F ? small : large, isnan(x) ? 1.0F : x);
  }

  // A group that has no score is INT32_MIN.
  SLUICE_DEVICE void store_maxima(const Piece& piece, int r, int visible, const float (&most)[2]) const {
    const int groups = index_groups(launch.pieces(visible)), thread = static_cast<int>(threadIdx.x);
    const auto key = [](float score) { return std::isnan(score) ? INT32_MIN : order_key(score); };
    std::int32_t* to = launch.maxima + static_cast<std::ptrdiff_t>(piece.row + r - launch.first_row) * kMostIndexGroups +
                       piece.index * groups;
    if (groups == 2 * kThreads) {
#pragma unroll
      for (int h = 0; h < 2; ++h) to[h * kThreads + thread] = key(most[h]);
      return;
    }
    const bool joined = groups < kThreads / 2;  // true if both keys of a lane are in one group
    const int lanes = joined ? kThreads / groups : 4;
    float both[2] = {most[0], most[1]};
    if (joined) both[0] = fmaxf(both[0], both[1]);
    for (int bit = 1; bit < lanes; bit *= 2) {
#pragma unroll
      for (float& x : both) x = fmaxf(x, __shfl_xor_sync(kAll, x, bit));
    }
    const int h = thread % lanes;
    if (h < (joined ? 1 : 2)) to[h * (kThreads / 4) + thread / lanes] = key(h == 0 ? both[0] : both[1]);
  }
};

template <bool kFp4, int kRows>
void score_entries_of(const Exec& exec, const IndexLaunch& launch, std::int64_t teams) {
  using Kernel = IndexScores<kFp4, kRows>;
  cuda_ops::launch(exec, teams, Kernel{launch}, sizeof(typename Kernel::Shared));
}

}  // namespace

void score_entries(const Exec& exec, const IndexLaunch& launch, std::int64_t teams) {
  if (launch.keys.format.codec != RowCodec::kIndexFp4) return score_entries_of<false, 1>(exec, launch, teams);
  launch.rows_at_once == 1 ? score_entries_of<true, 1>(exec, launch, teams)
                           : score_entries_of<true, kMostIndexRows>(exec, launch, teams);
}

}  // namespace sluice::cuda_sm90
