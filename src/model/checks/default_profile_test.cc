// The default profile of every family, stage by stage, against a second computation that rounds as docs/dev/numerics.md
// says (reference_testing.h of each family).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/test_paths_testing.h"
#include "kernels/device/isa.h"
#include "model/decoder/reference_testing.h"
#include "model/deepseek_mla/reference_testing.h"
#include "model/deepseek_v4/reference_testing.h"

namespace sluice::default_profile_test {
namespace {

// Bounds on the distances of a stage's rows: of half of them, of 95 %, and the largest. They are at most three times
// the distances measured for the farthest family, which every instruction set repeats to the bit. A rounding that is
// left out, or that is one too many, moves half of the rows by 1e-4 and more. The worst rows are those in which one
// value was rounded to the other side.
struct Bound {
  double median, p95, worst;
};
using Bounds = std::map<std::string, Bound>;

const Bounds kBoundsOfV4 = {
    {"hc_x", {1.5e-7, 4e-7, 7e-7}},
    {"hc_post", {4e-7, 1.2e-6, 4e-6}},
    {"hc_comb", {4e-7, 6e-7, 1e-6}},
    {"resid", {2e-7, 4e-7, 1e-6}},
    {"qr", {2e-7, 3e-7, 9e-4}},
    {"q", {1.8e-6, 6e-6, 9e-6}},
    {"kv", {1.8e-6, 6e-6, 1.2e-3}},
    {"csa", {1.2e-6, 2.5e-6, 3e-4}},
    {"hca", {9e-7, 7e-6, 7e-6}},
    {"index_k", {1.2e-6, 2.5e-6, 2.5e-4}},
    {"index_q", {1.2e-6, 2.5e-6, 2.5e-6}},
    {"index_scores", {6e-7, 1.2e-6, 1.2e-6}},
    {"attn_o", {1.8e-6, 6e-6, 4e-4}},
    {"attn_out", {2e-7, 2.5e-7, 4e-4}},
    {"router_ids", {0, 0, 0}},
    {"router_weights", {3e-7, 6e-7, 1.6e-6}},
    {"ffn_out", {3e-7, 6e-7, 6e-3}},
    {"logits", {2e-7, 2.5e-7, 2.5e-7}},
};

const Bounds kBounds = {
    {"q", {6e-7, 1.8e-6, 3e-3}},
    {"kv", {4e-7, 1.5e-6, 1.8e-3}},
    {"index_k", {3e-7, 5e-7, 2.5e-4}},
    {"index_q", {0, 0, 6e-3}},
    {"index_scores", {2e-7, 4e-7, 1.8e-4}},
    {"attn_o", {1.8e-7, 3e-7, 2.5e-3}},
    {"attn_out", {2e-7, 2.5e-7, 3e-7}},
    {"router_ids", {0, 0, 0}},
    {"router_weights", {4e-7, 1.2e-6, 2e-6}},
    {"ffn_out", {3e-7, 4e-7, 6e-3}},
    {"resid_mid", {7e-8, 8e-8, 9e-8}},
    {"resid_out", {7e-8, 8e-8, 9e-8}},
    {"logits", {5e-7, 6e-7, 1.8e-3}},
};

struct Kind {
  const char* name;
  std::string folder;
  int tokens;
  StageErrors (*stages)(const std::string& folder, const Recording& run);
  const Bounds& bounds;
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

// Some of each 4 and 128 positions, and the last ones, which see the most.
StageErrors v4_sample(const std::string& folder, const Recording& run) {
  std::vector<int> positions;
  for (int t = 0; t < run.tokens(); ++t) {
    if (t % 17 == 3 || t % 128 >= 126 || t >= run.tokens() - 8) positions.push_back(t);
  }
  return v4_default_stages(folder, run, positions);
}

class DefaultProfile : public ::testing::TestWithParam<Kind> {};

TEST_P(DefaultProfile, RoundsAsDocumented) {
  const std::string folder = GetParam().folder;
  ThreadPool pool(2);
  const Exec exec{&pool, select_kernels("auto").value()};
  auto model = load_model(exec, folder, {}, {}, nullptr);
  ASSERT_TRUE(model.ok()) << model.status().message();
  std::vector<TokenId> ids;
  for (int i = 0; i < GetParam().tokens; ++i) ids.push_back(static_cast<TokenId>((i * i + 3 * i + 5) % 512));
  const StageErrors errors = GetParam().stages(folder, Recording(**model, exec, ids, 33));
  for (const std::string& stage : errors.stages()) {
    fmt::print("{:<16} {:<15} {:5} rows: median {:.1e}, p95 {:.1e}, worst {:.1e}\n", GetParam().name, stage,
               errors.rows(stage), errors.quantile(stage, 0.5), errors.quantile(stage, 0.95),
               errors.quantile(stage, 1));
    const auto bound = GetParam().bounds.find(stage);
    if (bound == GetParam().bounds.end()) {
      ADD_FAILURE() << stage << " has no bound";
      continue;
    }
    EXPECT_LE(errors.quantile(stage, 0.5), bound->second.median) << stage;
    EXPECT_LE(errors.quantile(stage, 0.95), bound->second.p95) << stage;
    EXPECT_LE(errors.quantile(stage, 1), bound->second.worst) << stage;
  }
}

std::string oracle(const std::string& kind) {
  return test_data_dir() + "/oracles/" + kind;
}

const Kind kKinds[] = {
    {"v4", source_dir() + "/models/sluice-tiny-v4", 280, &v4_sample, kBoundsOfV4},
    {"v4_bf16", oracle("v4-flash-like"), 160, &v4_sample, kBoundsOfV4},
    {"v4_pro_bf16", oracle("v4-pro-like"), 160, &v4_sample, kBoundsOfV4},
    {"v32", oracle("v32-like"), 80, &mla_default_stages, kBounds},
    {"v3", oracle("v3-like"), 80, &mla_default_stages, kBounds},
    {"v2", oracle("v2-like"), 80, &mla_default_stages, kBounds},
    {"v2_lite", oracle("v2-lite-like"), 80, &mla_default_stages, kBounds},
    {"llama", oracle("llama-like"), 80, &decoder_default_stages, kBounds},
    {"qwen2_windows", oracle("qwen2-swa-like"), 80, &decoder_default_stages, kBounds},
    {"qwen3", oracle("qwen3-yarn-like"), 80, &decoder_default_stages, kBounds},
    {"qwen3moe", oracle("qwen3moe-like"), 80, &decoder_default_stages, kBounds},
};

INSTANTIATE_TEST_SUITE_P(Families, DefaultProfile, ::testing::ValuesIn(kKinds),
                         [](const ::testing::TestParamInfo<Kind>& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sluice::default_profile_test
