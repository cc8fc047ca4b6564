// Models against the logits of an independent library (fp32, whole sequence at once): tests/oracles.
//
// SLUICE_ORACLES names a folder with more kinds, lengths or seeds of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/test_paths_testing.h"
#include "files/safetensors.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/isa.h"
#include "model/checks/cache_testing.h"

namespace sluice::oracle_test {
namespace {

std::string oracle_folder(const std::string& kind) {
  const char* given = std::getenv("SLUICE_ORACLES");  // a folder with more kinds or other seeds
  return fmt::format("{}/{}", given != nullptr ? given : test_data_dir() + "/oracles", kind);
}

struct Oracle {
  ThreadPool pool{2};
  Exec exec;
  std::unique_ptr<Model> model;
  std::unique_ptr<SafetensorsFile> golden;

  Oracle(const std::string& kind, const std::string& isa, EngineSetup options = {}) {
    exec = {&pool, select_kernels(isa).value()};
    options.numerics.profile = "plain";
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

  // The standard deviation of some of the logits.
  double spread() const {
    const auto values = read<float>("len5.logits");
    double sum = 0, squares = 0;
    for (const float value : values) sum += value, squares += double{value} * double{value};
    const auto n = static_cast<double>(values.size());
    return std::sqrt(squares / n - sum / n * (sum / n));
  }
};

// A kind of checkpoint, and how close `plain` comes to its logits at every stored position, in standard deviations of
// these logits.
struct Kind {
  const char* name;
  double bound;
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

// At most three times what is measured, which every instruction set repeats to the bit.
const Kind kKinds[] = {
    {"v4-flash-like", 3.5e-5},  {"v4-pro-like", 2.7e-5},   {"v2-like", 5.5e-5},    {"v2-lite-like", 2.3e-5},
    {"v3-like", 3.9e-5},        {"v32-like", 2.5e-5},      {"llama-like", 1.3e-5}, {"qwen3-yarn-like", 4e-5},
    {"qwen2-swa-like", 1.2e-5}, {"qwen3moe-like", 1.4e-5},
};

const std::vector<int> kLengths = {1, 3, 4, 5, 127, 128, 129, 260, 700};
const std::vector<int> kFewLengths = {1, 3, 4, 5, 129};

class OracleTest : public ::testing::TestWithParam<Kind> {};

// The prompts of these lengths that the oracle has, cut in pieces of `chunk` rows.
void expect_logits(const Kind& kind, const std::string& isa, int chunk, const std::vector<int>& lengths,
                   const EngineSetup& options = {}) {
  Oracle oracle(kind.name, isa, options);
  const auto ids = oracle.read<TokenId>("input_ids");
  const auto vocab = static_cast<std::size_t>(oracle.model->config().vocab_size);
  const double spread = oracle.spread();
  int compared = 0;
  double worst = 0;
  for (const int n : lengths) {
    if (oracle.golden->find(fmt::format("len{}.logits", n)) == nullptr) continue;
    const auto positions = oracle.read<int>(fmt::format("len{}.positions", n));
    const auto expected = oracle.read<float>(fmt::format("len{}.logits", n));
    const auto found =
        run_prompt(*oracle.model, oracle.exec, {ids.data(), static_cast<std::size_t>(n)}, positions, chunk);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t j = 0; j < positions.size(); ++j) {
      double row = 0;
      for (std::size_t v = 0; v < vocab; ++v) {
        row = std::fmax(row, std::fabs(double{found[j * vocab + v]} - double{expected[j * vocab + v]}));
      }
      row /= spread;
      EXPECT_LE(row, kind.bound) << kind.name << " length " << n << " position " << positions[j];
      worst = std::fmax(worst, row);
    }
    compared += static_cast<int>(positions.size());
  }
  EXPECT_GT(compared, 20) << "the oracle has lengths";
  fmt::print("{} {} in pieces of {}: worst logit difference {:.2e} standard deviations at {} positions\n", kind.name,
             isa, chunk, worst, compared);
}

constexpr int kWhole = 1 << 20;

TEST_P(OracleTest, LogitsInOnePiece) {
  expect_logits(GetParam(), "auto", kWhole, kLengths);
}
TEST_P(OracleTest, LogitsInPieces) {
  expect_logits(GetParam(), "auto", 100, kLengths);
}
TEST_P(OracleTest, LogitsOnEveryIsa) {
  expect_logits(GetParam(), "scalar", kWhole, kFewLengths);
  for (const KernelTable* table : present_kernels()) {
    if (table != &scalar_kernels()) expect_logits(GetParam(), isa_name(*table), 7, kFewLengths);
  }
}

TEST_P(OracleTest, Greedy) {
  Oracle oracle(GetParam().name, "auto");
  const auto tokens = oracle.read<TokenId>("greedy50.tokens");
  const auto margins = oracle.read<float>("greedy50.margin");
  const double near_tie = 2 * GetParam().bound * oracle.spread();
  TestSequence sequence(oracle.model->cache_layout(), static_cast<int>(tokens.size()));
  const int last = 49;
  auto logits = sequence.run(*oracle.model, oracle.exec, {tokens.data(), 50}, {&last, 1});
  for (std::size_t i = 50; i < tokens.size(); ++i) {
    if (static_cast<double>(margins[i - 50]) < near_tie) break;  // may go either way, and the rest too
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    ASSERT_EQ(best, tokens[i]) << GetParam().name << " step " << i - 50;
    const int only = 0;
    logits = sequence.run(*oracle.model, oracle.exec, {tokens.data() + i, 1}, {&only, 1});
  }
}

// Latent attention with expanded keys and values, whatever the length of a span, over prefixes in pieces of any size.
TEST(ExpandedOracleTest, Logits) {
  for (const Kind& kind : {Kind{"v2-like", 9e-5}, Kind{"v2-lite-like", 5.8e-5}, Kind{"v3-like", 8e-5}}) {
    EngineSetup options;
    options.numerics.mla_prefill = MlaPrefill::kExpanded;
    options.testing.mla_expand_from = 1;
    expect_logits(kind, "auto", kWhole, kLengths, options);
    for (const int piece : {1, 7, 64, 4096}) {
      options.numerics.attn_prefill_chunk_size = piece;
      expect_logits(kind, "auto", 100, kLengths, options);
    }
    options.numerics.attn_prefill_chunk_size = 16;
    expect_logits(kind, "scalar", 50, kFewLengths, options);
    if (cpu_features().has(CpuFeature::kAvx2)) expect_logits(kind, "avx2", 50, kFewLengths, options);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, OracleTest, ::testing::ValuesIn(kKinds),
                         [](const ::testing::TestParamInfo<Kind>& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace sluice::oracle_test
