// Used by kernels/cuda/sm90.
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/sm90/sm90_ops.h"
#include "kernels/cuda/strip_check.h"

namespace sluice {
namespace {

// The compared row has enough entries that groups of scores bound its choice.
constexpr int kHeads = 64, kDims = 128, kPageRows = 32, kEntries = 9000, kRows = 40, kRow = 21, kTopK = 512;
constexpr int kPages = (kEntries + kRows) / kPageRows + 1, kFirst = kEntries - kRow - 1;

class IndexCheck {
 public:
  explicit IndexCheck(CudaDevice& gpu) : gpu_(gpu), exec_{.device = &gpu} {}

  Status run() {
    std::vector<float> queries(std::size_t{kRows} * kHeads * kDims), weights(std::size_t{kRows} * kHeads);
    for (float& value : queries) value = small_value();
    for (float& value : weights) value = small_value();
    std::vector<std::int32_t> pages(kPages);
    for (int i = 0; i < kPages; ++i) pages[static_cast<std::size_t>(i)] = kPages - 1 - i;
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory q, put(queries));
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory w, put(weights));
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory lists, put(pages));
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory selected, gpu_.map(std::size_t{kRows} * kTopK * 4, "the check of sm90"));
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory count, gpu_.map(std::size_t{kRows} * 4, "the check of sm90"));
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory scores, gpu_.map(std::size_t{kRows} * kEntries * 8, "the check of sm90"));
    for (const RowCodec codec : {RowCodec::kIndexFp4, RowCodec::kIndexFp8}) {
      PlaneView keys{.rows_per_page = kPageRows, .format = make_row_format(codec, kDims, 0)};
      keys.page_bytes = std::size_t{kPageRows} * static_cast<std::size_t>(keys.format.row_bytes());
      SLUICE_ASSIGN_OR_RETURN(DeviceMemory plane, put(random_keys(keys)));
      keys.base = plane.data();
      StepTables step;
      step.latent_pages = reinterpret_cast<const LatentPage*>(lists.data());
      IndexSelectArgs args;
      args.rows = kRows, args.heads = kHeads, args.dims = kDims;
      args.q = reinterpret_cast<float*>(q.data()), args.weights = reinterpret_cast<float*>(w.data());
      args.keys = &keys, args.tokens_per_row = 1, args.top_k = kTopK;
      args.selected = reinterpret_cast<std::int32_t*>(selected.data());
      args.count = reinterpret_cast<std::int32_t*>(count.data());
      args.scores = reinterpret_cast<float*>(scores.data()), args.scores_stride = kEntries + kRows;
      SLUICE_ASSIGN_OR_RETURN(const auto together, row(args, step, {.rows = kRows, .first_position = kFirst}, kRow));
      args.rows = 1;
      args.q += std::ptrdiff_t{kRow} * kHeads * kDims, args.weights += std::ptrdiff_t{kRow} * kHeads;
      SLUICE_ASSIGN_OR_RETURN(const auto alone, row(args, step, {.rows = 1, .first_position = kEntries - 1}, 0));
      if (together == alone && alone.back() != 0) continue;
      return internal_error(std::string("--profile sm90: on ") + gpu_.gpu() + " the indexer's choice from " +
                            name(codec) + " keys for one row differs from that for the same row among " +
                            std::to_string(kRows) +
                            ", where both must have the same bits; choose another profile, and report it with the "
                            "version of the driver");
    }
    return {};
  }

 private:
  float small_value() { return static_cast<float>(static_cast<int>(random_() % 512) - 256) * 0x1p-7F; }
  template <class T>
  Result<DeviceMemory> put(const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory memory, gpu_.map(bytes, "the check of sm90"));
    gpu_.upload({memory.data(), reinterpret_cast<const std::byte*>(values.data()), bytes});
    gpu_.wait();
    return Result<DeviceMemory>(std::move(memory));
  }
  // Makes codes of any size that are numbers, and scales near 1.
  std::vector<std::byte> random_keys(PlaneView plane) {
    std::vector<std::byte> bytes(plane.page_bytes * kPages);
    plane.base = bytes.data();
    for (int i = 0; i < kPages * kPageRows; ++i) {
      const RowRef at = plane.row(i / kPageRows, i % kPageRows);
      const bool fp4 = plane.format.codec == RowCodec::kIndexFp4;
      for (int b = 0; b < plane.format.data_bytes; ++b) at.data[b] = static_cast<std::byte>(random_() & (fp4 ? 0xFF : 0xBF));
      const auto exponent = 125 + random_() % 3;
      for (int s = 0; s < 4; ++s) {
        at.scales[s] = static_cast<std::byte>(fp4 ? 125 + random_() % 3 : exponent << 23 >> (8 * s));
      }
    }
    return bytes;
  }
  // Returns the entries selected for row `of` of a span, then the bits of its scores.
  Result<std::vector<std::uint32_t>> row(IndexSelectArgs args, StepTables step, const RowSpan& span, int of) {
    const std::vector<RowSpan> spans{span};
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory there, put(spans));
    step.host_spans = spans;
    step.spans = {reinterpret_cast<const RowSpan*>(there.data()), 1};
    args.step = &step;
    cuda_sm90::select_entries(exec_, args);
    std::vector<std::uint32_t> bits(kTopK + kEntries);
    gpu_.download({reinterpret_cast<std::byte*>(bits.data()),
                   reinterpret_cast<const std::byte*>(args.selected + std::ptrdiff_t{of} * kTopK), kTopK * 4});
    gpu_.download({reinterpret_cast<std::byte*>(bits.data() + kTopK),
                   reinterpret_cast<const std::byte*>(args.scores + of * args.scores_stride), kEntries * 4});
    gpu_.wait();
    SLUICE_RETURN_IF_ERROR(gpu_.status());
    return bits;
  }

  CudaDevice& gpu_;
  Exec exec_;
  std::mt19937 random_{192};
};

}  // namespace

Status check_index_kernels(CudaDevice& gpu) {
  return IndexCheck(gpu).run();
}

}  // namespace sluice
