#include "measure/synthetic_state.h"

#include <algorithm>
#include <vector>

#include "kernels/kernel_table.h"

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

// The rows of stream `index` that tokens [first, first + rows) of one block write.
void write_rows(const Runner& runner, std::size_t index, const BatchSpan& span) {
  const StreamSpec& stream = runner.pools().layout().streams[index];
  const StreamView& view = runner.pools().view().streams[index];
  const int block = span.first_position / kBlockTokens;
  const int begin = span.first_position % kBlockTokens / stream.tokens_per_row;
  const int end = (span.first_position % kBlockTokens + span.rows) / stream.tokens_per_row;
  if (end <= begin) return;
  const std::int32_t page = stream.kind == StreamKind::kLatent
                                ? span.latent_pages[static_cast<std::size_t>(block)].value
                                : span.window_pages[static_cast<std::size_t>(block - span.first_window_block)].value;
  const int count = end - begin;
  std::vector<float> x(static_cast<std::size_t>(count) * static_cast<std::size_t>(stream.format.dims));
  RandomRows(static_cast<std::uint64_t>(block) * runner.pools().layout().streams.size() + index)
      .fill(x.data(), static_cast<int>(x.size()));
  std::vector<RowRef> refs;
  for (int r = begin; r < end; ++r) refs.push_back(view.row(page, r));
  runner.exec().kernels->encode_rows(stream.format, x.data(), stream.format.dims, refs.data(), count);
}

// Compressor windows that no token has reached yet.
void write_open_state(const Runner& runner, const BatchSpan& span) {
  const CacheLayout& layout = runner.pools().layout();
  for (std::size_t i = 0; i < layout.streams.size(); ++i) {
    const std::vector<std::byte>& initial = layout.streams[i].initial;
    std::copy(initial.begin(), initial.end(),
              runner.pools().view().state(span.state_out) + layout.open_offset(StreamId(static_cast<std::int32_t>(i))));
  }
}

}  // namespace

Status fill_with_random_state(Runner& runner, StateSlot sequence, int tokens) {
  const CacheLayout& layout = runner.pools().layout();
  for (int begin = 0; begin < tokens; begin += kBlockTokens) {
    const int rows = std::min(kBlockTokens, tokens - begin);
    SLUICE_RETURN_IF_ERROR(runner.fill(sequence, rows, [&](const BatchSpan& span) {
      runner.exec().pool->run(static_cast<int>(layout.streams.size()), [&](int stream, int) {
        const auto index = static_cast<std::size_t>(stream);
        if (layout.streams[index].kind != StreamKind::kOpen) write_rows(runner, index, span);
      });
      write_open_state(runner, span);
    }));
  }
  return {};
}

}  // namespace sluice
