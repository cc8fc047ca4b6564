// The time of attention of the profile sm90 over latents and over keys and values of key heads: graphs of several
// layers, each with rows of its own that are not in the second cache.
#include <vector>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/sm90/attend_list_parts.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "sm90_testing.h"

namespace sluice::gpu_list_attention_speed_test {
namespace {

using namespace sm90_testing;
using cuda_sm90::ListCut;

struct Model {
  const char* name;
  int heads, key_heads, dims, value_dims, value_offset;
  RowCodec codec;
  int selected = 0;

  int row_dims() const { return value_offset > 0 ? value_offset + value_dims : dims; }
};
constexpr Model kV3{"V3", 128, 1, 576, 512, 0, RowCodec::kBf16}, kV3Fp8{"V3, FP8", 128, 1, 576, 512, 0, RowCodec::kMlaFp8},
    kV32{"V3.2 2,048", 128, 1, 576, 512, 0, RowCodec::kMlaFp8, 2048},
    kV2Lite{"V2-Lite", 16, 1, 576, 512, 0, RowCodec::kBf16}, kLlama{"Llama-8B", 32, 8, 128, 128, 128, RowCodec::kBf16};

__global__ void fill_words(std::uint32_t* words, std::size_t count) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += std::size_t{gridDim.x} * blockDim.x) {
    unsigned x = static_cast<unsigned>(i) * 2654435761U + 12345U;
    x ^= x >> 16, x *= 0x7FEB352DU, x ^= x >> 15, x *= 0x846CA68BU, x ^= x >> 16;
    words[i] = (x & 0x81FF81FFU) | 0x3E003E00U;  // as bf16 up to 2, as codes up to 1.9, as scales up to 2
  }
}

// The pages of all key heads.
struct Pool {
  Pool(const Model& model, int pages)
      : pages(pages), format(make_row_format(model.codec, model.row_dims(), model.key_heads == 1 ? 64 : 0)) {
    const auto page_bytes = static_cast<std::size_t>(kBlockTokens * format.row_bytes());
    for (int k = 0; k < model.key_heads; ++k) {
      bytes.push_back(std::make_unique<OnDevice<std::byte>>(page_bytes * static_cast<std::size_t>(pages)));
      fill_words<<<2048, 256, 0, static_cast<cudaStream_t>(gpu().stream())>>>(
          reinterpret_cast<std::uint32_t*>(bytes.back()->data()), page_bytes * static_cast<std::size_t>(pages) / 4);
      views.push_back({.base = bytes.back()->data(), .page_bytes = page_bytes, .rows_per_page = kBlockTokens, .format = format});
    }
  }
  int pages;
  RowFormat format;
  std::vector<std::unique_ptr<OnDevice<std::byte>>> bytes;
  std::vector<PlaneView> views;
};

class GpuSpeedListAttention : public Sm90SpeedTest {
 protected:
  // Measures `sequences` sequences, each with `rows` rows that end at position `end`.
  void measure(const Model& model, const Pool& pool, int sequences, int rows, int end,
               ListCut cut = ListCut::kFastest, bool shared_order = false) {
    const int blocks = (end - 1) / kBlockTokens + 1, all = sequences * rows;
    const int layers = all > 512 || sequences * blocks > 4000 ? 2 : 16;
    std::vector<RowSpan> spans;
    std::vector<LatentPage> pages;
    std::vector<std::int32_t> selected;
    for (int l = 0; l < layers; ++l) {
      for (int s = 0; s < sequences; ++s) {
        spans.push_back({.row_begin = s * rows, .rows = rows, .first_position = end - rows,
                         .latent_list = static_cast<std::int32_t>(pages.size())});
        for (int b = 0; b < blocks; ++b) {
          pages.push_back(LatentPage(static_cast<std::int32_t>(random_() % static_cast<unsigned>(pool.pages))));
        }
        for (int r = 0; r < rows && model.selected > 0; ++r) {
          const int stride = (end - rows) / model.selected;
          for (int i = 0; i < model.selected; ++i) {
            selected.push_back(i * stride + static_cast<int>(random_() % static_cast<unsigned>(stride)));
          }
        }
      }
    }
    const OnDevice<RowSpan> device_spans(spans);
    const OnDevice<LatentPage> device_pages(pages);
    selected.push_back(0);
    const OnDevice<std::int32_t> device_selected(selected);
    const OnDevice<std::int32_t> counts(std::vector<std::int32_t>(static_cast<std::size_t>(all), model.selected));
    const auto heads = static_cast<std::size_t>(all * model.heads);
    const std::vector<float> some = random_values(random_, static_cast<std::size_t>(model.heads * model.dims));
    const OnDevice<float> q(heads * static_cast<std::size_t>(model.dims)), out(heads * static_cast<std::size_t>(model.value_dims));
    for (int r = 0; r < all; ++r) {
      gpu().upload({reinterpret_cast<std::byte*>(q.data() + static_cast<std::size_t>(r) * some.size()),
                    reinterpret_cast<const std::byte*>(some.data()), some.size() * sizeof(float)});
    }
    gpu().wait();
    const double us = microseconds(layers, [&](int layer) {
      const auto first = static_cast<std::size_t>(layer * sequences), count = static_cast<std::size_t>(sequences);
      StepTables step;
      step.spans = {device_spans.data() + first, count};
      step.host_spans = std::span(spans).subspan(first, count);
      step.latent_pages = device_pages.data();
      AttendArgs args;
      args.step = &step, args.spans = step.spans, args.rows = all;
      args.heads = model.heads, args.key_heads = model.key_heads;
      args.dims = model.dims, args.value_dims = model.value_dims, args.value_offset = model.value_offset;
      args.q = q.data(), args.out = out.data(), args.scale = 0.05F, args.bf16 = true;
      args.latent = pool.views.data();
      if (model.selected > 0) {
        args.selected = device_selected.data() + static_cast<std::ptrdiff_t>(layer) * all * model.selected;
        args.selected_count = counts.data(), args.max_selected = model.selected;
      }
      shared_order ? cuda_ops::attend_keys(exec_, args) : cuda_sm90::attend_list(exec_, args, cut);
    }, true);
    double keys = 0.0;  // keys of all rows
    for (int r = 0; r < rows; ++r) keys += model.selected > 0 ? model.selected : end - rows + r + 1;
    const double read = model.selected > 0 ? keys : end;  // rows of a span share keys
    const double bytes = sequences * read * model.key_heads * pool.format.row_bytes() +
                         static_cast<double>(heads) * (model.dims + model.value_dims) * sizeof(float);
    const double flops = sequences * keys * model.heads * 2.0 * (model.dims + model.value_dims);
    constexpr const char* kCuts[] = {"", " by segments", " by tiles", " by wide tiles"};
    std::printf("%-10s %3d x %4d rows to %6d%s: %9.1f us, %5.0f GB/s (%3.0f %% of copy), %6.1f TFLOP/s\n", model.name,
                sequences, rows, end, shared_order ? " shared order" : kCuts[static_cast<int>(cut)], us, bytes / us * 1e-3,
                100 * bytes / (us * 1e-6) / copy_bytes_a_second(), flops / us * 1e-6);
    std::fflush(stdout);
  }
};

TEST_F(GpuSpeedListAttention, Latents) {
  std::printf("copy %.0f GB/s\n", copy_bytes_a_second() * 1e-9);
  {
    const Pool pool(kV3, 36000);
    for (const int end : {4096, 65536}) {
      for (const int b : {1, 8, 64}) measure(kV3, pool, b, 1, end);
    }
    for (const ListCut cut : {ListCut::kSegments, ListCut::kTiles}) {
      for (const int b : {8, 16, 32, 64}) measure(kV3, pool, b, 1, 4096, cut);
    }
    measure(kV3, pool, 1, 2048, 2048);
    measure(kV3, pool, 1, 2048, 16384);
    for (const int b : {1, 64}) measure(kV2Lite, pool, b, 1, 4096);
    measure(kV2Lite, pool, 1, 2048, 2048);
    measure(kV3, pool, 1, 1, 4096, ListCut::kFastest, true);
    measure(kV3, pool, 1, 256, 256, ListCut::kFastest, true);
  }
  const Pool pool(kV32, 36000);
  for (const int b : {1, 8, 64}) measure(kV32, pool, b, 1, 32768);
  measure(kV32, pool, 1, 2048, 32768);
  for (const int b : {1, 64}) measure(kV3Fp8, pool, b, 1, 4096);
  measure(kV32, pool, 1, 1, 32768, ListCut::kFastest, true);
}

TEST_F(GpuSpeedListAttention, KeyHeads) {
  const Pool pool(kLlama, 9000);
  for (const int end : {8192, 65536}) {
    for (const int b : {1, 8, 64}) {
      if (b * end <= 64 * 8192) measure(kLlama, pool, b, 1, end);
    }
  }
  for (const ListCut cut : {ListCut::kSegments, ListCut::kTiles}) {
    for (const int b : {8, 16, 64}) measure(kLlama, pool, b, 1, 8192, cut);
  }
  for (const ListCut cut : {ListCut::kTiles, ListCut::kWideTiles}) measure(kLlama, pool, 1, 2048, 2048, cut);
  measure(kLlama, pool, 1, 2048, 16384);
  measure(kLlama, pool, 1, 1, 8192, ListCut::kFastest, true);
  measure(kLlama, pool, 1, 512, 512, ListCut::kFastest, true);
}

}  // namespace
}  // namespace sluice::gpu_list_attention_speed_test
