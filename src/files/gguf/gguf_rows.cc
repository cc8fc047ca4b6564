// Used by files/checkpoint.cc and gguf_tensors.cc.
#include <algorithm>
#include <vector>

#include "files/gguf/gguf_tensors.h"

namespace sluice {
namespace {

class InterleavedRows final : public TensorRows {
 public:
  InterleavedRows(const TensorView& source, std::int64_t heads)
      : source_(source), half_(source.shape.front() / heads / 2) {}

  const std::byte* stored(std::int64_t row) const override {
    if (source_.shape.size() != 2) return nullptr;
    return source_.data + static_cast<std::size_t>(stored_row(row)) *
                              (source_.bytes / static_cast<std::size_t>(source_.shape.front()));
  }
  void read(std::int64_t first, std::int64_t count, float* out) const override {
    if (source_.shape.size() == 1) {
      std::vector<float> stored(static_cast<std::size_t>(source_.row_length()));
      read_rows(source_, 0, 1, stored.data());
      for (std::size_t i = 0; i < stored.size(); ++i) {
        out[i] = stored[static_cast<std::size_t>(stored_row(static_cast<std::int64_t>(i)))];
      }
      return;
    }
    for (std::int64_t row = first; row < first + count; ++row, out += source_.row_length()) {
      read_rows(source_, stored_row(row), 1, out);
    }
  }

 private:
  std::int64_t stored_row(std::int64_t row) const {
    const std::int64_t head = row / (2 * half_), in_head = row % (2 * half_);
    return head * 2 * half_ + in_head % half_ * 2 + in_head / half_;
  }

  const TensorView& source_;
  std::int64_t half_;  // half of a head's rows
};

class SplitKvRows final : public TensorRows {
 public:
  SplitKvRows(const TensorView& keys, const TensorView& values)
      : keys_(keys), values_(values), rank_(keys.shape[1]), nope_(keys.shape[2]), v_(values.shape[1]) {}

  // Head by head, so that a head's keys are transposed once.
  void read(std::int64_t first, std::int64_t count, float* out) const override {
    for (std::int64_t row = first; row < first + count;) {
      const std::int64_t head = row / (nope_ + v_), in_head = row % (nope_ + v_);
      const std::int64_t left = first + count - row;
      std::int64_t done = 0;
      if (in_head < nope_) {
        done = std::min(left, nope_ - in_head);
        read_keys(head, in_head, done, out);
      } else {
        done = std::min(left, nope_ + v_ - in_head);
        read_rows(values_, head * v_ + in_head - nope_, done, out);
      }
      row += done;
      out += done * rank_;
    }
  }

 private:
  void read_keys(std::int64_t head, std::int64_t first, std::int64_t count, float* out) const {
    std::vector<float> stored(static_cast<std::size_t>(rank_ * nope_));
    read_rows(keys_, head * rank_, rank_, stored.data());
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t r = 0; r < rank_; ++r) {
        out[i * rank_ + r] = stored[static_cast<std::size_t>(r * nope_ + first + i)];
      }
    }
  }

  const TensorView& keys_;
  const TensorView& values_;
  std::int64_t rank_, nope_, v_;
};

}  // namespace

std::unique_ptr<TensorRows> make_interleaved_rows(const TensorView& source, std::int64_t heads) {
  return std::make_unique<InterleavedRows>(source, heads);
}

std::unique_ptr<TensorRows> make_split_kv_rows(const TensorView& keys, const TensorView& values) {
  return std::make_unique<SplitKvRows>(keys, values);
}

}  // namespace sluice
