// hc_leave_enter (kernels/ops/hyper_connection.h) in two kernels. Its order is the header's but for the sum of squares:
//   z is cut into blocks of 128; a block's sum is lanes16's, and S adds them in ascending order, from 0
//   rho = 1 / sqrt(S / (4 * dim) + norm_eps)
// Both need dims in whole blocks and fn as cuda_linear_packing() packs it; other shapes always use the ops of the
// header.
// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>

#include "kernels/composed/composed_rows.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/cuda/sm90/bf16_codes.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "kernels/ops/hyper_connection.h"
#include "kernels/common/math.h"
#include "kernels/ops/ops.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

constexpr int kN = kHcStreams, kBlock = 128, kMostMixes = 24;

// The sums of a row's blocks, in the workspace: [4 * dim / 128][kSums], with a block's mixes followed by its squares.
constexpr int kSquares = kMostMixes, kSums = 28;
constexpr std::size_t row_floats(int dim) {
  return std::size_t{kSums} * static_cast<std::size_t>(kN * dim / kBlock);
}

// Rows of a group, if there are many; a thread has some of these, and of the mixes.
constexpr int kMostTogether = 16, kOfThread = kMostTogether / 4, kMixes = 3;

// Expands some rows, and makes the blocks' sums of fn z and z * z. A team has the same block of each stream, of every
// `groups`-th group of kRows rows: its part of fn is read once, before the kernels ahead have ended. With 16 rows a
// warp has a stream, a thread three mixes of four rows, and the next rows are on their way meanwhile.
template <int kRows>
struct ExpandAndMix {
  static constexpr int kThreads = 128, kChains = 96;  // threads of a team; chains: one for each mix of each stream
  static constexpr bool kWaits = true;
  static constexpr int kPieces = kBlock / 4, kWeightStride = kPieces + 1, kStreamFloats = kBlock + 4;
  static constexpr bool kMany = kRows == kMostTogether;
  struct Row {
    float z[kN][kStreamFloats], apart[4];
    SLUICE_DEVICE float* operator[](int stream) { return z[stream]; }
    SLUICE_DEVICE const float* operator[](int stream) const { return z[stream]; }
  };
  struct Shared {
    float4 weights[kChains * kWeightStride];
    Row z[kRows];
    // With many rows two of each: of these rows and of the next.
    float4 post[2][kMany ? kRows : 1], comb[2][kMany ? kRows : 1][kN];
  };
  // Values of rows t / 32 + 4 i, dims 4 (t % 32) and on.
  struct Ahead {
    float4 streams[kOfThread][kN], out[kOfThread];
  };
  const float *fn[2], *y, *post, *comb;
  float *x, *sums;
  const std::int32_t* only;  // the numbers of the rows of x; null: all rows
  int rows, dim, mixes, first_mixes, groups;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    auto& shared = *reinterpret_cast<Shared*>(team.shared);
    const int block = team.index % (dim / kBlock);
    load_weights(shared, block);
    cuda_ops::wait_for_kernels();
    const int begin = team.index / (dim / kBlock) * kRows;
    if constexpr (kMany) {
      mix_many(shared, block, begin);
    } else {
      mix_few(shared, block, begin);
    }
  }

 private:
  SLUICE_DEVICE int blocks() const { return kN * dim / kBlock; }
  SLUICE_DEVICE float* sum_of(int row, int mix, int stream, int block) const {
    const int of_row = stream * (dim / kBlock) + block;
    return sums + (static_cast<std::ptrdiff_t>(row) * blocks() + of_row) * kSums + mix;
  }

  SLUICE_DEVICE void load_weights(Shared& shared, int block) const {
    for (int i = static_cast<int>(threadIdx.x); i < kN * mixes * kPieces; i += kThreads) {
      const int piece = i % kPieces, stream = i / kPieces % kN, mix = i / (kPieces * kN);
      const bool second = mix >= first_mixes;
      const float* row =
          fn[second] + static_cast<std::size_t>(mix - (second ? first_mixes : 0)) * static_cast<std::size_t>(kN * dim);
      const std::size_t at = static_cast<std::size_t>(piece) * static_cast<std::size_t>(blocks()) +
                             static_cast<std::size_t>(stream * (dim / kBlock) + block);
      cuda_ops::copy_16(&shared.weights[(stream * kMostMixes + mix) * kWeightStride + piece], row + 4 * at);
    }
    cuda_ops::commit_copies();
  }

  SLUICE_DEVICE void mix_few(Shared& shared, int block, int first) const {
    const int t = static_cast<int>(threadIdx.x), mix = t % kMostMixes, stream = t / kMostMixes;
    for (; first < rows; first += groups * kRows) {
      __syncthreads();
      load_rows(shared, block, first);
      cuda_ops::wait_copies<0>();
      __syncthreads();
      if (t >= kChains) {
        add_squares(shared, block, first, t - kChains);
      } else if (mix < mixes) {
        add_products(shared, block, first, mix, stream);
      }
    }
  }
  // Loads rows; a thread has a dim of all streams.
  SLUICE_DEVICE void load_rows(Shared& shared, int block, int first) const {
    const int d = static_cast<int>(threadIdx.x), at = block * kBlock + d;
    float before[kRows][kN], out[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r >= rows) break;
      const int row = only != nullptr ? only[first + r] : first + r;
#pragma unroll
      for (int j = 0; j < kN; ++j) before[r][j] = x[(static_cast<std::ptrdiff_t>(row) * kN + j) * dim + at];
      out[r] = y != nullptr ? y[static_cast<std::ptrdiff_t>(row) * dim + at] : 0.0F;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = first + r;
      if (row >= rows) break;
      if (y != nullptr) expand(row, at, out[r], before[r]);
#pragma unroll
      for (int j = 0; j < kN; ++j) shared.z[r][j][d] = before[r][j];
    }
  }

  SLUICE_DEVICE void mix_many(Shared& shared, int block, int first) const {
    const int t = static_cast<int>(threadIdx.x);
    Ahead ahead;
    load_ahead(shared, ahead, block, first, 0);
    for (int buffer = 0; first < rows; first += groups * kRows, buffer = 1 - buffer) {
      cuda_ops::wait_copies<0>();
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kOfThread; ++i) {
        const int r = t / 32 + 4 * i, row = first + r;
        float4(&z)[kN] = ahead.streams[i];
        if (y != nullptr && row < rows) {
          expand_four(shared.post[buffer][r], shared.comb[buffer][r], ahead.out[i], z);
#pragma unroll
          for (int j = 0; j < kN; ++j) *of_stream(row, j, block) = z[j];
        }
#pragma unroll
        for (int j = 0; j < kN; ++j) *reinterpret_cast<float4*>(shared.z[r][j] + t % 32 * 4) = z[j];
      }
      load_ahead(shared, ahead, block, first + groups * kRows, 1 - buffer);
      __syncthreads();
      add_many_products(shared, block, first, t / 32, t % 32);
      add_squares_of(shared, block, first, t / 32, t % 32);
    }
    cuda_ops::wait_copies<0>();
  }
  SLUICE_DEVICE float4* of_stream(int row, int stream, int block) const {
    const std::ptrdiff_t at = (static_cast<std::ptrdiff_t>(row) * kN + stream) * dim + block * kBlock;
    return reinterpret_cast<float4*>(x + at) + threadIdx.x % 32;
  }
  SLUICE_DEVICE void load_ahead(Shared& shared, Ahead& ahead, int block, int first, int buffer) const {
    const int t = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
      const int at = first + t / 32 + 4 * i;
      if (at >= rows) continue;
      const int row = only != nullptr ? only[at] : at;
#pragma unroll
      for (int j = 0; j < kN; ++j) ahead.streams[i][j] = *of_stream(row, j, block);
      if (y != nullptr) {
        ahead.out[i] =
            reinterpret_cast<const float4*>(y + static_cast<std::ptrdiff_t>(row) * dim + block * kBlock)[t % 32];
      }
    }
    const int r = t / 8, piece = t % 8;  // the row, and which part of its post and comb
    if (y == nullptr || piece > kN || first + r >= rows) return;
    if (piece == kN) {
      cuda_ops::copy_16(&shared.post[buffer][r], post + (first + r) * kN);
    } else {
      cuda_ops::copy_16(&shared.comb[buffer][r][piece], comb + ((first + r) * kN + piece) * kN);
    }
    cuda_ops::commit_copies();
  }
  static SLUICE_DEVICE void expand_four(const float4& of_post, const float4 (&of_comb)[kN], const float4& out,
                                        float4 (&streams)[kN]) {
    const float posts[kN] = {of_post.x, of_post.y, of_post.z, of_post.w};
    float4 after[kN];
#pragma unroll
    for (int k = 0; k < kN; ++k) after[k] = {posts[k] * out.x, posts[k] * out.y, posts[k] * out.z, posts[k] * out.w};
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      const float combs[kN] = {of_comb[j].x, of_comb[j].y, of_comb[j].z, of_comb[j].w};
#pragma unroll
      for (int k = 0; k < kN; ++k) {
        after[k] = {std::fma(combs[k], streams[j].x, after[k].x), std::fma(combs[k], streams[j].y, after[k].y),
                    std::fma(combs[k], streams[j].z, after[k].z), std::fma(combs[k], streams[j].w, after[k].w)};
      }
    }
#pragma unroll
    for (int k = 0; k < kN; ++k) streams[k] = after[k];
  }
  // Adds products: mixes 3 (lane % 8) and on of rows lane / 8 + 4 i.
  SLUICE_DEVICE void add_many_products(const Shared& shared, int block, int first, int stream, int lane) const {
    const int mix = lane % 8 * kMixes;
    const float4* weights = shared.weights + (stream * kMostMixes + mix) * kWeightStride;
    float sum[kOfThread][kMixes] = {};
#pragma unroll 4
    for (int piece = 0; piece < kPieces; ++piece) {
      float4 w[kMixes];
#pragma unroll
      for (int m = 0; m < kMixes; ++m) w[m] = weights[m * kWeightStride + piece];
#pragma unroll
      for (int i = 0; i < kOfThread; ++i) {
        const float4 z = *reinterpret_cast<const float4*>(shared.z[lane / 8 + 4 * i][stream] + 4 * piece);
#pragma unroll
        for (int m = 0; m < kMixes; ++m) {
          sum[i][m] = std::fma(z.y, w[m].y, sum[i][m]);
          sum[i][m] = std::fma(z.x, w[m].x, sum[i][m]);
          sum[i][m] = std::fma(z.w, w[m].w, sum[i][m]);
          sum[i][m] = std::fma(z.z, w[m].z, sum[i][m]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
#pragma unroll
      for (int m = 0; m < kMixes; ++m) {
        const int row = first + lane / 8 + 4 * i;
        if (row < rows && mix + m < mixes) *sum_of(row, mix + m, stream, block) = sum[i][m];
      }
    }
  }

  SLUICE_DEVICE void expand(int row, int at, float out, float (&streams)[kN]) const {
    const float4 of_post = reinterpret_cast<const float4*>(post)[row];
    float4 of_comb[kN];
#pragma unroll
    for (int j = 0; j < kN; ++j) of_comb[j] = reinterpret_cast<const float4*>(comb)[row * kN + j];
    float after[kN] = {of_post.x * out, of_post.y * out, of_post.z * out, of_post.w * out};
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      after[0] = std::fma(of_comb[j].x, streams[j], after[0]);
      after[1] = std::fma(of_comb[j].y, streams[j], after[1]);
      after[2] = std::fma(of_comb[j].z, streams[j], after[2]);
      after[3] = std::fma(of_comb[j].w, streams[j], after[3]);
    }
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      x[(static_cast<std::ptrdiff_t>(row) * kN + j) * dim + at] = streams[j] = after[j];
    }
  }

  SLUICE_DEVICE void add_products(const Shared& shared, int block, int first, int mix, int stream) const {
    const float4* weights = shared.weights + (stream * kMostMixes + mix) * kWeightStride;
    float sum[kRows] = {};
#pragma unroll 8
    for (int piece = 0; piece < kPieces; ++piece) {
      const float4 w = weights[piece];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float4 z = *reinterpret_cast<const float4*>(shared.z[r][stream] + 4 * piece);
        sum[r] = std::fma(z.y, w.y, sum[r]);
        sum[r] = std::fma(z.x, w.x, sum[r]);
        sum[r] = std::fma(z.w, w.w, sum[r]);
        sum[r] = std::fma(z.z, w.z, sum[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r < rows) *sum_of(first + r, mix, stream, block) = sum[r];
    }
  }

  // Add squares, by a warp: of all streams; of one.
  SLUICE_DEVICE void add_squares(const Shared& shared, int block, int first, int lane) const {
#pragma unroll
    for (int i = 0; i < kRows * kN; i += 2) {
      const int r = (i + lane / 16) / kN, stream = (i + lane / 16) % kN;
      add_squares_of(shared.z[r], block, first + r, stream, lane);
    }
  }
  SLUICE_DEVICE void add_squares_of(const Shared& shared, int block, int first, int stream, int lane) const {
#pragma unroll
    for (int r = lane / 16; r < kRows; r += 2) add_squares_of(shared.z[r], block, first + r, stream, lane);
  }
  SLUICE_DEVICE void add_squares_of(const Row& of, int block, int row, int stream, int lane) const {
    float sum = 0.0F;
#pragma unroll
    for (int k = 0; k < kBlock / 16; ++k) {
      const float z = of[stream][16 * k + lane % 16];
      sum = std::fma(z, z, sum);
    }
#pragma unroll
    for (int half = 8; half > 0; half /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, half, 16);
    if (lane % 16 == 0 && row < rows) *sum_of(row, kSquares, stream, block) = sum;
  }
};

SLUICE_DEVICE void meet(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Finishes a row with a team. The first warp adds the blocks' sums and makes the coefficients. The others wait for
// `pre`, collapse the streams and norm the result.
//
// Its time is latency, a third of it that of instructions and weights, which the products before have driven out of all
// caches. So a team rehearses: it runs once on whatever its shared memory holds and without a store, while the kernels
// ahead still work.
struct FinishAndNorm {
  static constexpr int kNormThreads = 256, kThreads = 32 + kNormThreads;
  static constexpr bool kWaits = true;
  HcLeaveEnterArgs args;
  float* pairs;  // where the normed row goes as bf16; null: not wanted
  const float *base, *scale, *sums;
  int mixes;
  bool head, gathers;  // gathers: row i is only[i] of x
  bool rehearses;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    float* z = reinterpret_cast<float*>(team.shared);  // [4][dim]
    float* collapsed = z + kN * args.dim;
    float* of_blocks = collapsed + args.dim;
    float* pre = of_blocks + row_floats(args.dim);
    const int row = team.index, t = static_cast<int>(threadIdx.x), blocks = kN * args.dim / kBlock;
#pragma unroll 1
    for (int run = rehearses ? 0 : 1; run < 2; ++run) {
      const bool real = run == 1;
      if (real) load(row, t, blocks, z, of_blocks);
      cuda_ops::wait_copies<1>();
      __syncthreads();
      if (t < 32) {
        coefficients(row, t, of_blocks, blocks, pre, real);
      } else {
        cuda_ops::wait_copies<0>();
        meet(1, kThreads);
        collapse_and_norm(row, t - 32, z, pre, collapsed, real);
      }
      __syncthreads();
    }
  }

 private:
  SLUICE_DEVICE void load(int row, int t, int blocks, float* z, float* of_blocks) const {
    cuda_ops::wait_for_kernels();
    const float* from = sums + static_cast<std::size_t>(row) * row_floats(args.dim);
    for (int i = 4 * t; i < kSums * blocks; i += 4 * kThreads) cuda_ops::copy_16(of_blocks + i, from + i);
    cuda_ops::commit_copies();
    const int of_x = gathers ? args.only[static_cast<std::size_t>(row)] : row;
    const float* x = args.x + static_cast<std::ptrdiff_t>(of_x) * kN * args.dim;
    for (int i = t; i < args.dim; i += kThreads) cuda_ops::copy_16(z + 4 * i, x + 4 * i);
    cuda_ops::commit_copies();
  }

  SLUICE_DEVICE void coefficients(int row, int lane, const float* of_blocks, int blocks, float* pre, bool real) const {
    const bool of_squares = lane == 31;
    // The lanes read different banks.
    const float* mine = of_blocks + (of_squares ? kSquares : min(lane, mixes - 1));
    float sum = 0.0F;
#pragma unroll 32
    for (int b = 0; b < blocks; ++b) sum += mine[b * kSums];
    const float squares = __shfl_sync(0xFFFFFFFFU, sum, 31);
    const float rho = 1.0F / std::sqrt(squares / static_cast<float>(kN * args.dim) + args.norm_eps);
    const int kind = lane < kN ? 0 : lane < 2 * kN ? 1 : 2;
    const float affine = lane < mixes ? std::fma(sum * rho, scale[kind], base[lane]) : 0.0F;
    const float sigmoid = sigmoid_f32(affine);
    if (lane < kN) pre[lane] = sigmoid + args.hc_eps;
    cuda_ops::wait_copies<0>();
    meet(1, kThreads);
    if (lane < kN && real) args.pre[row * kN + lane] = sigmoid + args.hc_eps;
    if (head) return;
    if (kind == 1 && real) args.post[row * kN + lane - kN] = 2.0F * sigmoid;
    const float a =
        sinkhorn(__shfl_sync(0xFFFFFFFFU, affine, 2 * kN + lane % (kN * kN)), real ? args.sinkhorn_iterations : 2);
    if (lane < kN * kN && real) args.comb[static_cast<std::ptrdiff_t>(row) * kN * kN + lane] = a;
  }

  // Returns sinkhorn's result for a lane's element of the matrix, in column lane % 4. Both halves of the warp do the
  // same.
  SLUICE_DEVICE float sinkhorn(float a, int iterations) const {
    const auto other = [](float value, int mask) { return __shfl_xor_sync(0xFFFFFFFFU, value, mask); };
    const auto sum_over = [&](float value, int far, int near) {
      value += other(value, far);
      return value + other(value, near);
    };
    float most = fmaxf(a, other(a, 1));
    most = fmaxf(most, other(most, 2));
    a = exp_f32(a - most);
    a = a / sum_over(a, 2, 1) + args.hc_eps;
    a = a / (sum_over(a, 8, 4) + args.hc_eps);
#pragma unroll 1
    for (int i = 1; i < iterations; ++i) {
      a = a / (sum_over(a, 2, 1) + args.hc_eps);
      a = a / (sum_over(a, 8, 4) + args.hc_eps);
    }
    return a;
  }

  SLUICE_DEVICE void collapse_and_norm(int row, int t, const float* z, const float* pre, float* collapsed,
                                       bool real) const {
    for (int i = 4 * t; i < args.dim; i += 4 * kNormThreads) {
      float4 sum{};
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const float4 value = *reinterpret_cast<const float4*>(z + j * args.dim + i);
        const auto add = [&](float& to, float of) { to = j == 0 ? pre[0] * of : std::fma(pre[j], of, to); };
        add(sum.x, value.x), add(sum.y, value.y), add(sum.z, value.z), add(sum.w, value.w);
      }
      *reinterpret_cast<float4*>(collapsed + i) = sum;
      if (real) *reinterpret_cast<float4*>(args.collapsed + static_cast<std::ptrdiff_t>(row) * args.dim + i) = sum;
    }
    float* factor = const_cast<float*>(pre) + kN;
    meet(2, kNormThreads);
    if (t < 32) {
      float sum = 0.0F;
#pragma unroll 16
      for (int i = t % 16; i < args.dim; i += 16) sum = std::fma(collapsed[i], collapsed[i], sum);
#pragma unroll
      for (int half = 8; half > 0; half /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, half, 16);
      if (t == 0) *factor = 1.0F / std::sqrt(sum / static_cast<float>(args.dim) + args.norm_eps);
    }
    meet(2, kNormThreads);
    const float r = *factor;
    float* values = args.normed.values + row * args.normed.ld;
    float* of_pairs = pairs + static_cast<std::ptrdiff_t>(row) * (args.dim / 2);
    for (int i = 4 * t; i < args.dim; i += 4 * kNormThreads) {
      float4 value = *reinterpret_cast<const float4*>(collapsed + i);
      const float4 weight = *reinterpret_cast<const float4*>(args.norm + i);
      value = {value.x * r * weight.x, value.y * r * weight.y, value.z * r * weight.z, value.w * r * weight.w};
      if (real) *reinterpret_cast<float4*>(values + i) = value;
      if (real && pairs != nullptr) {
        *reinterpret_cast<uint2*>(of_pairs + i / 2) = {bf16_pair(value.x, value.y), bf16_pair(value.z, value.w)};
      }
    }
  }
};

template <int kRows>
void expand_and_mix(const Exec& exec, ExpandAndMix<kRows> kernel) {
  constexpr int kTeamsOfProcessor = ExpandAndMix<kRows>::kMany ? 2 : 3;
  const int blocks = kernel.dim / kBlock, most = std::max(1, kTeamsOfProcessor * cuda_ops::processors(exec) / blocks);
  kernel.groups = std::min((kernel.rows + kRows - 1) / kRows, most);
  cuda_ops::launch(exec, std::int64_t{blocks} * kernel.groups, kernel, sizeof(typename ExpandAndMix<kRows>::Shared));
}

bool has_blocks(const HcLeaveEnterArgs& args) {
  const auto packed = [](const LinearWeight& weight) {
    return weight.out() == 0 || (weight.packed() != nullptr && weight.view().format == WeightFormat::kF32);
  };
  const auto& fn = args.weights->fn;
  const auto aligned = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
  return args.dim % kBlock == 0 && args.dim <= 8192 && packed(fn[0]) && packed(fn[1]) && args.norm != nullptr &&
         args.normed.parts == 1 && args.normed.ld % 4 == 0 && aligned(args.norm) && aligned(args.normed.values);
}

// Enters rows [begin, end), as many as the workspace has room for.
void enter(const Exec& exec, HcLeaveEnterArgs args, int begin, int end, bool expands) {
  const auto& [fn, base, scale] = *args.weights;
  const int rows = end - begin, dim = args.dim, first = fn[0].out(), mixes = first + fn[1].out();
  auto* sums = reinterpret_cast<float*>(
      cuda_ops::workspace(exec, static_cast<std::size_t>(rows) * row_floats(dim) * sizeof(float)));
  const bool gathers = args.only.data() != nullptr;
  const auto floats = [](const std::byte* packed) { return reinterpret_cast<const float*>(packed); };
  if (gathers) {
    args.only = args.only.subspan(static_cast<std::size_t>(begin));
  } else {
    args.x += static_cast<std::ptrdiff_t>(begin) * kN * dim;
    if (args.y != nullptr) args.y += static_cast<std::ptrdiff_t>(begin) * dim;
  }
  args.pre += begin * kN;
  if (mixes > kN) args.post += begin * kN, args.comb += static_cast<std::ptrdiff_t>(begin) * kN * kN;
  args.collapsed += static_cast<std::ptrdiff_t>(begin) * dim;
  args.normed.values += begin * args.normed.ld;
  float* pairs = args.normed.form(InputForm::kBf16);
  if (pairs != nullptr) pairs += static_cast<std::ptrdiff_t>(begin) * (dim / 2);
  const auto mix = [&]<int kRows>(ExpandAndMix<kRows> kernel) {
    kernel = {{floats(fn[0].packed()), floats(fn[1].packed())},
              expands ? args.y : nullptr,
              args.post,
              args.comb,
              args.x,
              sums,
              args.only.data(),
              rows,
              dim,
              mixes,
              first,
              1};
    expand_and_mix(exec, kernel);
  };
  constexpr int kAlone = 5, kMany = 512;
  rows <= kAlone ? mix(ExpandAndMix<1>{}) : rows < kMany ? mix(ExpandAndMix<4>{}) : mix(ExpandAndMix<kMostTogether>{});
  const std::size_t floats_of_team = static_cast<std::size_t>((kN + 1) * dim) + row_floats(dim) + 8;
  // At most this many rows are rehearsed: each has a multiprocessor and waits for the kernels ahead.
  constexpr int kRehearsed = 32;
  cuda_ops::launch(exec, rows,
                   FinishAndNorm{args, pairs, base, scale, sums, mixes, mixes == kN, gathers, rows <= kRehearsed},
                   floats_of_team * sizeof(float));
}

}  // namespace

void hc_leave_enter(const Exec& exec, const HcLeaveEnterArgs& args) {
  if (args.weights == nullptr || !has_blocks(args)) return composed::hc_leave_enter(exec, args);
  const bool gathers = args.only.data() != nullptr;
  if (gathers && args.y != nullptr) hc_expand(exec, {args.rows, args.dim, args.y, args.post, args.comb, args.x});
  const int rows = gathers ? static_cast<int>(args.only.size()) : args.rows;
  const int most = static_cast<int>(cuda_ops::workspace_bytes(exec) / (row_floats(args.dim) * sizeof(float)));
  for (int begin = 0; begin < rows; begin += most) enter(exec, args, begin, std::min(rows, begin + most), !gathers);
  Rows others = args.normed;
  others.forms[static_cast<std::size_t>(InputForm::kBf16)] = nullptr;
  composed::make_forms(exec, rows, others);
}

}  // namespace sluice::cuda_sm90
