#include "model/weights/synth_weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "base/storage/mapped_file.h"
#include "base/test_paths_testing.h"

namespace sluice::synth_weights_test {
namespace {

constexpr const char* kFrozen = "the values of `sluice synth` are a frozen format: goldens hold logits of them";

// The checkpoints over which tests/oracles/*.tar.xz hold logits.
TEST(SynthWeights, OraclesAreTheFrozenOnes) {
  std::istringstream sums(read_text_file(source_dir() + "/tests/oracles/SHA256SUMS").value());
  std::string digest, file;
  int files = 0;
  for (; sums >> digest >> file; ++files) {
    EXPECT_EQ(sha256_of_file(fmt::format("{}/oracles/{}", test_data_dir(), file)).value(), digest)
        << file << ": " << kFrozen;
  }
  EXPECT_EQ(files, 10);
}

struct Form {
  const char* name;
  DType dtype;
  WeightFormat stored;
  const char* scales_of;
  std::size_t element_bytes;
  const char* digest;
};

// Forms that no oracle has: the codes and scales of quantised weights.
const Form kForms[] = {
    {"layers.0.attn.wq_a.weight", DType::kF8E4M3, WeightFormat::kFp8, "", 1, "55b5dbe51d85c9fa"},
    {"layers.0.attn.wq_a.scale", DType::kF8E8M0, WeightFormat::kFp8, "layers.0.attn.wq_a.weight", 1,
     "4ce33ce8b24d80bd"},
    {"layers.0.attn.wq_a.weight_scale_inv", DType::kF32, WeightFormat::kFp8, "layers.0.attn.wq_a.weight", 4,
     "95e18723223cfc1a"},
    {"layers.0.ffn.experts.0.w1.weight", DType::kI8, WeightFormat::kMxfp4, "", 1, "90782cc829557be6"},
    {"layers.0.ffn.experts.0.w1.scale", DType::kF8E8M0, WeightFormat::kMxfp4, "layers.0.ffn.experts.0.w1.weight", 1,
     "6dc75b63314c45df"},
};

std::string digest_of(std::span<const std::byte> bytes) {
  Sha256 hasher;
  hasher.add(bytes.data(), bytes.size());
  return to_hex(hasher.finish()).substr(0, 16);
}

TEST(SynthWeights, QuantisedFormsAreTheFrozenOnes) {
  const SynthWeights weights(0);
  std::vector<std::byte> bytes(1 << 16);
  for (const Form& form : kForms) {
    PlannedTensor tensor;
    tensor.name = form.name;
    tensor.dtype = form.dtype;
    tensor.shape = {256, static_cast<std::int64_t>(bytes.size() / 256 / form.element_bytes)};
    tensor.stored = form.stored;
    tensor.scales_of = form.scales_of;
    tensor.row_values = 256;
    weights.fill(tensor, 0, bytes);
    EXPECT_EQ(digest_of(bytes), form.digest) << form.name << ": " << kFrozen;

    // Any piece is that of the whole.
    std::vector<std::byte> piece(4000);
    weights.fill(tensor, 12'344, piece);
    EXPECT_TRUE(std::ranges::equal(piece, std::span(bytes).subspan(12'344, piece.size()))) << form.name;
  }
  PlannedTensor tensor;
  tensor.name = "layers.0.attn.wq_a.weight";
  tensor.shape = {256, 256};
  tensor.row_values = 256;
  std::vector<std::byte> blocks(256 * 256 / 32 * 18);
  weights.fill_q4_0(tensor, 0, blocks);
  EXPECT_EQ(digest_of(blocks), "3e5b3195daaebc31") << "Q4_0: " << kFrozen;
}

}  // namespace
}  // namespace sluice::synth_weights_test
