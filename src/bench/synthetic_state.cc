// Used by rounds.h and speed_case.cc.
#include <algorithm>
#include <vector>

#include "bench/speed_case.h"
#include "kernels/device/isa.h"

namespace sluice {
namespace {

// Numbers that look normally distributed: sums of eight uniform bytes, from one multiplication a number.
class RandomRows {
 public:
  explicit RandomRows(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}

  void fill(float* x, int count) {
    for (int i = 0; i < count; ++i) x[i] = next();
  }

 private:
  float next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    std::uint64_t bits = state_ ^ state_ >> 29;
    int sum = 0;
    for (int byte = 0; byte < 8; ++byte) sum += static_cast<int>(bits >> 8 * byte & 0xFF);
    constexpr float kMean = 8 * 127.5F, kDeviation = 209.03F;  // sqrt(8 * (256^2 - 1) / 12)
    return (static_cast<float>(sum) - kMean) / kDeviation;
  }
  std::uint64_t state_;
};

// The rows of a plane that the tokens of a span within one block write, coded.
struct CodedRows {
  CacheMemory::Rows at{};
  std::vector<std::byte> bytes;
};

// Random rows for a sequence that will be `tokens` long; for a window only the rows that are in it then.
CodedRows code_rows(const Runner& runner, PlaneId id, const BatchSpan& span, int tokens) {
  const CacheLayout& layout = runner.cache().pools().layout();
  const PlaneSpec& plane = layout[id];
  const int block = span.first_position / kBlockTokens;
  const int begin = span.first_position % kBlockTokens / plane.tokens_per_row;
  const int end = (span.first_position % kBlockTokens + span.rows) / plane.tokens_per_row;
  if (plane.kind == PlaneKind::kOpen || end <= begin) return {};
  const int in_reach = layout.window_pages_to_resume() * kBlockTokens + kBlockTokens;
  if (plane.kind == PlaneKind::kWindow && span.first_position + span.rows + in_reach < tokens) return {};
  const std::int32_t page = plane.kind == PlaneKind::kLatent
                                ? span.latent_pages[static_cast<std::size_t>(block)].value
                                : span.window_pages[static_cast<std::size_t>(block - span.first_window_block)].value;
  const int count = end - begin;
  std::vector<float> x(static_cast<std::size_t>(count) * static_cast<std::size_t>(plane.format.dims));
  RandomRows(static_cast<std::uint64_t>(block) * layout.planes.size() + static_cast<std::size_t>(id.value))
      .fill(x.data(), static_cast<int>(x.size()));
  CodedRows coded{
      {id, page, begin, count},
      std::vector<std::byte>(static_cast<std::size_t>(count) * static_cast<std::size_t>(plane.format.row_bytes()))};
  const PlaneView on_host{coded.bytes.data(), coded.bytes.size(), count, plane.format};
  std::vector<RowRef> refs;
  for (int r = 0; r < count; ++r) refs.push_back(on_host.row(0, r));
  encode_on_host(*runner.exec().kernels, plane.format, x.data(), refs);
  return coded;
}

}  // namespace

Status fill_with_random_state(Runner& runner, StateSlot sequence, int tokens) {
  std::vector<CodedRows> coded(runner.cache().pools().layout().planes.size());
  for (int begin = 0; begin < tokens; begin += kBlockTokens) {
    const int rows = std::min(kBlockTokens, tokens - begin);
    SLUICE_RETURN_IF_ERROR(runner.fill(sequence, rows, [&](const BatchSpan& span, CacheMemory& memory) {
      runner.exec().pool->run(static_cast<int>(coded.size()), [&](int plane, int) {
        coded[static_cast<std::size_t>(plane)] = code_rows(runner, PlaneId(plane), span, tokens);
      });
      for (const CodedRows& plane : coded) {
        if (!plane.bytes.empty()) memory.write_rows(plane.at, plane.bytes);
      }
    }));
  }
  return {};
}

}  // namespace sluice
