// The time of the indexer of the profile sm90 with V4-Flash's geometry (and V3.2's): graphs of up to 32 layers, each
// with keys of its own that are not in the second cache.
#include <vector>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "kernels/ops/indexer.h"
#include "sm90_testing.h"

namespace sluice::gpu_index_speed_test {
namespace {

using namespace sm90_testing;

constexpr int kHeads = 64, kDims = 128, kTopK = 512, kMostRows = 2048;
constexpr std::size_t kPoolBytes = std::size_t{4} << 30;

// Fills keys with random codes that are numbers, and scales near 1.
__global__ void fill_keys(PlaneView plane, std::int64_t rows) {
  const bool fp4 = plane.format.codec == RowCodec::kIndexFp4;
  for (std::int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
    const RowRef row = plane.row(static_cast<std::int32_t>(i / plane.rows_per_page), static_cast<int>(i % plane.rows_per_page));
    unsigned x = static_cast<unsigned>(i) * 2654435761U + threadIdx.x * 40503U + 12345U;
    x ^= x >> 16, x *= 0x7FEB352DU, x ^= x >> 15, x *= 0x846CA68BU, x ^= x >> 16;
    if (static_cast<int>(threadIdx.x) * 4 < plane.format.data_bytes) {
      reinterpret_cast<unsigned*>(row.data)[threadIdx.x] = fp4 ? x : x & 0xBFBFBFBFU;
    }
    if (threadIdx.x == 0) *reinterpret_cast<unsigned*>(row.scales) = fp4 ? 0x7D7D7D7DU + (x & 0x01010101U) : 0x3F800000U;
  }
}

class GpuSpeedIndex : public Sm90SpeedTest {
 protected:
  void measure(RowCodec codec, int sequences, int rows, int entries, bool sm90 = true) {
    const int ratio = codec == RowCodec::kIndexFp4 ? 4 : 1, top_k = codec == RowCodec::kIndexFp4 ? kTopK : 4 * kTopK;
    PlaneView plane{.rows_per_page = kBlockTokens / ratio, .format = make_row_format(codec, kDims, 0)};
    plane.page_bytes = static_cast<std::size_t>(plane.rows_per_page * plane.format.row_bytes());
    const int pages = static_cast<int>(kPoolBytes / plane.page_bytes), of_sequence = entries / plane.rows_per_page + 1;
    plane.base = pool().data();
    if (filled() != codec) {
      fill_keys<<<4096, 32, 0, static_cast<cudaStream_t>(gpu().stream())>>>(plane, std::int64_t{pages} * plane.rows_per_page);
      filled() = codec;
    }
    const double bytes = 1.0 * sequences * entries * plane.format.row_bytes();
    const int layers = static_cast<int>(std::clamp(3e9 / bytes, 1.0, rows > 1 ? 2.0 : 32.0));
    std::vector<LatentPage> lists;
    std::vector<RowSpan> spans;
    for (int i = 0; i < layers * sequences; ++i) {
      spans.push_back({.row_begin = i % sequences * rows, .rows = rows, .first_position = entries * ratio - rows,
                       .latent_list = static_cast<std::int32_t>(lists.size())});
      for (int p = 0; p < of_sequence; ++p) lists.push_back(LatentPage(static_cast<std::int32_t>(random_() % static_cast<unsigned>(pages))));
    }
    const OnDevice<RowSpan> there(spans);
    const OnDevice<LatentPage> device_lists(lists);
    const int all = sequences * rows;
    const OnDevice<float> q(random_values(random_, static_cast<std::size_t>(all) * kHeads * kDims));
    const OnDevice<float> weights(random_values(random_, static_cast<std::size_t>(all) * kHeads));
    const OnDevice<std::int32_t> selected(static_cast<std::size_t>(all * top_k)), count(static_cast<std::size_t>(all));
    const double us = microseconds(
        layers,
        [&](int layer) {
          StepTables step;
          const auto first = static_cast<std::size_t>(layer * sequences), n = static_cast<std::size_t>(sequences);
          step.spans = {there.data() + first, n}, step.host_spans = std::span(spans).subspan(first, n);
          step.latent_pages = device_lists.data();
          IndexSelectArgs args;
          args.rows = all, args.heads = kHeads, args.dims = kDims;
          args.q = q.data(), args.weights = weights.data(), args.weight_factor = 0.011F;
          args.query_hadamard = true, args.query_simulation = codec;
          args.step = &step, args.keys = &plane, args.tokens_per_row = ratio, args.top_k = top_k;
          args.selected = selected.data(), args.count = count.data();
          sm90 ? cuda_sm90::index_select(exec_, args) : cuda_ops::select_entries(exec_, args);
        },
        true);
    const double aim = 8 + 1.5 * bytes / copy_bytes_a_second() * 1e6, flops = 2.0 * all * entries * kHeads * kDims;
    std::printf("index %s %s b %2d x %4d rows, %6d entries %8.1f us, %6.0f GB/s (%3.0f %% of copy), %6.1f TFLOP/s, %4.2f of 8 us + 1.5 copies\n",
                name(codec), sm90 ? "sm90" : "default", sequences, rows, entries, us, bytes / us * 1e-3,
                100 * bytes / (us * 1e-6) / copy_bytes_a_second(), flops / us * 1e-6, us / aim);
    std::fflush(stdout);
  }
  static const OnDevice<std::byte>& pool() {
    static const OnDevice<std::byte> memory(kPoolBytes);
    return memory;
  }
  static RowCodec& filled() {
    static RowCodec codec = RowCodec::kF32;
    return codec;
  }
};

TEST_F(GpuSpeedIndex, Decode) {
  std::printf("copy %.0f GB/s\n", copy_bytes_a_second() * 1e-9);
  for (const int entries : {1024, 16 << 10, 64 << 10, 256 << 10}) {
    for (const int b : {1, 8, 64}) measure(RowCodec::kIndexFp4, b, 1, entries);
  }
  for (const int b : {1, 8, 64}) measure(RowCodec::kIndexFp8, b, 1, 64 << 10);
  measure(RowCodec::kIndexFp4, 1, kMostRows, 16 << 10);
  for (const int b : {1, 64}) measure(RowCodec::kIndexFp4, b, 1, 1024, false);
}

}  // namespace
}  // namespace sluice::gpu_index_speed_test
