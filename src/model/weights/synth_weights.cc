// Used by cli/commands/synth_gguf.h, dummy_checkpoint.cc and synth_sources.h.
#include "model/weights/synth_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/formats/number_formats.h"
#include "base/philox.h"

namespace sluice {
namespace {

constexpr std::size_t kQuantiles = 1 << 16;
// Standard deviations of the codes: the largest of 65536 quantiles, 4.2, stays within 448, and most within 6.
constexpr float kE4m3Spread = 64.0F, kE2m1Spread = 2.0F, kQ4Spread = 2.5F;
constexpr float kVectorSpread = 0.1F, kOffsetSpread = 0.5F;

// FNV-1a: a stable 64-bit name for a tensor.
std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// The quantiles (i + 0.5) / n of N(0, 1) by Newton's method on the distribution function, for the lower half; the upper
// half mirrors it.
std::vector<float> normal_quantiles(std::size_t n) {
  std::vector<float> quantiles(n);
  double x = -4.3;
  for (std::size_t i = 0; i < n / 2; ++i) {
    const double target = (static_cast<double>(i) + 0.5) / static_cast<double>(n);
    for (int step = 0; step < 8; ++step) {
      const double distribution = 0.5 * std::erfc(-x * M_SQRT1_2);
      const double density = std::exp(-0.5 * x * x) * (M_SQRT1_2 * M_2_SQRTPI * 0.5);
      x -= (distribution - target) / density;
    }
    quantiles[i] = static_cast<float>(x);
    quantiles[n - 1 - i] = static_cast<float>(-x);
  }
  return quantiles;
}

// The scales of hyper-connections multiply what a token's streams say: near 0, no stream would depend on the token.
float mean_of(const PlannedTensor& tensor) {
  const bool scale = tensor.name.find("hc_") != std::string::npos && tensor.name.ends_with("_scale");
  return tensor.shape.size() == 1 && (scale || tensor.name.ends_with("norm.weight")) ? 1.0F : 0.0F;
}

// Values that are added to logits of about 1 before a softmax, a sigmoid or Sinkhorn's iteration, and have to count
// there: sinks, the bases of hyper-connections, position biases of compressors.
bool is_offset(std::string_view name) {
  return name.ends_with(".attn_sink") || name.ends_with("compressor.ape") ||
         (name.find("hc_") != std::string_view::npos && name.ends_with("_base"));
}

float spread_of(const PlannedTensor& tensor) {
  if (is_offset(tensor.name)) return kOffsetSpread;
  return tensor.shape.size() == 1 ? kVectorSpread : 1.0F / std::sqrt(static_cast<float>(tensor.row_values));
}

// Value i of those that `codes` begin with, without its scale.
float stored_value(DType dtype, const std::byte* codes, std::size_t i) {
  const auto code = [&](std::size_t at) { return static_cast<std::uint8_t>(codes[at]); };
  if (dtype == DType::kF8E4M3) return e4m3_to_float(code(i));
  if (dtype == DType::kI8) return e2m1_to_float(static_cast<std::uint8_t>(code(i / 2) >> (i % 2 * 4)));
  if (dtype == DType::kBF16) {
    bf16 value;
    std::memcpy(&value, codes + i * sizeof value, sizeof value);
    return to_float(value);
  }
  SLUICE_CHECK(dtype == DType::kF32, "no official checkpoint stores weights so");
  float value;
  std::memcpy(&value, codes + i * sizeof value, sizeof value);
  return value;
}

}  // namespace

// Sixteen random bits per element, eight elements per block of the generator.
struct SynthWeights::Stream {
  PhiloxKey key;
  std::uint64_t name;

  PhiloxCounter block(std::uint64_t index) const {
    return philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                       static_cast<std::uint32_t>(name), static_cast<std::uint32_t>(name >> 32)},
                      key);
  }

  // element(i, bits) for each i below `count`: those of the elements from `first`.
  template <class Element>
  void each(std::uint64_t first, std::uint64_t count, const Element& element) const {
    for (std::uint64_t i = 0; i < count;) {
      const PhiloxCounter words = block((first + i) / 8);
      for (std::uint64_t j = (first + i) % 8; j < 8 && i < count; ++i, ++j) {
        element(i, static_cast<std::uint16_t>(words[j / 2] >> (16 * (j % 2))));
      }
    }
  }
};

SynthWeights::SynthWeights(std::uint64_t seed)
    : seed_(seed), normal_(normal_quantiles(kQuantiles)), e4m3_(kQuantiles), e2m1_(kQuantiles), q4_(kQuantiles) {
  for (std::size_t i = 0; i < kQuantiles; ++i) {
    e4m3_[i] = float_to_e4m3(normal_[i] * kE4m3Spread);
    e2m1_[i] = float_to_e2m1(normal_[i] * kE2m1Spread);
    q4_[i] = static_cast<std::uint8_t>(std::clamp(std::lround(normal_[i] * kQ4Spread), -8L, 7L) + 8);
  }
}

void SynthWeights::fill(const PlannedTensor& tensor, std::size_t offset, std::span<std::byte> chunk) const {
  const Stream stream{{static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)},
                      hash_name(tensor.name)};
  const float mean = mean_of(tensor), spread = spread_of(tensor);
  const std::size_t size = static_cast<std::size_t>(dtype_bits(tensor.dtype)) / 8, count = chunk.size() / size;
  const std::uint64_t first = offset / size;
  const auto store = [&chunk](std::uint64_t i, auto value) {
    std::memcpy(chunk.data() + i * sizeof(value), &value, sizeof(value));
  };
  if (!tensor.scales_of.empty()) {
    // One or half of the power of two that gives the weights about their spread.
    const float scale = pow2_ceil(spread / (tensor.stored == WeightFormat::kMxfp4 ? kE2m1Spread : kE4m3Spread));
    stream.each(first, count, [&](std::uint64_t i, std::uint16_t bits) {
      const float value = bits % 2 == 0 ? scale : scale / 2;
      tensor.dtype == DType::kF32 ? store(i, value) : store(i, pow2_to_e8m0(value));
    });
    return;
  }
  switch (tensor.dtype) {
    case DType::kF8E4M3:
      return stream.each(first, count, [&](std::uint64_t i, std::uint16_t bits) { store(i, e4m3_[bits]); });
    case DType::kI8:  // two values of e2m1
      return stream.each(2 * first, 2 * count, [&](std::uint64_t i, std::uint16_t bits) {
        const auto code = static_cast<std::byte>(e2m1_[bits]);
        chunk[i / 2] = i % 2 == 0 ? code : chunk[i / 2] | code << 4;
      });
    case DType::kBF16:
      return stream.each(first, count, [&](std::uint64_t i, std::uint16_t bits) {
        store(i, to_bf16(mean + spread * normal_[bits]).bits);
      });
    case DType::kF32:
      return stream.each(first, count,
                         [&](std::uint64_t i, std::uint16_t bits) { store(i, mean + spread * normal_[bits]); });
    case DType::kI64:
      break;
    default:
      SLUICE_CHECK(false, "no official checkpoint stores weights so");
  }
  // Ids: consecutive ones from a random start, so that those of a row are distinct.
  const auto row_size = static_cast<std::uint64_t>(tensor.row_values),
             limit = static_cast<std::uint64_t>(tensor.id_limit);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t row = (first + i) / row_size, column = (first + i) % row_size;
    store(i, static_cast<std::int64_t>((stream.block(row)[0] % limit + column) % limit));
  }
}

void SynthWeights::fill_q4_0(const PlannedTensor& tensor, std::size_t first_block, std::span<std::byte> blocks) const {
  const PhiloxKey key{static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)};
  const Stream codes{key, hash_name(tensor.name)}, scales{key, hash_name(tensor.name + " scales")};
  constexpr std::size_t kBlock = 32, kBlockBytes = 2 + kBlock / 2;
  const std::size_t count = blocks.size() / kBlockBytes;
  const float scale = spread_of(tensor) / kQ4Spread;
  std::ranges::fill(blocks, std::byte{0});
  scales.each(first_block, count, [&](std::uint64_t i, std::uint16_t bits) {
    const f16 stored = to_f16(bits % 2 == 0 ? scale : -scale * 0.75F);
    std::memcpy(blocks.data() + i * kBlockBytes, &stored, sizeof stored);
  });
  codes.each(first_block * kBlock, count * kBlock, [&](std::uint64_t i, std::uint16_t bits) {
    const std::size_t at = i % kBlock;  // the second half of a block is in the high nibbles
    blocks[i / kBlock * kBlockBytes + 2 + at % 16] |= static_cast<std::byte>(q4_[bits] << (at / 16 * 4));
  });
}

void SynthWeights::fill_as_f32(const PlannedTensor& tensor, const PlannedTensor* scales,
                               const QuantizationConfig& quantization, std::size_t offset,
                               std::span<std::byte> chunk) const {
  const std::size_t first = offset / sizeof(float), count = chunk.size() / sizeof(float);
  const auto values_of_element = static_cast<std::size_t>(weight_format(tensor.stored).values);
  const auto stored_bytes = [&](const PlannedTensor& t, std::size_t values) {
    return values * static_cast<std::size_t>(dtype_bits(t.dtype)) / 8 / (t.scales_of.empty() ? values_of_element : 1);
  };
  std::vector<std::byte> codes(stored_bytes(tensor, count)), scale_codes;
  fill(tensor, stored_bytes(tensor, first), codes);

  // The scales of the rows that the chunk touches, from one whose number fill() takes.
  const auto row_values = static_cast<std::size_t>(tensor.row_values);
  WeightView blocks{.format = tensor.stored};
  set_scale_blocks(blocks, quantization.block_rows, quantization.block_columns);
  const auto block_rows = static_cast<std::size_t>(blocks.block_out);
  const auto block_columns = static_cast<std::size_t>(blocks.block_in);
  std::size_t scale_columns = 0, first_scale = 0;
  if (scales != nullptr) {
    scale_columns = static_cast<std::size_t>(scales->shape.back());
    first_scale = first / row_values / block_rows * scale_columns / 8 * 8;
    const std::size_t end = ((first + count - 1) / row_values / block_rows + 1) * scale_columns;
    scale_codes.resize(stored_bytes(*scales, end - first_scale));
    fill(*scales, stored_bytes(*scales, first_scale), scale_codes);
  }
  const auto scale_of = [&](std::size_t element) {
    if (scales == nullptr) return 1.0F;
    const std::size_t row = element / row_values / block_rows, column = element % row_values / block_columns;
    const std::size_t at = row * scale_columns + column - first_scale;
    if (scales->dtype == DType::kF8E8M0) return e8m0_to_float(static_cast<std::uint8_t>(scale_codes[at]));
    float value;
    std::memcpy(&value, scale_codes.data() + at * sizeof value, sizeof value);
    return value;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const float value = stored_value(tensor.dtype, codes.data(), i) * scale_of(first + i);
    std::memcpy(chunk.data() + i * sizeof value, &value, sizeof value);
  }
}

}  // namespace sluice
