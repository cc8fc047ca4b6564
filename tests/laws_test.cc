// The laws on real models (docs/laws.md): random schedules over the cache, and random requests under the real
// scheduler, against each prompt alone, bitwise, for every cache type.
//
// Fresh seeds each time, printed, beside a corpus of schedules that once found something (laws_corpus.txt).
// SLUICE_TEST_SEED runs a given one, SLUICE_LAW_SCHEDULES changes the number per case.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "base/log.h"
#include "base/test_seed_testing.h"
#include "engine/verify.h"

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
    {"tiny_default", "tiny", "default", "auto", "auto", "auto", 60},
    {"tiny_fp8_index", "tiny", "default", "auto", "fp8", "fp8", 36},
    {"tiny_bf16", "tiny", "default", "auto", "bf16", "bf16", 36},
    {"tiny_f32", "tiny", "default", "auto", "f32", "f32", 36},
    {"tiny_plain", "tiny", "plain", "auto", "auto", "auto", 36},
    {"tiny_ref", "tiny", "ref", "auto", "auto", "auto", 36},
    {"tiny_int8", "tiny", "default", "int8", "auto", "auto", 36},
    {"flash_default", "v4-flash-like", "default", "auto", "auto", "auto", 60},
    {"flash_fp8", "v4-flash-like", "default", "auto", "fp8", "fp4", 60},
    {"pro_plain", "v4-pro-like", "plain", "auto", "auto", "auto", 60},
    {"pro_fp8", "v4-pro-like", "default", "auto", "fp8", "fp4", 60},
    {"v2_lite_default", "v2-lite-like", "default", "auto", "auto", "auto", 50},
    {"v2_fp8", "v2-like", "default", "auto", "fp8", "auto", 50},
    {"v3_default", "v3-like", "default", "auto", "auto", "auto", 50},
    {"v32_default", "v32-like", "default", "auto", "auto", "auto", 50},
    {"llama_default", "llama-like", "default", "auto", "auto", "auto", 50},
    {"qwen2_window", "qwen2-swa-like", "default", "auto", "auto", "auto", 50},
    {"qwen3_yarn", "qwen3-yarn-like", "plain", "auto", "auto", "auto", 50},
    {"qwen3_moe", "qwen3moe-like", "default", "auto", "auto", "auto", 50},
};

std::string folder_of(const std::string& model) {
  return model == "tiny" ? SLUICE_SOURCE_DIR "/models/sluice-tiny-v4" : SLUICE_TEST_DATA_DIR "/oracles/" + model;
}

int schedules_of(const Case& c) {
  const char* given = std::getenv("SLUICE_LAW_SCHEDULES");
  return given != nullptr ? std::atoi(given) : c.schedules;
}

VerifyOptions verify_options(const Case& c) {
  VerifyOptions options;
  options.engine.model_folder = folder_of(c.model);
  options.engine.profile = c.profile;
  options.engine.compute_dtype = c.compute;
  options.engine.kv_cache_dtype = c.kv;
  options.engine.index_cache_dtype = c.index;
  options.engine.threads = 4;
  options.schedules = schedules_of(c);
  options.seed = test_seed();
  return options;
}

class LawsTest : public ::testing::TestWithParam<Case> {};

TEST_P(LawsTest, ScheduledAsAlone) {
  set_log_level(LogLevel::kWarning);
  const VerifyOptions options = verify_options(GetParam());
  const auto report = verify(options);
  ASSERT_TRUE(report.ok()) << "SLUICE_TEST_SEED=" << options.seed << ": " << report.status().message();
  const LawReport& laws = report->laws;
  fmt::print(
      "{} ({}): SLUICE_TEST_SEED={}, {} schedules, {} rows compared, {} tokens resumed, {} preempted, {} swapped, {} "
      "forks, {} truncations, {} aborts, {:.1f} s\n",
      GetParam().name, report->profile, options.seed, laws.schedules, laws.comparisons, laws.resumed_tokens,
      laws.preemptions, laws.swaps, laws.forks, laws.truncations, laws.aborts, report->seconds);
  EXPECT_TRUE(report->sound()) << laws.difference->text;
  EXPECT_EQ(laws.schedules, options.schedules);
  if (laws.schedules < 30) return;
  for (const std::int64_t count : {std::int64_t{laws.preemptions}, std::int64_t{laws.swaps}, std::int64_t{laws.forks},
                                   std::int64_t{laws.truncations}, std::int64_t{laws.aborts}, laws.resumed_tokens}) {
    EXPECT_GT(count, 0) << "the schedules leave something out";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LawsTest, ::testing::ValuesIn(kCases),
                         [](const ::testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

// Lines of "case seed schedules": what once found a fault runs every time.
TEST(LawsCorpusTest, WhatOnceFoundSomethingFindsNothing) {
  set_log_level(LogLevel::kWarning);
  std::ifstream corpus(SLUICE_SOURCE_DIR "/tests/laws_corpus.txt");
  ASSERT_TRUE(corpus.good());
  int lines = 0;
  for (std::string line; std::getline(corpus, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name;
    VerifyOptions options;
    std::uint64_t seed = 0;
    int schedules = 0;
    ASSERT_TRUE(words >> name >> seed >> schedules) << line;
    const auto* found =
        std::find_if(std::begin(kCases), std::end(kCases), [&](const Case& c) { return c.name == name; });
    ASSERT_NE(found, std::end(kCases)) << line;
    options = verify_options(*found);
    options.seed = seed;
    options.schedules = schedules;
    const auto report = verify(options);
    ASSERT_TRUE(report.ok()) << line << ": " << report.status().message();
    EXPECT_TRUE(report->sound()) << line << ": " << report->laws.difference->text;
    ++lines;
  }
  EXPECT_GT(lines, 0);
}

// The proof of the proof: every deliberate fault is found.
class FaultTest : public ::testing::TestWithParam<const char*> {};

TEST_P(FaultTest, IsFound) {
  set_log_level(LogLevel::kWarning);
  VerifyOptions options = verify_options(kCases[7]);
  options.schedules = 200;
  options.engine.inject_fault = GetParam();
  const auto report = verify(options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_FALSE(report->sound()) << GetParam() << " was not found: SLUICE_TEST_SEED=" << options.seed;
  fmt::print("{}: {}\n", GetParam(), report->laws.difference->text);
  if (std::string(GetParam()) == "chunk-reduction") {
    EXPECT_EQ(report->laws.difference->first_value, "layers.0.attn_o");
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, FaultTest,
                         ::testing::Values("skipped-write", "early-publication", "stale-hash", "chunk-reduction",
                                           "leaked-reference"),
                         [](const ::testing::TestParamInfo<const char*>& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace sluice
