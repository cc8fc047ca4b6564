#include "measure/synthetic_state.h"

#include <algorithm>
#include <vector>

#include "kernels/isa.h"

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

// The rows of a stream that the tokens of a span within one block write, coded.
struct CodedRows {
  CacheMemory::Rows at{};
  std::vector<std::byte> bytes;
};

CodedRows code_rows(const Runner& runner, StreamId id, const BatchSpan& span) {
  const CacheLayout& layout = runner.pools().layout();
  const StreamSpec& stream = layout[id];
  const int block = span.first_position / kBlockTokens;
  const int begin = span.first_position % kBlockTokens / stream.tokens_per_row;
  const int end = (span.first_position % kBlockTokens + span.rows) / stream.tokens_per_row;
  if (stream.kind == StreamKind::kOpen || end <= begin) return {};
  const std::int32_t page = stream.kind == StreamKind::kLatent
                                ? span.latent_pages[static_cast<std::size_t>(block)].value
                                : span.window_pages[static_cast<std::size_t>(block - span.first_window_block)].value;
  const int count = end - begin;
  std::vector<float> x(static_cast<std::size_t>(count) * static_cast<std::size_t>(stream.format.dims));
  RandomRows(static_cast<std::uint64_t>(block) * layout.streams.size() + static_cast<std::size_t>(id.value))
      .fill(x.data(), static_cast<int>(x.size()));
  CodedRows coded{
      {id, page, begin, count},
      std::vector<std::byte>(static_cast<std::size_t>(count) * static_cast<std::size_t>(stream.format.row_bytes()))};
  const StreamView on_host{coded.bytes.data(), coded.bytes.size(), count, stream.format};
  std::vector<RowRef> refs;
  for (int r = 0; r < count; ++r) refs.push_back(on_host.row(0, r));
  encode_on_host(*runner.exec().kernels, stream.format, x.data(), refs);
  return coded;
}

}  // namespace

Status fill_with_random_state(Runner& runner, StateSlot sequence, int tokens) {
  std::vector<CodedRows> coded(runner.pools().layout().streams.size());
  for (int begin = 0; begin < tokens; begin += kBlockTokens) {
    const int rows = std::min(kBlockTokens, tokens - begin);
    SLUICE_RETURN_IF_ERROR(runner.fill(sequence, rows, [&](const BatchSpan& span, CacheMemory& memory) {
      runner.exec().pool->run(static_cast<int>(coded.size()), [&](int stream, int) {
        coded[static_cast<std::size_t>(stream)] = code_rows(runner, StreamId(stream), span);
      });
      for (const CodedRows& stream : coded) {
        if (!stream.bytes.empty()) memory.write_rows(stream.at, stream.bytes);
      }
    }));
  }
  return {};
}

}  // namespace sluice
