// Models against the logits of an independent library (fp32, whole sequence at once): tests/oracles.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "formats/safetensors.h"
#include "kernels/kernel_table.h"
#include "model/cache_testing.h"

namespace sluice {
namespace {

std::string oracle_folder(const std::string& kind) {
  const char* given = std::getenv("SLUICE_ORACLES");  // a folder with more kinds or other seeds
  return fmt::format("{}/{}", given != nullptr ? given : SLUICE_TEST_DATA_DIR "/oracles", kind);
}

struct Oracle {
  ThreadPool pool{2};
  Exec exec;
  std::unique_ptr<Model> model;
  std::unique_ptr<SafetensorsFile> golden;

  Oracle(const std::string& kind, const std::string& isa) {
    exec = {&pool, select_kernels(isa).value()};
    EngineOptions options;
    options.profile = "plain";
    auto loaded = load_model(exec, oracle_folder(kind), options, {}, nullptr);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    model = std::move(loaded).value();
    golden = SafetensorsFile::open(oracle_folder(kind) + "/golden.safetensors").value();
  }

  template <class T>
  std::vector<T> read(const std::string& name) const {
    const TensorView* tensor = golden->find(name);
    EXPECT_NE(tensor, nullptr) << name;
    std::vector<T> values(static_cast<std::size_t>(tensor->elements()));
    if (tensor->dtype == DType::kI64) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<T>(reinterpret_cast<const std::int64_t*>(tensor->data)[i]);
      }
    } else {
      EXPECT_EQ(tensor->bytes, values.size() * sizeof(T)) << name;
      std::memcpy(values.data(), tensor->data, tensor->bytes);
    }
    return values;
  }
};

constexpr int kLengths[] = {1, 3, 4, 5, 127, 128, 129, 260, 700};

void expect_logits(const std::string& kind, const std::string& isa, int chunk, double bound, int longest = 700) {
  Oracle oracle(kind, isa);
  const auto ids = oracle.read<TokenId>("input_ids");
  const auto vocab = static_cast<std::size_t>(oracle.model->config().vocab_size);
  for (const int n : kLengths) {
    if (n > longest) break;
    const auto positions = oracle.read<int>(fmt::format("len{}.positions", n));
    const auto expected = oracle.read<float>(fmt::format("len{}.logits", n));
    const auto found =
        run_prompt(*oracle.model, oracle.exec, {ids.data(), static_cast<std::size_t>(n)}, positions, chunk);
    ASSERT_EQ(found.size(), expected.size());
    double worst = 0;
    for (std::size_t j = 0; j < positions.size(); ++j) {
      double row = 0;
      for (std::size_t v = 0; v < vocab; ++v) {
        row = std::fmax(row, std::fabs(double{found[j * vocab + v]} - double{expected[j * vocab + v]}));
      }
      EXPECT_LE(row, bound) << kind << " length " << n << " position " << positions[j];
      worst = std::fmax(worst, row);
    }
    fmt::print("{} {} chunk {} length {}: worst logit difference {:.2e}\n", kind, isa, chunk, n, worst);
  }
}

void expect_greedy(const std::string& kind) {
  Oracle oracle(kind, "auto");
  const auto tokens = oracle.read<TokenId>("greedy50.tokens");
  const auto margins = oracle.read<float>("greedy50.margin");
  TestSequence sequence(oracle.model->cache_layout(), static_cast<int>(tokens.size()));
  const int last = 49;
  auto logits = sequence.run(*oracle.model, oracle.exec, {tokens.data(), 50}, {&last, 1});
  for (std::size_t i = 50; i < tokens.size(); ++i) {
    if (margins[i - 50] < 2e-3F) break;  // a near-tie may go either way, and what follows it too
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    ASSERT_EQ(best, tokens[i]) << kind << " step " << i - 50;
    const int only = 0;
    logits = sequence.run(*oracle.model, oracle.exec, {tokens.data() + i, 1}, {&only, 1});
  }
}

TEST(Oracle, V4FlashLikeLogits) {
  expect_logits("v4-flash-like", "auto", 1 << 20, 1e-3);
  expect_logits("v4-flash-like", "auto", 100, 1e-3);
}
TEST(Oracle, V4ProLikeLogits) {
  expect_logits("v4-pro-like", "auto", 1 << 20, 1e-3);
}
TEST(Oracle, V4FlashLikeScalarKernels) {
  expect_logits("v4-flash-like", "scalar", 1 << 20, 1e-3, 260);
}
TEST(Oracle, V4FlashLikeGreedy) {
  expect_greedy("v4-flash-like");
}
TEST(Oracle, V4ProLikeGreedy) {
  expect_greedy("v4-pro-like");
}

}  // namespace
}  // namespace sluice
