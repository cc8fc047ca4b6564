// Used by kernels/cpu, kernels/cpu/avx2, kernels/cpu/avx512_bf16, kernels/cpu/avx512vbmi and kernels/cpu/linear.
#include "kernels/cpu/linear/linear_layout.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/formats/block_codes.h"
#include "base/formats/number_formats.h"
#include "kernels/cpu/avx2/linear_strips.h"

namespace sluice {

namespace {

// FP8 without scales gets e8m0 scales of 1, which change no bit, so that it needs no kernels of its own.
ScaleFormat packed_scales_of(const WeightView& view) {
  return view.format == WeightFormat::kFp8 && view.scale_format == ScaleFormat::kNone ? ScaleFormat::kE8m0
                                                                                      : view.scale_format;
}

// The source of a line's inputs: 16 rows from `row` on, row_bytes apart, of which `outputs` exist, and inputs [k, k +
// count).
struct LineSource {
  const std::byte* row;
  std::size_t row_bytes;
  int outputs, k, count;
  Fp8Order order;
  std::size_t line_bytes;
};

// Copies `bytes` bytes. If there are kWhole, the usual case, the compiler can copy them without a call.
template <std::size_t kWhole>
void copy_bytes(const std::byte* from, std::size_t bytes, void* to) {
  if (bytes == kWhole) {
    std::memcpy(to, from, kWhole);
  } else {
    for (std::size_t i = 0; i < bytes; ++i) static_cast<std::byte*>(to)[i] = from[i];
  }
}

// Calls put(row, o) for the line's outputs.
template <class Put>
void for_outputs(const LineSource& from, const Put& put) {
  const std::byte* row = from.row;
  for (int o = 0; o < from.outputs; ++o, row += from.row_bytes) put(row, o);
}

void pack_fp8(const LineSource& from, std::byte* line) {
  for_outputs(from, [&](const std::byte* row, int o) {
    std::byte codes[4]{};
    copy_bytes<4>(row + from.k, static_cast<std::size_t>(from.count), codes);
    if (from.order == Fp8Order::kPairs) {
      std::byte* to = line + o / 4 * 16 + o % 4 * 2;
      std::memcpy(to, codes, 2);
      std::memcpy(to + 8, codes + 2, 2);
    } else if (from.order == Fp8Order::kNibbles) {
      for (std::byte& code : codes) code = static_cast<std::byte>(fp8_nibbles(std::to_integer<unsigned>(code)));
      std::byte* to = line + o / 4 % 2 * 16 + o / 8 * 8 + o % 4 * 2;
      std::memcpy(to, codes, 2);
      std::memcpy(to + 32, codes + 2, 2);
    } else {
      for (int i = 0; i < 4; ++i) line[16 * i + o] = codes[i];
    }
  });
}

// Returns nibbles 0, 2, 4, 6 of `codes`, next to each other.
std::uint32_t even_nibbles(std::uint32_t codes) {
  codes &= 0x0F0F0F0FU;
  codes = (codes | (codes >> 4)) & 0x00FF00FFU;
  return (codes | (codes >> 8)) & 0xFFFFU;
}

void pack_mxfp4(const LineSource& from, std::byte* line) {
  for_outputs(from, [&](const std::byte* row, int o) {
    std::uint32_t codes = 0;
    copy_bytes<4>(row + from.k / 2, static_cast<std::size_t>((from.count + 1) / 2), &codes);
    if (from.count % 2 != 0) codes &= (1U << (4 * from.count)) - 1;
    codes = even_nibbles(codes) | (even_nibbles(codes >> 4) << 16);
    std::memcpy(line + 4 * o, &codes, 4);
  });
}

void pack_bf16(const LineSource& from, std::byte* line) {
  for_outputs(from, [&](const std::byte* row, int o) {
    std::uint32_t pair = 0;
    copy_bytes<4>(row + 2 * from.k, 2 * static_cast<std::size_t>(from.count), &pair);
    std::memcpy(line + 4 * o, &pair, 4);
  });
}

void pack_f32(const LineSource& from, std::byte* line) {
  std::byte* even = line + from.line_bytes / 2;
  for_outputs(from, [&](const std::byte* row, int o) {
    float pair[2]{};
    copy_bytes<8>(row + 4 * from.k, 4 * static_cast<std::size_t>(from.count), pair);
    std::memcpy(even + 4 * o, &pair[0], 4);
    std::memcpy(line + 4 * o, &pair[1], 4);
  });
}

// The arrangement of a format in lines.
struct LineFormat {
  WeightFormat format;
  int step_inputs;
  std::size_t line_bytes;
  // Functions that pack a line, and lines that come in whole strips. Null: the format is codes, which are packed a tile
  // at a time.
  void (*pack)(const LineSource& from, std::byte* line) = nullptr;
  cpu::avx2::PackStrips* pack_strips = nullptr;
  void (*pack_tile)(const WeightView& view, const LinearLayout& layout, int tile, std::byte* to) = nullptr;
};
constexpr LineFormat kLineFormats[] = {
    {WeightFormat::kF32, 2, 128, pack_f32, cpu::avx2::pack_f32_strips},
    {WeightFormat::kBf16, 2, 64, pack_bf16, cpu::avx2::pack_bf16_strips},
    {WeightFormat::kFp8, 4, 64, pack_fp8, cpu::avx2::pack_fp8_strips},
    {WeightFormat::kMxfp4, 8, 64, pack_mxfp4, cpu::avx2::pack_mxfp4_strips},
    // A code has 4 bits; codes of 8 bits have twice the bytes.
    {.format = WeightFormat::kCodes, .step_inputs = 8, .line_bytes = 64, .pack_tile = pack_codes_tile},
    {.format = WeightFormat::kTransposedCodes,
     .step_inputs = 8,
     .line_bytes = 64,
     .pack_tile = pack_transposed_codes_tile},
};

const LineFormat& line_format(const WeightView& view) {
  const LineFormat& found = kLineFormats[static_cast<std::size_t>(view.format)];
  SLUICE_DCHECK(found.format == view.format, "the table is in the order of the enum");
  return found;
}

// Returns the bytes of one output's scale in one block.
std::size_t packed_scale_bytes_of(const WeightView& view) {
  WeightTrait trait = weight_trait(view);
  if (!weight_format(view.format).has_codes()) trait.scales = packed_scales_of(view);
  if (view.format != WeightFormat::kTransposedCodes) return static_cast<std::size_t>(trait.scale_bytes());
  trait.scales = ScaleFormat::kF32;  // a group of outputs has a scale for each input
  return static_cast<std::size_t>(trait.scale_bytes() * view.block_inputs() / kGroupOutputs);
}

// Division by powers of two, the usual case, is a shift: every product makes a layout, so it should be fast.
int ceil_div(int a, int b) {
  const bool power_of_two = (b & (b - 1)) == 0;
  return power_of_two ? (a + b - 1) >> std::countr_zero(static_cast<unsigned>(b)) : (a + b - 1) / b;
}

}  // namespace

LinearLayout::LinearLayout(const WeightView& view, int groups)
    : out(view.out), in(view.in), block(view.block_inputs()), tile_groups(groups) {
  blocks = ceil_div(in, block);
  const LineFormat& lines = line_format(view);
  const bool wide = weight_trait(view).coding == Coding::kInt8;
  step_inputs = lines.step_inputs;
  line_bytes = has_half_lines(view) ? lines.line_bytes / 2 : lines.line_bytes * (wide ? 2 : 1);
  block_bytes = static_cast<std::size_t>(ceil_div(block, step_inputs)) * line_bytes;
  const int last = in - (blocks - 1) * block;
  last_block_bytes = static_cast<std::size_t>(ceil_div(last, step_inputs)) * line_bytes;
  group_scale_bytes = kGroupOutputs * packed_scale_bytes_of(view);
  group_bytes = static_cast<std::size_t>(blocks - 1) * block_bytes + last_block_bytes +
                static_cast<std::size_t>(blocks) * group_scale_bytes;
}

std::size_t LinearLayout::bytes() const {
  return static_cast<std::size_t>(ceil_div(out, kGroupOutputs)) * group_bytes;
}

namespace {

struct Packer {
  const WeightView& view;
  const LineFormat& format;
  const LinearLayout& layout;
  Fp8Order order;

  // Packs the line of outputs [n, n + 16) and inputs [k, k + count).
  void line(int n, int k, int count, std::byte* to) const {
    const std::size_t row_bytes = view.row_bytes();
    const LineSource from{view.data + static_cast<std::size_t>(n) * row_bytes,
                          row_bytes,
                          std::min(kGroupOutputs, layout.out - n),
                          k,
                          count,
                          order,
                          layout.line_bytes};
    if (from.outputs < kGroupOutputs) std::memset(to, 0, layout.line_bytes);
    format.pack(from, to);
  }

  void tile(int tile, std::byte* to) const {
    const int groups = layout.groups_in(tile);
    const auto group_bytes = layout.block_bytes + layout.group_scale_bytes;
    // Packs whole cache lines of a group's rows before those of the next group.
    const int row_block_bytes = std::max(1, static_cast<int>(view.row_bytes()) / layout.blocks);
    const int at_once = std::max(1, 128 / row_block_bytes);
    for (int first = 0; first < layout.blocks; first += at_once) {
      const int last = std::min(layout.blocks, first + at_once);
      for (int group = 0; group < groups; ++group) {
        const int n = (tile * layout.tile_groups + group) * kGroupOutputs;
        for (int block = first; block < last; ++block) {
          lines(n, block,
                to + static_cast<std::size_t>(block * groups) * group_bytes +
                    static_cast<std::size_t>(group) * layout.line_bytes,
                static_cast<std::size_t>(groups) * layout.line_bytes);
        }
      }
    }
    for (int block = 0; block < layout.blocks; ++block) {
      const std::size_t bytes = block + 1 < layout.blocks ? layout.block_bytes : layout.last_block_bytes;
      scales(tile, block,
             to + static_cast<std::size_t>(block * groups) * group_bytes + static_cast<std::size_t>(groups) * bytes);
    }
  }

  // Packs the lines of outputs [n, n + 16) and a block, `stride` bytes apart.
  void lines(int n, int block, std::byte* to, std::size_t stride) const {
    const int begin = block * layout.block, end = std::min(layout.in, begin + layout.block);
    int done = 0;
    if (n + kGroupOutputs <= layout.out) {
      const std::size_t row_bytes = view.row_bytes();
      // A line's inputs begin at a whole byte: a line has four or eight bytes of each row.
      const auto at = static_cast<std::size_t>(begin / layout.step_inputs) * (layout.line_bytes / kGroupOutputs);
      if (begin % layout.step_inputs == 0) {
        done = format.pack_strips(order, view.data + static_cast<std::size_t>(n) * row_bytes + at, row_bytes,
                                  (end - begin) / layout.step_inputs, to, stride);
      }
    }
    to += static_cast<std::size_t>(done) * stride;
    for (int k = begin + done * layout.step_inputs; k < end; k += layout.step_inputs, to += stride) {
      line(n, k, std::min(layout.step_inputs, end - k), to);
    }
  }

  void scales(int tile, int block, std::byte* to) const {
    if (layout.group_scale_bytes == 0) return;
    const int first = tile * layout.tile_groups * kGroupOutputs;
    const int outputs = layout.groups_in(tile) * kGroupOutputs;
    if (view.scale_format == ScaleFormat::kNone) {
      std::memset(to, 127, static_cast<std::size_t>(outputs));
      return;
    }
    const std::size_t size = layout.group_scale_bytes / kGroupOutputs;
    for (int o = 0; o < outputs; ++o, to += size) {
      const int n = std::min(first + o, layout.out - 1);  // padded outputs get the scale of the last output
      const auto index = static_cast<std::size_t>((view.first_row + n) / view.block_out) *
                             static_cast<std::size_t>(view.scale_columns) +
                         static_cast<std::size_t>(block);
      std::memcpy(to, view.scales + index * size, size);
    }
  }
};

}  // namespace

void pack_linear(const WeightView& view, int tile_groups, Fp8Order order, int begin, int end, std::byte* packed) {
  const LinearLayout layout(view, tile_groups);
  const LineFormat& format = line_format(view);
  const Packer packer{view, format, layout, order};
  const int tile_outputs = tile_groups * kGroupOutputs;
  for (int tile = begin / tile_outputs; tile * tile_outputs < end; ++tile) {
    std::byte* to = packed + layout.tile_data(tile);
    format.pack_tile != nullptr ? format.pack_tile(view, layout, tile, to) : packer.tile(tile, to);
  }
}

}  // namespace sluice
