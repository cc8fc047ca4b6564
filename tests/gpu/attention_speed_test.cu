// The time of attention of the profile sm90 with V4-Flash's geometry: graphs of 32 layers, each with keys of its own
// that are not in the second cache. The layers share queries and outputs, which a step has just written.
#include <cstdlib>
#include <vector>

#include "kernels/ops/attention.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/sm90/attend_rows.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "sm90_testing.h"

namespace sluice::gpu_attention_speed_test {
namespace {

using namespace sm90_testing;

constexpr int kHeads = 64, kDims = 512, kLayers = 32;

// Fills rows with random codes up to 1.9 and scales near 1.
__global__ void fill_rows(PlaneView plane, std::int64_t rows) {
  for (std::int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
    const RowRef row =
        plane.row(static_cast<std::int32_t>(i / plane.rows_per_page), static_cast<int>(i % plane.rows_per_page));
    const auto random = [&](unsigned of) {
      unsigned x = static_cast<unsigned>(i) * 2654435761U + of * 40503U + 12345U;
      x ^= x >> 16, x *= 0x7FEB352DU, x ^= x >> 15, x *= 0x846CA68BU, x ^= x >> 16;
      return x;
    };
    const int word = static_cast<int>(threadIdx.x);
    auto* data = reinterpret_cast<unsigned*>(row.data);
    if (word < 112) data[word] = random(static_cast<unsigned>(word)) & 0xBFBFBFBFU;
    if (word < 32) data[112 + word] = (random(200U + static_cast<unsigned>(word)) & 0x81FF81FFU) | 0x3E003E00U;
    if (word < 8) row.scales[word] = static_cast<std::byte>(125 + random(300U + static_cast<unsigned>(word)) % 3);
  }
}

struct Plane {
  Plane(int rows_per_page, int pages)
      : format(make_row_format(RowCodec::kV4Fp8, kDims, 64)),
        pages(pages),
        page_bytes((static_cast<std::size_t>(rows_per_page * format.row_bytes()) + 15) / 16 * 16),
        bytes(page_bytes * static_cast<std::size_t>(pages)),
        view{.base = bytes.data(), .page_bytes = page_bytes, .rows_per_page = rows_per_page, .format = format} {
    fill_rows<<<4096, 128, 0, static_cast<cudaStream_t>(gpu().stream())>>>(view, std::int64_t{rows_per_page} * pages);
  }
  RowFormat format;
  int pages;
  std::size_t page_bytes;
  OnDevice<std::byte> bytes;
  PlaneView view;
};

struct Kind {
  const char* name;
  int ratio, selected, position;
  int keys() const {
    const int entries = ratio == 0 ? 0 : (position + 1) / ratio;
    return std::min(128, position + 1) + (selected > 0 ? std::min(selected, entries) : entries);
  }
};

// `layers` layers of a step of some rows.
class Layers {
 public:
  Layers(std::mt19937& random, const Kind& kind, const Plane& windows, const Plane* latents, int sequences, int rows,
         int layers)
      : kind_(kind), windows_(windows), latents_(latents) {
    const int blocks = kind.position / kBlockTokens + 1;
    std::vector<WindowPage> window_pages;
    std::vector<LatentPage> latent_pages;
    std::vector<std::int32_t> selected;
    for (int l = 0; l < layers; ++l) {
      for (int s = 0; s < sequences; ++s) {
        spans_.push_back({.row_begin = s * rows,
                          .rows = rows,
                          .first_position = kind.position - rows + 1,
                          .latent_list = static_cast<std::int32_t>(latent_pages.size()),
                          .window_list = static_cast<std::int32_t>(window_pages.size()),
                          .first_window_block = std::max(0, kind.position - rows + 1 - 127) / kBlockTokens});
        for (int b = spans_.back().first_window_block; b < blocks; ++b)
          window_pages.push_back(
              WindowPage(static_cast<std::int32_t>(random() % static_cast<unsigned>(windows.pages))));
        if (latents == nullptr) continue;
        const auto start = static_cast<int>(random() % static_cast<unsigned>(latents->pages));
        for (int b = 0; b < blocks; ++b) {  // HCA's two rows in order
          const int page = kind.ratio == 128 ? start + b : static_cast<int>(random() % (1U << 30));
          latent_pages.push_back(LatentPage(page % latents->pages));
        }
        for (int r = 0; kind.selected > 0 && r < rows; ++r) {
          std::vector<std::int32_t> all;
          const int visible = (kind.position + 1 - rows) / kind.ratio, stride = visible / kind.selected;
          for (int i = 0; i < kind.selected; ++i)
            all.push_back(i * stride + static_cast<int>(random() % static_cast<unsigned>(stride)));
          selected.insert(selected.end(), all.begin(), all.end());
        }
      }
    }
    rows_ = sequences * rows, sequences_ = sequences;
    device_spans_ = std::make_unique<OnDevice<RowSpan>>(spans_);
    window_pages_ = std::make_unique<OnDevice<WindowPage>>(window_pages);
    if (latents != nullptr) latent_pages_ = std::make_unique<OnDevice<LatentPage>>(latent_pages);
    if (kind.selected > 0) {
      selected_ = std::make_unique<OnDevice<std::int32_t>>(selected);
      counts_ = std::make_unique<OnDevice<std::int32_t>>(
          std::vector<std::int32_t>(static_cast<std::size_t>(rows_), kind.selected));
    }
  }

  // Returns how many blocks a row had. pairs: the output as bf16 alone, as a step has it; null: as values.
  int run(const Exec& exec, int layer, float* q, const float* sink, float* out, float* pairs, bool sm90,
          int cluster) const {
    StepTables step;
    const auto first = static_cast<std::size_t>(layer * sequences_), count = static_cast<std::size_t>(sequences_);
    step.spans = {device_spans_->data() + first, count};
    step.host_spans = std::span(spans_).subspan(first, count);
    step.window_pages = window_pages_->data();
    AttendArgs args;
    if (latents_ != nullptr) {
      step.latent_pages = latent_pages_->data();
      args.latent = &latents_->view, args.tokens_per_row = kind_.ratio;
    }
    args.step = &step, args.spans = step.spans, args.rows = rows_;
    args.heads = kHeads, args.dims = args.value_dims = kDims;
    args.q = q, args.sink = sink, args.out = out;
    args.scale = 0.0442F;
    args.window = &windows_.view, args.window_tokens = 128;
    if (kind_.selected > 0) {
      args.selected = selected_->data() + static_cast<std::ptrdiff_t>(layer) * rows_ * kind_.selected;
      args.selected_count = counts_->data(), args.max_selected = kind_.selected;
    }
    args.bf16 = true;
    args.forms_only = pairs != nullptr;
    args.out_rows.forms[static_cast<std::size_t>(InputForm::kBf16)] = pairs;
    if (sm90) return cuda_sm90::attend_official(exec, args, cluster, true);
    cuda_ops::attend_keys(exec, args);
    return 0;
  }

 private:
  Kind kind_;
  const Plane& windows_;
  const Plane* latents_;
  int rows_ = 0, sequences_ = 0;
  std::vector<RowSpan> spans_;
  std::unique_ptr<OnDevice<RowSpan>> device_spans_;
  std::unique_ptr<OnDevice<WindowPage>> window_pages_;
  std::unique_ptr<OnDevice<LatentPage>> latent_pages_;
  std::unique_ptr<OnDevice<std::int32_t>> selected_, counts_;
};

class GpuSpeedAttention : public Sm90SpeedTest {
 protected:
  void measure(const Kind& kind, const Plane& windows, const Plane* latents, int sequences, int rows, bool sm90 = true,
               int cluster = 0) {
    int blocks = 0;
    const int all = sequences * rows, layers = all > 512 ? 2 : kLayers;
    const Layers work(random_, kind, windows, latents, sequences, rows, layers);
    const double us = microseconds(
        layers,
        [&](int i) {
          blocks = work.run(exec_, i, sm90 ? formed_->data() : q_->data(), sink_->data(), out_->data(),
                            as_pairs_ ? pairs_->data() : nullptr, sm90, cluster);
        },
        true);
    const double keys = static_cast<double>(all) * kind.keys();
    const double bytes = keys * 584 + (as_pairs_ ? 4.0 : 6.0) * all * kHeads * kDims,
                 flops = keys * kHeads * 2 * 2 * kDims;
    std::printf("%-12s %s by %d b %4d x %4d rows %9.1f us, %6.0f GB/s (%3.0f %% of copy), %6.1f TFLOP/s\n", kind.name,
                sm90 ? "sm90" : "default", blocks, sequences, rows, us, bytes / us * 1e-3,
                100 * bytes / (us * 1e-6) / copy_bytes_a_second(), flops / us * 1e-6);
    std::fflush(stdout);
  }
  void SetUp() override {
    Sm90SpeedTest::SetUp();
    if (IsSkipped()) return;
    constexpr std::size_t kMost = std::size_t{2048} * kHeads * kDims;
    std::vector<float> q = random_values(random_, kMost / 16);
    q_ = std::make_unique<OnDevice<float>>(kMost);
    for (std::size_t i = 0; i < 16; ++i) {
      gpu().upload({reinterpret_cast<std::byte*>(q_->data() + i * q.size()),
                    reinterpret_cast<const std::byte*>(q.data()), q.size() * 4});
    }
    out_ = std::make_unique<OnDevice<float>>(kMost), pairs_ = std::make_unique<OnDevice<float>>(kMost / 2);
    sink_ = std::make_unique<OnDevice<float>>(random_values(random_, kHeads));
    formed_ = std::make_unique<OnDevice<float>>(kMost);
    table_ = std::make_unique<OnDevice<float>>(random_values(random_, 64));
    positions_ = std::make_unique<OnDevice<Position>>(std::vector<Position>(2048));
    form(2048);
    gpu().wait();
  }
  // Makes queries in the form of attention.
  void form(int rows) {
    cuda_sm90::form_queries(
        exec_,
        {q_->data(), reinterpret_cast<std::byte*>(formed_->data()), kDims * std::ptrdiff_t{sizeof(float)}, rows, kHeads,
         1e-6F, table_->data(), positions_->data()},
        kDims);
  }
  std::unique_ptr<OnDevice<float>> q_, sink_, out_, pairs_, formed_, table_;
  std::unique_ptr<OnDevice<Position>> positions_;
  bool as_pairs_ = false;
};

// Outputs are bf16 alone.
TEST_F(GpuSpeedAttention, Step) {
  as_pairs_ = true;
  for (const int rows : {1, 64, 256, 2048}) {
    const double us = microseconds(rows > 512 ? 2 : kLayers, [&](int) { form(rows); }, true);
    std::printf("queries normed, rotated, as f16: %4d rows %9.1f us\n", rows, us);
  }
  const Plane windows(kBlockTokens, 8192), by_four(kBlockTokens / 4, 32768), by_128(kBlockTokens / 128, 1 << 20);
  const Kind csa{"CSA 128+512", 4, 512, 65535}, hca{"HCA 128+512", 128, 0, 65535},
      short_hca{"HCA 128+128", 128, 0, 16383}, window{"window", 0, 0, 65535};
  for (const auto& [sequences, rows] : {std::pair{1, 1}, {8, 1}, {32, 1}, {64, 1}, {128, 1}, {256, 1}, {1, 2048}}) {
    measure(csa, windows, &by_four, sequences, rows);
    measure(hca, windows, &by_128, sequences, rows);
    measure(short_hca, windows, &by_128, sequences, rows);
    measure(window, windows, nullptr, sequences, rows);
  }
}

TEST_F(GpuSpeedAttention, Decode) {
  std::printf("copy %.0f GB/s\n", copy_bytes_a_second() * 1e-9);
  const Plane windows(kBlockTokens, 8192), by_four(kBlockTokens / 4, 32768), by_128(kBlockTokens / 128, 1 << 20);
  const Kind csa{"CSA 128+512", 4, 512, 65535}, hca{"HCA 128+512", 128, 0, 65535},
      short_hca{"HCA 128+128", 128, 0, 16383}, window{"window", 0, 0, 65535}, million{"HCA 1M", 128, 0, (1 << 20) - 1};
  for (const int b : {1, 8, 32, 64, 128, 256}) {
    measure(csa, windows, &by_four, b, 1);
    measure(hca, windows, &by_128, b, 1);
    measure(short_hca, windows, &by_128, b, 1);
    measure(window, windows, nullptr, b, 1);
  }
  for (const int b : {1, 16}) measure(million, windows, &by_128, b, 1);
  measure(csa, windows, &by_four, 1, 2048);
  measure(hca, windows, &by_128, 1, 2048);
  for (const int b : {1, 128}) measure(csa, windows, &by_four, b, 1, false);
}

// One block a row, and clusters of each size: where fastest_cluster() should change over.
TEST_F(GpuSpeedAttention, Clusters) {
  const Plane windows(kBlockTokens, 8192), by_four(kBlockTokens / 4, 32768), by_128(kBlockTokens / 128, 1 << 20);
  const Kind csa{"CSA 128+512", 4, 512, 65535}, short_hca{"HCA 128+128", 128, 0, 16383}, window{"window", 0, 0, 65535};
  for (const int b : {1, 8, 16, 30, 64}) {
    for (const int cluster : {1, 2, 4, 8}) {
      measure(csa, windows, &by_four, b, 1, true, cluster);
      measure(short_hca, windows, &by_128, b, 1, true, cluster);
      measure(window, windows, nullptr, b, 1, true, cluster);
    }
  }
}

}  // namespace
}  // namespace sluice::gpu_attention_speed_test
