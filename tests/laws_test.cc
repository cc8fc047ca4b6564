// The row law on real models: for random schedules (chunk sizes, company, order, threads, forgotten speculations, early
// ends) the logits of every row are bitwise those of its prompt alone in one piece, for every cache type. docs/laws.md
// says more.
//
// A fresh seed each time, printed. SLUICE_TEST_SEED runs a given one, SLUICE_LAW_SCHEDULES changes the number per case.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/test_seed_testing.h"
#include "engine/law_check.h"

namespace sluice {
namespace {

struct Case {
  const char* name;
  const char* model;
  const char* profile;
  const char* compute;
  const char* kv;
  const char* index;
  int schedules;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

const Case kCases[] = {
    {"tiny_default", "tiny", "default", "auto", "auto", "auto", 32},
    {"tiny_fp8_index", "tiny", "default", "auto", "fp8", "fp8", 20},
    {"tiny_bf16", "tiny", "default", "auto", "bf16", "bf16", 20},
    {"tiny_f32", "tiny", "default", "auto", "f32", "f32", 20},
    {"tiny_plain", "tiny", "plain", "auto", "auto", "auto", 20},
    {"tiny_ref", "tiny", "ref", "auto", "auto", "auto", 20},
    {"tiny_bf16_compute", "tiny", "default", "bf16", "auto", "auto", 20},
    {"flash_default", "v4-flash-like", "default", "auto", "auto", "auto", 14},
    {"flash_fp8", "v4-flash-like", "default", "auto", "fp8", "fp4", 14},
    {"pro_plain", "v4-pro-like", "plain", "auto", "auto", "auto", 14},
    {"pro_fp8", "v4-pro-like", "default", "auto", "fp8", "fp4", 14},
};

std::string folder_of(const std::string& model) {
  return model == "tiny" ? SLUICE_SOURCE_DIR "/models/sluice-tiny-v4" : SLUICE_TEST_DATA_DIR "/oracles/" + model;
}

int schedules_of(const Case& c) {
  const char* given = std::getenv("SLUICE_LAW_SCHEDULES");
  return given != nullptr ? std::atoi(given) : c.schedules;
}

// Around the boundaries of CSA (4), the block and HCA (128) and the attention splits (256), and one of many blocks.
std::vector<std::vector<TokenId>> make_prompts(std::size_t vocab) {
  std::mt19937 random(20240607);
  std::vector<std::vector<TokenId>> prompts;
  for (const std::size_t n : {1, 4, 5, 127, 128, 129, 255, 260, 390, 730}) {
    auto& prompt = prompts.emplace_back(n);
    for (TokenId& id : prompt) id = static_cast<TokenId>(random() % vocab);
  }
  // Two with the same beginning: the pages of one must not serve the other.
  prompts.emplace_back(prompts[7].begin(), prompts[7].begin() + 200).push_back(1);
  return prompts;
}

class LawsTest : public ::testing::TestWithParam<Case> {};

TEST_P(LawsTest, ScheduledAsAlone) {
  const Case& c = GetParam();
  set_log_level(LogLevel::kWarning);
  EngineOptions options;
  options.model_folder = folder_of(c.model);
  options.profile = c.profile;
  options.compute_dtype = c.compute;
  options.kv_cache_dtype = c.kv;
  options.index_cache_dtype = c.index;
  options.threads = 2;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 1024;
  options.kv_cache_memory = std::int64_t{256} << 20;
  auto runner = Runner::load(options);
  ASSERT_TRUE(runner.ok()) << runner.status().message();

  LawOptions laws;
  laws.seed = test_seed();
  laws.schedules = schedules_of(c);
  laws.max_rows = 1000;
  const auto start = std::chrono::steady_clock::now();
  const auto report = check_row_law(**runner, make_prompts((*runner)->vocab_size()), laws);
  ASSERT_TRUE(report.ok()) << "SLUICE_TEST_SEED=" << laws.seed << ": " << report.status().message();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{} ({}): SLUICE_TEST_SEED={}, {} schedules, {} rows compared in {:.1f} s\n", c.name,
             (*runner)->model().profile().text(), laws.seed, report->schedules, report->comparisons, seconds);
  EXPECT_FALSE(report->difference.has_value()) << report->difference->text;
  EXPECT_EQ(report->schedules, laws.schedules);
}

INSTANTIATE_TEST_SUITE_P(Models, LawsTest, ::testing::ValuesIn(kCases),
                         [](const ::testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sluice
