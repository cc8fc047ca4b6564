// Used by attend_heads.cu, attend_latent.cu, attend_list.cu and sm90_attend.cu.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/sm90/attend_list_parts.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "kernels/cuda/strip_check.h"

namespace sluice {
namespace {

constexpr int kHeads = 64, kDims = 512, kRope = 64, kWindow = 128, kLatents = 1100, kPageRows = 64;
constexpr int kRows = 5, kRow = 3;  // the row that is compared
constexpr int kFirst = 4 * kLatents - kRows;
constexpr int kWindowPages = 2, kLatentPages = (kLatents + kPageRows - 1) / kPageRows;

class CheckOnDevice {
 protected:
  explicit CheckOnDevice(CudaDevice& gpu) : gpu_(gpu), exec_{.device = &gpu} {}

  template <class T>
  Result<DeviceMemory> put(const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory memory, gpu_.map(bytes, "the check of sm90"));
    gpu_.upload({memory.data(), reinterpret_cast<const std::byte*>(values.data()), bytes});
    gpu_.wait();
    return Result<DeviceMemory>(std::move(memory));
  }
  Result<DeviceMemory> put_queries(std::size_t count) {
    std::vector<float> queries(count);
    for (float& value : queries) value = static_cast<float>(static_cast<int>(random_() % 512) - 256) * 0x1p-7F;
    return put(queries);
  }
  // Runs attend(args) and returns row kRow of its output, which has `values` values.
  template <class Attend>
  Result<std::vector<std::uint32_t>> row_of(AttendArgs args, StepTables step, const std::vector<RowSpan>& spans,
                                            const DeviceMemory& there, std::size_t values, const Attend& attend) {
    step.host_spans = spans;
    step.spans = {reinterpret_cast<const RowSpan*>(there.data()), spans.size()};
    args.step = &step, args.spans = step.spans;
    attend(args);
    std::vector<std::uint32_t> bits(values);
    gpu_.download({reinterpret_cast<std::byte*>(bits.data()),
                   reinterpret_cast<const std::byte*>(args.out + kRow * values), values * sizeof(float)});
    gpu_.wait();
    SLUICE_RETURN_IF_ERROR(gpu_.status());
    return bits;
  }
  Status differs(const std::string& what) const {
    return internal_error(std::string("--profile sm90: on ") + gpu_.gpu() + " attention of one row " + what +
                          " differs from that of the same row among " + std::to_string(kRows) +
                          ", where both must have the same bits; choose another profile, and report it with the version "
                          "of the driver");
  }

  CudaDevice& gpu_;
  Exec exec_;
  std::mt19937 random_{191};
};
bool any(const std::vector<std::uint32_t>& bits) {
  return std::ranges::any_of(bits, [](std::uint32_t value) { return value != 0; });
}

class AttendCheck : CheckOnDevice {
 public:
  explicit AttendCheck(CudaDevice& gpu) : CheckOnDevice(gpu) {}

  Status run() {
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory window, plane(kBlockTokens, kWindowPages, &window_));
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory latent, plane(kPageRows, kLatentPages, &latent_));
    constexpr std::size_t kValues = std::size_t{kRows} * kHeads * kDims;
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory q, put_queries(kValues));
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory out, gpu_.map(kValues * sizeof(float), "the check of sm90"));
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
    for (const bool with_latents : {false, true}) {  // without latents the row has one segment, with them two
      args.latent = with_latents ? &latent_ : nullptr, args.tokens_per_row = 4;
      SLUICE_ASSIGN_OR_RETURN(const auto expected, row(args, step, together, together_there, 0));
      for (const int cluster : {1, 2, 4, 8}) {  // the blocks of a cluster when the row is alone
        SLUICE_ASSIGN_OR_RETURN(const auto found, row(args, step, alone, alone_there, cluster));
        if (found != expected || !any(found)) return differs("by " + std::to_string(cluster) + " blocks");
      }
    }
    return {};
  }

 private:
  static RowSpan span(int first, int rows) {
    const int position = kFirst + first, block = std::max(0, position - kWindow + 1) / kBlockTokens;
    return {.row_begin = first, .rows = rows, .first_position = position, .first_window_block = block};
  }
  // Makes a plane of random rows: codes up to 1.9, scales near 1.
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
  // Computes row kRow among those of a span.
  Result<std::vector<std::uint32_t>> row(AttendArgs args, StepTables step, const std::vector<RowSpan>& spans,
                                         const DeviceMemory& there, int cluster) {
    return row_of(args, step, spans, there, std::size_t{kHeads} * kDims, [&](const AttendArgs& all) {
      cluster == 0 ? cuda_sm90::attend_keys(exec_, all) : void(cuda_sm90::attend_official(exec_, all, cluster));
    });
  }

  PlaneView window_, latent_;
};

// Latents of both codecs, and keys and values of key heads.
struct ListKind {
  const char* name;
  int heads, key_heads, dims, value_dims, value_offset;
  RowCodec codec;
};
constexpr ListKind kListKinds[] = {{"latents in bf16", 20, 1, 576, 512, 0, RowCodec::kBf16},
                                   {"latents in FP8", 20, 1, 576, 512, 0, RowCodec::kMlaFp8},
                                   {"keys of 128 dims", 6, 2, 128, 128, 128, RowCodec::kBf16},
                                   {"keys of 64 dims", 6, 2, 64, 64, 64, RowCodec::kBf16}};

class ListCheck : CheckOnDevice {
 public:
  explicit ListCheck(CudaDevice& gpu) : CheckOnDevice(gpu) {}

  Status run(const ListKind& kind) {
    using cuda_sm90::ListCut;
    PlaneView plane{.rows_per_page = kBlockTokens,
                    .format = make_row_format(kind.codec, kind.value_offset > 0 ? 2 * kind.dims : kind.dims, kRope)};
    plane.page_bytes = static_cast<std::size_t>(kBlockTokens * plane.format.row_bytes());
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory rows, random_pages(&plane));
    const std::vector<PlaneView> planes(static_cast<std::size_t>(kind.key_heads), plane);
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory q, put_queries(static_cast<std::size_t>(kRows * kind.heads * kind.dims)));
    const auto values = static_cast<std::size_t>(kind.heads * kind.value_dims);
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory out, gpu_.map(kRows * values * sizeof(float), "the check of sm90"));
    std::vector<std::int32_t> pages;
    for (int i = 0; i < kListPages; ++i) pages.push_back(i);
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory list, put(pages));
    const std::vector<RowSpan> together{{.rows = kRows, .first_position = kListFirst}},
        alone{{.row_begin = kRow, .rows = 1, .first_position = kListFirst + kRow}};
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory together_there, put(together));
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory alone_there, put(alone));
    AttendArgs args;
    args.rows = kRows, args.heads = kind.heads, args.key_heads = kind.key_heads;
    args.dims = kind.dims, args.value_dims = kind.value_dims, args.value_offset = kind.value_offset;
    args.q = reinterpret_cast<float*>(q.data()), args.out = reinterpret_cast<float*>(out.data());
    args.scale = 0.0442F, args.bf16 = true;
    args.latent = planes.data();
    StepTables step;
    step.latent_pages = reinterpret_cast<const LatentPage*>(list.data());
    const auto row = [&](const std::vector<RowSpan>& spans, const DeviceMemory& there, ListCut cut) {
      return row_of(args, step, spans, there, values,
                    [&](const AttendArgs& all) { cuda_sm90::attend_list(exec_, all, cut); });
    };
    SLUICE_ASSIGN_OR_RETURN(const auto expected, row(together, together_there, ListCut::kTiles));
    for (const ListCut cut : {ListCut::kSegments, ListCut::kTiles, ListCut::kWideTiles}) {
      if (cut == ListCut::kWideTiles && kind.dims > 128) continue;
      SLUICE_ASSIGN_OR_RETURN(const auto found, row(alone, alone_there, cut));
      if (found != expected || !any(found)) return differs(std::string("over ") + kind.name);
    }
    return {};
  }

 private:
  static constexpr int kListPages = 6, kListFirst = 600;  // two segments

  // Makes pages of random bf16 values up to 2, which are small numbers also as pairs of codes; scales are near 1.
  Result<DeviceMemory> random_pages(PlaneView* plane) {
    std::vector<std::byte> bytes(plane->page_bytes * kListPages);
    plane->base = bytes.data();
    for (int i = 0; i < kListPages * kBlockTokens; ++i) {
      const RowRef at = plane->row(i / kBlockTokens, i % kBlockTokens);
      for (int word = 0; word < plane->format.data_bytes / 4; ++word) {
        const std::uint32_t value = (static_cast<std::uint32_t>(random_()) & 0x81FF81FFU) | 0x3E003E00U;
        std::memcpy(at.data + 4 * word, &value, 4);
      }
      for (int s = 0; s < plane->format.scale_bytes; s += 4) {
        const auto scale = static_cast<std::uint32_t>(125 + random_() % 3) << 23;
        std::memcpy(at.scales + s, &scale, 4);
      }
    }
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory memory, put(bytes));
    plane->base = memory.data();
    return Result<DeviceMemory>(std::move(memory));
  }
};

}  // namespace

Status check_attention_kernels(CudaDevice& gpu) {
  SLUICE_RETURN_IF_ERROR(AttendCheck(gpu).run());
  for (const ListKind& kind : kListKinds) SLUICE_RETURN_IF_ERROR(ListCheck(gpu).run(kind));
  return {};
}

}  // namespace sluice
