#include "kernels/cpu/linear_pack_codes.h"

#include <cstdint>
#include <cstring>

#include "base/block_codes.h"
#include "base/number_formats.h"
#include "kernels/linear_inputs.h"

namespace sluice {
namespace {

// One output's place in the block of a tile that is being packed.
struct Place {
  std::byte* line;     // its dword in the first line
  std::size_t stride;  // to the next line
  std::byte* scale;    // its scale; its minimum is 16 further on
};

void put_scales(const BlockCodes& form, const CodedPart& part, std::byte* to) {
  const auto put = [&to](auto scale, auto min) {
    std::memcpy(to, &scale, sizeof scale);
    std::memcpy(to + kGroupOutputs * sizeof scale, &min, sizeof min);
  };
  const auto put_scale = [&to](auto scale) { std::memcpy(to, &scale, sizeof scale); };
  if (form.f16) {
    form.min ? put(to_f16(part.scale), to_f16(part.min)) : put_scale(to_f16(part.scale));
  } else {
    form.min ? put(part.scale, part.min) : put_scale(part.scale);
  }
}

void put_part(const BlockCodes& form, const CodedPart& part, const Place& place) {
  constexpr int kLineInputs = 8, kNibbleOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  std::byte* line = place.line;
  for (int k = 0; k < form.inputs; k += kLineInputs, line += place.stride) {
    std::uint32_t low = 0, high = 0;
    if (form.bits == 4) {
      for (unsigned i = 0; i < kLineInputs; ++i) {
        low |= static_cast<std::uint32_t>(part.codes[k + kNibbleOrder[i]] - form.lowest) << (4 * i);
      }
    } else {
      for (unsigned i = 0; i < 4; ++i) {
        low |= static_cast<std::uint32_t>(part.codes[k + kQuantizedOrder[i]] + 128) << (8 * i);
        high |= static_cast<std::uint32_t>(part.codes[k + kQuantizedOrder[4 + i]] + 128) << (8 * i);
      }
      std::memcpy(line + 64, &high, sizeof high);
    }
    std::memcpy(line, &low, sizeof low);
  }
  put_scales(form, part, place.scale);
}

// The low nibbles of eight bytes in the order of a line: bytes 0 2 4 6 1 3 5 7.
std::uint32_t gather_nibbles(std::uint64_t bytes) {
  const auto every_other = [](std::uint64_t v) {
    v &= 0x000F000F000F000FU;
    return static_cast<std::uint32_t>((v | v >> 12 | v >> 24 | v >> 36) & 0xFFFF);
  };
  return every_other(bytes) | every_other(bytes >> 8) << 16;
}

// Q4_0 and Q4_1, whose bytes need only be moved: f16 scale, f16 minimum, 16 bytes of nibbles.
void move_block(const std::byte* block, bool min, const Place& place) {
  std::memcpy(place.scale, block, 2);
  if (min) std::memcpy(place.scale + 2 * kGroupOutputs, block + 2, 2);
  std::uint64_t halves[2];
  std::memcpy(halves, block + (min ? 4 : 2), sizeof halves);
  const std::uint32_t lines[4] = {gather_nibbles(halves[0]), gather_nibbles(halves[1]), gather_nibbles(halves[0] >> 4),
                                  gather_nibbles(halves[1] >> 4)};
  for (std::size_t i = 0; i < 4; ++i) std::memcpy(place.line + i * place.stride, &lines[i], 4);
}

}  // namespace

void pack_codes_tile(const WeightView& view, const LinearLayout& layout, int tile, std::byte* to) {
  const BlockCodes form = block_codes(view.codes);
  const bool moved = view.codes == DType::kQ4_0 || view.codes == DType::kQ4_1;
  const auto block_bytes = static_cast<std::size_t>(dtype_block(view.codes).bytes);
  const auto groups = static_cast<std::size_t>(layout.groups_in(tile));
  const int first = tile * layout.tile_groups * kGroupOutputs, outputs = layout.outputs_in(tile);
  const std::size_t stride = groups * layout.line_bytes, lines = groups * layout.block_bytes,
                    scales = groups * layout.group_scale_bytes;
  const std::size_t scale_size = form.f16 ? sizeof(f16) : sizeof(float);
  if (outputs % kGroupOutputs != 0) std::memset(to, 0, static_cast<std::size_t>(layout.blocks) * (lines + scales));
  for (int o = 0; o < outputs; ++o) {
    const auto group = static_cast<std::size_t>(o / kGroupOutputs), lane = static_cast<std::size_t>(o % kGroupOutputs);
    const std::byte* row = view.data + static_cast<std::size_t>(first + o) * view.row_bytes();
    std::byte* block = to;
    for (std::size_t part = 0; part < static_cast<std::size_t>(layout.blocks); ++part, block += lines + scales) {
      const Place place{block + group * layout.line_bytes + lane * 4, stride,
                        block + lines + group * layout.group_scale_bytes + lane * scale_size};
      if (moved) {
        move_block(row + part * block_bytes, form.min, place);
      } else {
        CodedPart values;
        read_part(view.codes, row, part, values);
        put_part(form, values, place);
      }
    }
  }
}

}  // namespace sluice
