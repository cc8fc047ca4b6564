#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/formats/number_formats.h"
#include "base/threads/thread_pool.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/cuda/strip_layout.h"

namespace sluice {
namespace {

constexpr int kWarpLanes = 32;

StripKind strip_kind_of(const WeightTrait& trait) {
  if (trait.coding == Coding::kBf16) return StripKind::kBf16;
  if (trait.coding == Coding::kE2m1) return StripKind::kMxfp4;
  return trait.scales == ScaleFormat::kF32 ? StripKind::kFp8Scaled : StripKind::kFp8;
}

// Packs one strip. Rows and inputs that the weight does not have are zeros.
class StripPacker {
 public:
  StripPacker(const WeightView& view, const StripLinear& to, int strip, std::byte* packed)
      : view_(view),
        to_(to),
        first_(strip * kStripOutputs),
        cells_(packed + static_cast<std::size_t>(strip) * to.strip_bytes),
        scales_(packed + to.scales_at + static_cast<std::size_t>(strip) * to.strip_scale_bytes) {}

  void run() {
    const bool fp4 = to_.kind == StripKind::kMxfp4;
    if (fp4 && to_.cells % kFp4PieceCells != 0) {
      std::memset(cells_ + fp4_cell_at(to_.cells / kFp4PieceCells * kFp4PieceCells), 0, kFp4PieceBytes);
    }
    for (int c = 0; c < to_.cells; ++c) {
      pack_cell(
          c, cells_ + (fp4 ? static_cast<std::size_t>(fp4_cell_at(c)) : static_cast<std::size_t>(c) * to_.cell_bytes));
    }
    if (to_.strip_scale_bytes > 0) std::memset(scales_, 0, to_.strip_scale_bytes);
    const int scales = fp4 ? 2 * to_.cells : (to_.cells - 1) / to_.scale_cells + 1;
    for (int row = 0; row < kStripOutputs && to_.kind != StripKind::kBf16; ++row) {
      for (int b = 0; b < scales; ++b) pack_scale(row, b);
    }
  }

 private:
  const std::byte* row_at(int row) const {
    return view_.data + static_cast<std::size_t>(first_ + row) * view_.row_bytes();
  }
  // Returns the stored bits of a value.
  std::uint32_t code(int row, int k) const {
    if (first_ + row >= view_.out || k >= view_.in) return 0;
    const std::byte* at = row_at(row);
    if (to_.kind == StripKind::kBf16) {
      std::uint16_t bits;
      std::memcpy(&bits, at + std::ptrdiff_t{k} * 2, sizeof bits);
      return bits;
    }
    if (to_.kind == StripKind::kMxfp4) return std::to_integer<std::uint32_t>(at[k / 2]) >> (k % 2 * 4) & 15U;
    return std::to_integer<std::uint32_t>(at[k]);
  }

  // Packs a cell of which all outputs and inputs exist: its codes, two inputs at a time.
  void pack_whole_cell(int cell, std::byte* to) const {
    const std::size_t row_bytes = view_.row_bytes();
    const std::byte* first = row_at(0) + static_cast<std::size_t>(cell) * row_piece_bytes();
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const std::byte* rows[2];  // they point at the lane's first input
      for (int r = 0; r < 2; ++r) {
        rows[r] = first + static_cast<std::size_t>(fragment_row(lane, r)) * row_bytes +
                  static_cast<std::size_t>(lane % 4) * row_piece_bytes() / 32;
      }
      for (int step = 0; step < kCellSteps; ++step) pack_pairs(rows, lane, step, to);
    }
  }
  std::size_t row_piece_bytes() const { return to_.cell_bytes / kStripOutputs; }  // the bytes of a row in a cell

  void pack_pairs(const std::byte* const (&rows)[2], int lane, int step, std::byte* to) const {
    const auto s = static_cast<std::size_t>(step), l = static_cast<std::size_t>(lane);
    const std::size_t at = s * row_piece_bytes() / 4, apart = row_piece_bytes() / 8;  // 16 inputs a step, 8 apart
    if (to_.kind == StripKind::kMxfp4) {
      static const E2m1Words words;
      return put(to, l * 4 + s, words.of(rows[0][at], rows[1][at], rows[0][at + apart], rows[1][at + apart]));
    }
    for (std::size_t half = 0; half < 2; ++half) {
      const std::byte *even = rows[0] + at + half * apart, *odd = rows[1] + at + half * apart;
      if (to_.kind == StripKind::kBf16) {
        put(to, (s * kWarpLanes + l) * 4 + 2 * half, read<std::uint32_t>(even));
        put(to, (s * kWarpLanes + l) * 4 + 2 * half + 1, read<std::uint32_t>(odd));
      } else {
        const auto spread = [](std::uint32_t pair) { return (pair & 0xFFU) | (pair & 0xFF00U) << 8; };
        put(to, ((s / 2) * kWarpLanes + l) * 4 + s % 2 * 2 + half,
            spread(read<std::uint16_t>(even)) << 8 | spread(read<std::uint16_t>(odd)));
      }
    }
  }

  // strip_e2m1_word() for four bytes, two codes each: the sum of the words that they give.
  class E2m1Words {
   public:
    E2m1Words() {
      for (std::size_t r = 0; r < 4; ++r) {
        for (std::size_t byte = 0; byte < 256; ++byte) {
          std::uint8_t codes[4][2]{};
          codes[r][0] = byte & 15U, codes[r][1] = static_cast<std::uint8_t>(byte >> 4);
          of_[r][byte] = strip_e2m1_word(codes);
        }
      }
    }
    std::uint32_t of(std::byte a, std::byte b, std::byte c, std::byte d) const {
      const auto index = [](std::byte byte) { return std::to_integer<std::size_t>(byte); };
      return of_[0][index(a)] | of_[1][index(b)] | of_[2][index(c)] | of_[3][index(d)];
    }

   private:
    std::uint32_t of_[4][256];
  };

  template <class T>
  static T read(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static void put(std::byte* to, std::size_t word, std::uint32_t value) {
    std::memcpy(to + word * sizeof value, &value, sizeof value);
  }

  void pack_cell(int cell, std::byte* to) const {
    if (first_ + kStripOutputs <= view_.out && (cell + 1) * kCellInputs <= view_.in) return pack_whole_cell(cell, to);
    for (int step = 0; step < kCellSteps; ++step) {
      for (int lane = 0; lane < kWarpLanes; ++lane) {
        std::uint8_t codes[4][2];
        std::uint32_t words[4];
        for (int r = 0; r < 4; ++r) {
          const int row = fragment_row(lane, r), k = cell * kCellInputs + fragment_input(lane, step, r);
          const std::uint32_t low = code(row, k), high = code(row, k + 1);
          words[r] = low | high << 16;
          codes[r][0] = static_cast<std::uint8_t>(low), codes[r][1] = static_cast<std::uint8_t>(high);
        }
        const auto s = static_cast<std::size_t>(step), l = static_cast<std::size_t>(lane);
        if (to_.kind == StripKind::kBf16) {
          for (std::size_t r = 0; r < 4; ++r) put(to, (s * kWarpLanes + l) * 4 + r, words[r]);
        } else if (to_.kind == StripKind::kMxfp4) {
          put(to, l * 4 + s, strip_e2m1_word(codes));
        } else {
          for (std::size_t pair = 0; pair < 2; ++pair) {
            put(to, ((s / 2) * kWarpLanes + l) * 4 + s % 2 * 2 + pair, words[2 * pair] << 8 | words[2 * pair + 1]);
          }
        }
      }
    }
  }

  // Packs scale `b` of a row, of scale_inputs inputs each.
  void pack_scale(int row, int b) {
    const auto block = static_cast<std::size_t>(b), g = static_cast<std::size_t>(row % 8);
    const bool present = first_ + row < view_.out && b * view_.block_inputs() < view_.in;
    const bool nan = present && to_.kind != StripKind::kMxfp4 && has_nan(row, b);
    if (to_.kind == StripKind::kFp8Scaled) {
      float scale = present ? view_.scale(first_ + row, b * view_.block_inputs()) : 0.0F;
      if (nan) scale = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(scales_ + (block * kStripOutputs + static_cast<std::size_t>(row)) * sizeof scale, &scale,
                  sizeof scale);
      return;
    }
    const bool fp4 = to_.kind == StripKind::kMxfp4;
    constexpr int kOne = 127, kInfinite = 255;
    int exponent = kOne + (fp4 ? 126 : 120);
    exponent = std::min(exponent, kInfinite - 1);  // for a block that does not exist: any finite one
    if (present) exponent = nan ? kInfinite : std::min(e8m0(row, b) + (fp4 ? 126 : 120), kInfinite);
    const auto half = static_cast<std::size_t>(row / 8);
    std::byte& to = fp4 ? cells_[static_cast<std::size_t>(fp4_scales_at(b / 2)) + g * 4 + half * 2 + block % 2]
                        : scales_[block * kStripOutputs + g * 2 + half];
    to = static_cast<std::byte>(exponent);
  }
  int e8m0(int row, int b) const {
    if (view_.scale_format == ScaleFormat::kNone) return 127;
    const auto at = static_cast<std::size_t>((view_.first_row + first_ + row) / view_.block_out) *
                        static_cast<std::size_t>(view_.scale_columns) +
                    static_cast<std::size_t>(b);
    return std::to_integer<int>(view_.scales[at]);
  }
  bool has_nan(int row, int b) const {
    const int begin = b * view_.block_inputs(), end = std::min(view_.in, begin + view_.block_inputs());
    return std::any_of(row_at(row) + begin, row_at(row) + end,
                       [](std::byte value) { return (value & std::byte{0x7F}) == std::byte{0x7F}; });
  }

  const WeightView& view_;
  const StripLinear& to_;
  int first_;
  std::byte *cells_, *scales_;
};

std::size_t strip_bytes(const WeightView& view) {
  return StripLinear::takes(view) ? StripLinear(view).bytes() : cuda_linear_packing().packed_bytes(view);
}

void pack_strips(const WeightView& view, int begin, int end, std::byte* packed) {
  if (!StripLinear::takes(view)) return cuda_linear_packing().pack(view, begin, end, packed);
  const KeepDenormals exact;
  const StripLinear to(view);
  for (int strip = begin / kStripOutputs; strip * kStripOutputs < end; ++strip) {
    StripPacker(view, to, strip, packed).run();
  }
}

}  // namespace

bool StripLinear::takes(const WeightView& view) {
  const WeightTrait trait = weight_trait(view);
  switch (trait.coding) {
    case Coding::kBf16:
      return true;
    case Coding::kE2m1:
      return trait.scales == ScaleFormat::kE8m0 && trait.group == 32;
    case Coding::kE4m3:
      return trait.group % kCellInputs == 0;
    default:
      return false;
  }
}

StripLinear::StripLinear(const WeightView& view) : kind(strip_kind_of(weight_trait(view))), out(view.out), in(view.in) {
  SLUICE_CHECK(takes(view), "a format that has strips");
  strips = (out + kStripOutputs - 1) / kStripOutputs;
  cells = (in + kCellInputs - 1) / kCellInputs;
  const int most =
      kind == StripKind::kMxfp4 || view.order_out() >= kWideOutputs ? 1 : std::clamp((cells + 7) / 8, 1, kMostSegments);
  segment_cells = std::max(1, (cells + most - 1) / most);
  const bool fp8 = kind == StripKind::kFp8 || kind == StripKind::kFp8Scaled;
  if (fp8) scale_cells = view.block_inputs() / kCellInputs;
  if (kind == StripKind::kFp8Scaled) segment_cells = scale_cells;
  segments = (cells + segment_cells - 1) / segment_cells;
  constexpr std::size_t kCellBytes[] = {2048, 1024, 1024, kFp4CellBytes};
  cell_bytes = kCellBytes[static_cast<std::size_t>(kind)];
  strip_bytes = static_cast<std::size_t>(cells) * cell_bytes;
  if (kind == StripKind::kMxfp4) {
    strip_bytes = static_cast<std::size_t>((cells + kFp4PieceCells - 1) / kFp4PieceCells * kFp4PieceBytes);
  }
  scales_at = static_cast<std::size_t>(strips) * strip_bytes;
  const auto blocks = static_cast<std::size_t>((cells + scale_cells - 1) / scale_cells);
  const std::size_t bytes[] = {0, blocks * 16, blocks * 64, 0};
  strip_scale_bytes = bytes[static_cast<std::size_t>(kind)];
}

const LinearPacking& sm90_linear_packing() {
  static constexpr LinearPacking kStrips{strip_bytes, pack_strips, kStripOutputs};
  static const LinearPacking packing = [] {
    LinearPacking both = cuda_linear_packing();
    both.bf16 = &kStrips;
    return both;
  }();
  return packing;
}

}  // namespace sluice
