#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/formats/block_codes.h"
#include "base/formats/number_formats.h"
#include "kernels/cpu/linear/linear_layout.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice {
namespace {

// Maps codes to the bytes that stand for them in a line.
class Numbers {
 public:
  explicit Numbers(const BlockCodes& form) : offset_(form.bits == 4 ? -form.lowest : 128) {
    numbered_ = form.level != nullptr;
    for (int i = 15; numbered_ && i >= 0; --i) of_[static_cast<std::size_t>(form.level(i) + 128)] = narrow(i);
  }
  std::uint32_t of(int code) const {
    return numbered_ ? of_[static_cast<std::size_t>(code + 128)] : static_cast<std::uint32_t>(code + offset_);
  }

 private:
  static std::uint8_t narrow(int number) { return static_cast<std::uint8_t>(number); }

  int offset_;
  bool numbered_;
  std::array<std::uint8_t, 256> of_{};  // [code + 128]
};

// One output's place in the block of a tile that is being packed.
struct Place {
  std::byte* line;     // the output's dword in the first line
  std::size_t stride;  // bytes to the next line
  std::byte* scale;    // the output's scale; its minimum is 16 scales further on
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

void put_part(const BlockCodes& form, const Numbers& numbers, const CodedPart& part, const Place& place) {
  constexpr int kLineInputs = 8, kNibbleOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  std::byte* line = place.line;
  for (int k = 0; k < form.inputs; k += kLineInputs, line += place.stride) {
    std::uint32_t low = 0, high = 0;
    if (form.bits == 4) {
      for (unsigned i = 0; i < kLineInputs; ++i) {
        low |= numbers.of(part.codes[k + kNibbleOrder[i]]) << (4 * i);
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

// Returns the low nibbles of eight bytes in the order of a line: bytes 0 2 4 6 1 3 5 7.
std::uint32_t gather_nibbles(std::uint64_t bytes) {
  const auto every_other = [](std::uint64_t v) {
    v &= 0x000F000F000F000FU;
    return static_cast<std::uint32_t>((v | v >> 12 | v >> 24 | v >> 36) & 0xFFFF);
  };
  return every_other(bytes) | every_other(bytes >> 8) << 16;
}

// Packs Q4_0 and Q4_1, whose bytes need only be moved: f16 scale, f16 minimum, 16 bytes of nibbles.
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
  const Numbers numbers(form);
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
        put_part(form, numbers, values, place);
      }
    }
  }
}

namespace {

// The place of the code of input `i` of a line in the dword of its output: the byte of the line, and its bit.
struct CodePlace {
  std::size_t byte;
  unsigned bit;
};
CodePlace code_place(const BlockCodes& form, int i) {
  if (form.bits == 4) {
    const auto nibble = static_cast<unsigned>(i / 2 + i % 2 * 4);
    return {nibble / 2, nibble % 2 * 4};
  }
  const auto at =
      static_cast<std::size_t>(std::find(kQuantizedOrder.begin(), kQuantizedOrder.end(), i) - kQuantizedOrder.begin());
  return {at / 4 * 64 + at % 4, 0};
}

// Writes the codes of one input, of sixteen outputs.
void put_codes(const BlockCodes& form, const Numbers& numbers, const std::int8_t* codes, const CodePlace& place,
               std::byte* line) {
  const auto mask = static_cast<std::byte>(form.bits == 4 ? 15 : 255) << place.bit;
  for (std::size_t o = 0; o < kGroupOutputs; ++o) {
    std::byte& byte = line[4 * o + place.byte];
    byte = (byte & ~mask) | static_cast<std::byte>(numbers.of(codes[o]) << place.bit);
  }
}

}  // namespace

void pack_transposed_codes_tile(const WeightView& view, const LinearLayout& layout, int tile, std::byte* to) {
  const BlockCodes form = block_codes(view.codes);
  const int first = tile * layout.tile_groups * kGroupOutputs, groups = layout.groups_in(tile);
  const std::size_t stride = static_cast<std::size_t>(groups) * layout.line_bytes;
  const std::size_t line_scales = (form.min ? 2 : 1) * static_cast<std::size_t>(layout.step_inputs);  // floats
  // Padding gets code 0. In types without a code 0, such as IQ4, the padding's scale of 0 makes the weights 0.
  const Numbers numbers(form);
  const int nothing = static_cast<int>(numbers.of(0)) * (form.bits == 4 ? 0x11 : 1);
  for (int block = 0; block < layout.blocks; ++block) {
    const int begin = block * layout.block, count = std::min(layout.block, layout.in - begin);
    const std::size_t lines = static_cast<std::size_t>((count + layout.step_inputs - 1) / layout.step_inputs) * stride;
    const std::size_t scales = static_cast<std::size_t>(groups) * layout.group_scale_bytes;
    std::memset(to, nothing, lines);
    std::memset(to + lines, 0, scales);
    for (int k = 0; k < count; ++k) {
      const std::byte* row = view.data + static_cast<std::size_t>(begin + k) * view.row_bytes();
      const int step = k / layout.step_inputs, i = k % layout.step_inputs;
      const CodePlace place = code_place(form, i);
      CodedPart part;
      for (int group = 0; group < groups; ++group) {
        const int n = first + group * kGroupOutputs;
        if (group == 0 || n % form.inputs == 0)
          read_part(view.codes, row, static_cast<std::size_t>(n / form.inputs), part);
        std::byte* line =
            to + static_cast<std::size_t>(step) * stride + static_cast<std::size_t>(group) * layout.line_bytes;
        put_codes(form, numbers, part.codes + n % form.inputs, place, line);
        auto* of_group =
            reinterpret_cast<float*>(to + lines + static_cast<std::size_t>(group) * layout.group_scale_bytes) +
            static_cast<std::size_t>(step) * line_scales + i;
        of_group[0] = part.scale;
        if (form.min) of_group[layout.step_inputs] = part.min;
      }
    }
    to += lines + scales;
  }
}

}  // namespace sluice
