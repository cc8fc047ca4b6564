#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/sm90/attend_rows.h"
#include "kernels/cuda/sm90/ops.h"
#include "kernels/cuda/strip_check.h"

namespace sluice {
namespace {

constexpr int kHeads = 64, kDims = 512, kRope = 64, kWindow = 128, kLatents = 1100, kPageRows = 64;
constexpr int kRows = 5, kRow = 3;  // the row that is compared
constexpr int kFirst = 4 * kLatents - kRows;
constexpr int kWindowPages = 2, kLatentPages = (kLatents + kPageRows - 1) / kPageRows;

class AttendCheck {
 public:
  explicit AttendCheck(CudaDevice& gpu) : gpu_(gpu), exec_{.device = &gpu} {}

  Status run() {
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory window, plane(kBlockTokens, kWindowPages, &window_));
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory latent, plane(kPageRows, kLatentPages, &latent_));
    std::vector<float> queries(std::size_t{kRows} * kHeads * kDims);
    for (float& value : queries) value = static_cast<float>(static_cast<int>(random_() % 512) - 256) * 0x1p-7F;
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory q, put(queries));
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory out, gpu_.map(queries.size() * sizeof(float), "the check of sm90"));
    std::vector<std::int32_t> pages(kLatentPages);
    for (int i = 0; i < kLatentPages; ++i) pages[static_cast<std::size_t>(i)] = i;
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory lists, put(pages));
    const std::vector<RowSpan> together{span(0, kRows)}, alone{span(kRow, 1)};
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory together_there, put(together));
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory alone_there, put(alone));
    AttendArgs args;
    args.heads = kHeads, args.dims = kDims, args.value_dims = kDims;
    args.rows = kRows;
    args.q = reinterpret_cast<float*>(q.data());
    args.out = reinterpret_cast<float*>(out.data());
    args.scale = 0.0442F;
    args.window = &window_, args.window_tokens = kWindow;
    args.bf16 = true;
    StepTables step;
    step.window_pages = reinterpret_cast<const WindowPage*>(lists.data());
    step.latent_pages = reinterpret_cast<const LatentPage*>(lists.data());
    for (const bool with_latents : {false, true}) {  // one segment, two
      args.latent = with_latents ? &latent_ : nullptr, args.tokens_per_row = 4;
      SLUICE_ASSIGN_OR_RETURN(const auto expected, row(args, step, together, together_there, 0));
      for (const int cluster : {1, 2, 4, 8}) {  // blocks that the row alone has
        SLUICE_ASSIGN_OR_RETURN(const auto found, row(args, step, alone, alone_there, cluster));
        if (found == expected && std::ranges::any_of(found, [](std::uint32_t bits) { return bits != 0; })) continue;
        return internal_error(std::string("--profile sm90: on ") + gpu_.gpu() + " attention of one row by " +
                              std::to_string(cluster) + " blocks differs from that of the same row among " +
                              std::to_string(kRows) +
                              ", where both must have the same bits; choose another profile, and report it with the "
                              "version of the driver");
      }
    }
    return {};
  }

 private:
  template <class T>
  Result<DeviceMemory> put(const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory memory, gpu_.map(bytes, "the check of sm90"));
    gpu_.upload({memory.data(), reinterpret_cast<const std::byte*>(values.data()), bytes});
    gpu_.wait();
    return Result<DeviceMemory>(std::move(memory));
  }
  static RowSpan span(int first, int rows) {
    const int position = kFirst + first, block = std::max(0, position - kWindow + 1) / kBlockTokens;
    return {.row_begin = first, .rows = rows, .first_position = position, .first_window_block = block};
  }
  // Of random rows: codes up to 1.9, scales near 1.
  Result<DeviceMemory> plane(int rows_per_page, int pages, PlaneView* view) {
    *view = {.rows_per_page = rows_per_page, .format = make_row_format(RowCodec::kV4Fp8, kDims, kRope)};
    view->page_bytes = static_cast<std::size_t>(rows_per_page) * static_cast<std::size_t>(view->format.row_bytes());
    std::vector<std::byte> bytes(view->page_bytes * static_cast<std::size_t>(pages));
    view->base = bytes.data();
    for (int i = 0; i < pages * rows_per_page; ++i) {
      const RowRef at = view->row(i / rows_per_page, i % rows_per_page);
      for (int word = 0; word < view->format.data_bytes / 4; ++word) {
        const auto bits = static_cast<std::uint32_t>(random_());
        const std::uint32_t value = word < (kDims - kRope) / 4 ? bits & 0xBFBFBFBFU : (bits & 0x81FF81FFU) | 0x3E003E00U;
        std::memcpy(at.data + 4 * word, &value, 4);
      }
      for (int s = 0; s < view->format.scale_bytes; ++s) at.scales[s] = static_cast<std::byte>(125 + random_() % 3);
    }
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory memory, put(bytes));
    view->base = memory.data();
    return Result<DeviceMemory>(std::move(memory));
  }
  // Row kRow among those of a span.
  Result<std::vector<std::uint32_t>> row(AttendArgs args, StepTables step, const std::vector<RowSpan>& spans,
                                         const DeviceMemory& there, int cluster) {
    step.host_spans = spans;
    step.spans = {reinterpret_cast<const RowSpan*>(there.data()), spans.size()};
    args.step = &step, args.spans = step.spans;
    cluster == 0 ? cuda_sm90::attend_keys(exec_, args) : void(cuda_sm90::attend_official(exec_, args, cluster));
    std::vector<std::uint32_t> bits(std::size_t{kHeads} * kDims);
    gpu_.download({reinterpret_cast<std::byte*>(bits.data()),
                   reinterpret_cast<const std::byte*>(args.out + std::ptrdiff_t{kRow} * kHeads * kDims),
                   bits.size() * sizeof(float)});
    gpu_.wait();
    SLUICE_RETURN_IF_ERROR(gpu_.status());
    return bits;
  }

  CudaDevice& gpu_;
  Exec exec_;
  std::mt19937 random_{191};
  PlaneView window_, latent_;
};

}  // namespace

Status check_attention_kernels(CudaDevice& gpu) {
  return AttendCheck(gpu).run();
}

}  // namespace sluice
