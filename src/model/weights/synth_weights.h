// The values of a random checkpoint: a pure function of (seed, tensor name, element), so any piece of any tensor can be
// made at any time. They are a frozen format: the tests' oracles (tests/oracles) hold logits of these weights.
//
//   weights      N(0, 1 / row length); quantised ones through codes and scales that vary from block to block
//   norms, scales of hyper-connections  N(1, 0.1^2)
//   sinks, bases of hyper-connections, position biases of compressors  N(0, 0.5^2)
//   other vectors (biases)  N(0, 0.1^2)
//   ids          the ids of a row are distinct
// A forward pass then gives finite logits that depend on every tensor. Thread safety: const after it is made.
// Used by cli/commands/synth_gguf.h, dummy_checkpoint.cc and synth_sources.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/model_plan.h"

namespace sluice {

class SynthWeights {
 public:
  explicit SynthWeights(std::uint64_t seed);

  // The bytes [offset, offset + chunk.size()) of the tensor, whole elements.
  void fill(const PlannedTensor& tensor, std::size_t offset, std::span<std::byte> chunk) const;
  // Weights of the same spread as Q4_0 blocks of GGUF files (18 bytes for 32 of a row), from one on.
  void fill_q4_0(const PlannedTensor& tensor, std::size_t first_block, std::span<std::byte> blocks) const;
  // The values of fill() as f32, in blocks of the scales that `scales` holds (null: it has none): `offset` and `chunk`
  // are those of the f32 tensor.
  void fill_as_f32(const PlannedTensor& tensor, const PlannedTensor* scales, const QuantizationConfig& quantization,
                   std::size_t offset, std::span<std::byte> chunk) const;

 private:
  struct Stream;  // the random numbers of one tensor
  std::uint64_t seed_;
  std::vector<float> normal_;       // the quantiles of N(0, 1), 65536 of them
  std::vector<std::uint8_t> e4m3_;  // the codes of kE4m3Spread * normal_
  std::vector<std::uint8_t> e2m1_;  // the codes of kE2m1Spread * normal_
  std::vector<std::uint8_t> q4_;    // kQ4Spread * normal_, rounded, and 8 more
};

}  // namespace sluice
