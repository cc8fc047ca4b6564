#include "model/weights/shares.h"

#include <gtest/gtest.h>

#include <map>

#include "base/test_paths_testing.h"
#include "config/model_config.h"
#include "model/decoder/weights.h"
#include "model/deepseek_mla/weights.h"
#include "model/deepseek_v4/weights.h"

namespace sluice::shares_test {
namespace {

WeightSpec spec_of(const char* name, std::vector<std::int64_t> shape) {
  WeightSpec spec;
  spec.names = {{name, shape}};
  spec.shape = std::move(shape);
  return spec;
}

using Share = std::pair<std::int64_t, std::int64_t>;  // first, count; {0, 0}: whole

// The share of a weight that each rank binds by a rule.
std::vector<Share> shares(int ranks, std::vector<std::int64_t> shape, const SharedWeights& rule,
                          std::vector<std::string>* notes = nullptr) {
  std::vector<Share> found;
  for (int rank = 0; rank < ranks; ++rank) {
    WeightTable table{spec_of("layers.0.attn.wq_b.weight", shape)};
    const auto said = deal_weights({rank, ranks}, {&rule, 1}, table);
    if (notes != nullptr) *notes = said;
    found.emplace_back(table.front().share.first, table.front().share.count);
  }
  return found;
}

TEST(Shares, OutputsAreDealtInRankOrder) {
  EXPECT_EQ(shares(1, {64, 8}, {".wq_b."}), (std::vector<Share>{{0, 0}})) << "alone";
  EXPECT_EQ(shares(2, {64, 8}, {".wq_b."}), (std::vector<Share>{{0, 32}, {32, 32}}));
  EXPECT_EQ(shares(4, {64, 8}, {".wq_b."}), (std::vector<Share>{{0, 16}, {16, 16}, {32, 16}, {48, 16}}));
  EXPECT_EQ(shares(2, {64}, {".wq_b."}), (std::vector<Share>{{0, 32}, {32, 32}})) << "biases";
  EXPECT_EQ(shares(2, {64, 8}, {".wo_b."}), (std::vector<Share>{{0, 0}, {0, 0}})) << "another weight";
}

TEST(Shares, RunsOfHeadsAreWholeAndCopiedWhereTheRuleSaysSo) {
  EXPECT_EQ(shares(2, {6 * 24, 8}, {".wq_b.", 6}), (std::vector<Share>{{0, 72}, {72, 72}})) << "no strips";
  const SharedWeights keys{".wq_b.", 2, /*copied=*/true};
  EXPECT_EQ(shares(2, {2 * 24, 8}, keys), (std::vector<Share>{{0, 24}, {24, 24}}));
  EXPECT_EQ(shares(4, {2 * 24, 8}, keys), (std::vector<Share>{{0, 24}, {0, 24}, {24, 24}, {24, 24}}));
  EXPECT_EQ(shares(4, {24, 8}, {".wq_b.", 1, true}), std::vector<Share>(4, {0, 24}));
}

TEST(Shares, WhatCannotBeDealtEvenlyStaysWholeAndIsNamed) {
  std::vector<std::string> names;
  EXPECT_EQ(shares(8, {64, 8}, {".wq_b."}, &names), std::vector<Share>(8)) << "four strips";
  EXPECT_EQ(names, std::vector<std::string>{".wq_b. (64 outputs)"});
  EXPECT_EQ(shares(2, {40, 8}, {".wq_b."}, &names), std::vector<Share>(2)) << "half a strip";
  EXPECT_EQ(names, std::vector<std::string>{".wq_b. (40 outputs)"});
  EXPECT_EQ(shares(4, {6 * 16, 8}, {".wq_b.", 6}, &names), std::vector<Share>(4));
  EXPECT_EQ(names, std::vector<std::string>{".wq_b. (6 runs of heads)"});
  EXPECT_EQ(shares(4, {6 * 16, 8}, {".wq_b.", 6, true}, &names), std::vector<Share>(4)) << "no whole copies";
  EXPECT_EQ(shares(2, {64, 8}, {".wq_b.", 1}, &names), std::vector<Share>(2)) << "a rule that says so";
  EXPECT_EQ(names.size(), 1U);
  shares(4, {64, 8}, {".wq_b."}, &names);
  EXPECT_TRUE(names.empty());
}

TEST(Shares, WhatStaysWholeInEveryLayerIsNamedOnce) {
  WeightTable table{spec_of("layers.0.wo_b.weight", {40, 8}), spec_of("layers.1.wo_b.weight", {40, 8})};
  const SharedWeights rule{".wo_b."};
  EXPECT_EQ(deal_weights({0, 2}, {&rule, 1}, table).size(), 1U);
}

TEST(Shares, LogitsAreDealtInEveryFamilyAndTheEmbeddingIsNot) {
  WeightTable table{spec_of("embed.weight", {512, 8}), spec_of("embed.weight", {512, 8}),
                    spec_of("mtp.0.head.weight", {512, 8})};
  table[1].role = WeightRole::kLogits, table[2].for_drafts = true;
  EXPECT_TRUE(deal_weights({1, 4}, {}, table).empty());
  EXPECT_EQ(table[0].share.count, 0);
  for (const std::size_t head : {1U, 2U}) {
    EXPECT_EQ(table[head].share.first, 128);
    EXPECT_EQ(table[head].share.count, 128);
  }
}

TEST(Shares, AnOrderDependsOnTheOutputsOfTheWhole) {
  WeightView view;
  view.out = 64, view.in = 8;
  EXPECT_EQ(view.order_out(), 64);
  view.out = 16, view.first_out = 32, view.whole_out = 64;
  EXPECT_EQ(view.order_out(), 64);
}

// For each weight that is dealt, the number of copies of its outputs that all ranks have together.
template <class Table>
std::map<std::string, double> copies(const char* kind, int ranks, const Table& table_of) {
  const ModelConfig config = load_model_config(test_data_dir() + "/oracles/" + kind).value();
  std::map<std::string, double> found;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const WeightSpec& spec : table_of(config, RankGroup{rank, ranks})) {
      if (spec.share.count == 0) continue;
      found[spec.names.front().name] += static_cast<double>(spec.share.count) / static_cast<double>(spec.shape.front());
    }
  }
  return found;
}

WeightTable decoder_table(const ModelConfig& config, const RankGroup& group) {
  decoder::Weights weights;
  WeightTable table = decoder::weight_table(config, {}, weights);
  deal_weights(group, decoder::shared_weights(config, group), table);
  return table;
}
WeightTable mla_table(const ModelConfig& config, const RankGroup& group) {
  mla::Weights weights;
  WeightTable table = mla::weight_table(config, {}, weights, group);
  deal_weights(group, mla::shared_weights(config, group), table);
  return table;
}
WeightTable v4_table(const ModelConfig& config, const RankGroup& group) {
  v4::Weights weights;
  WeightTable table = v4::weight_table(config, {}, weights, group);
  deal_weights(group, v4::shared_weights(config, group), table);
  return table;
}

TEST(Shares, OfADecoderKeyHeadsAreCopiedWhereRanksAreMore) {
  for (const auto& [ranks, keys] : {std::pair(2, 1.0), {4, 2.0}, {8, 4.0}}) {
    const auto found = copies("llama-like", ranks, decoder_table);
    EXPECT_EQ(found.size(), 1 + 3 * 7U) << "the head, and all products of each layer";
    for (const auto& [name, times] : found) {
      const bool of_keys = name.find("k_proj") != std::string::npos || name.find("v_proj") != std::string::npos;
      EXPECT_EQ(times, of_keys ? keys : 1.0) << name << ", " << ranks << " ranks";
    }
  }
  const auto biased = copies("qwen2-swa-like", 4, decoder_table);
  EXPECT_EQ(biased.at("model.layers.0.self_attn.q_proj.bias"), 1.0);
  EXPECT_EQ(biased.at("model.layers.0.self_attn.k_proj.bias"), 2.0);
  const auto few_heads = copies("qwen2-swa-like", 8, decoder_table);  // four of them
  EXPECT_FALSE(few_heads.contains("model.layers.0.self_attn.q_proj.weight"));
  EXPECT_EQ(few_heads.at("model.layers.0.self_attn.o_proj.weight"), 1.0);
}

TEST(Shares, OfLatentModelsTheRouterTheLatentsAndTheIndexerAreNotShared) {
  for (const int ranks : {2, 4}) {
    const auto found = copies("v32-like", ranks, mla_table);
    for (const auto& [name, times] : found) {
      EXPECT_EQ(times, 1.0) << name;
      for (const char* whole : {"indexer", "kv_a_proj", "q_a_proj", "norm", "mlp.gate.", "embed"}) {
        EXPECT_EQ(name.find(whole), std::string::npos) << name;
      }
    }
    for (const char* shared : {"self_attn.q_b_proj.weight", "self_attn.o_proj.weight", "mlp.experts.0.down_proj.weight",
                               "mlp.shared_experts.up_proj.weight"}) {
      EXPECT_TRUE(found.contains("model.layers.2." + std::string(shared))) << shared << ", " << ranks << " ranks";
    }
  }
}

TEST(Shares, OfV4HeadsAreSharedByWholeGroupsOfOutputs) {
  for (const int ranks : {2, 4, 8}) {
    const auto flash = copies("v4-flash-like", ranks, v4_table), pro = copies("v4-pro-like", ranks, v4_table);
    for (const auto& [name, times] : flash) EXPECT_EQ(times, 1.0) << name << ", " << ranks << " ranks";
    const auto shares_heads = [](const auto& found) { return found.contains("layers.2.attn.wq_b.weight"); };
    EXPECT_EQ(shares_heads(flash), ranks == 2) << "two groups";
    EXPECT_EQ(shares_heads(pro), ranks <= 4) << "four groups";
    EXPECT_EQ(flash.contains("layers.2.attn.attn_sink"), ranks == 2);
    EXPECT_TRUE(flash.contains("layers.2.attn.wo_b.weight"));
    EXPECT_FALSE(flash.contains("layers.2.attn.indexer.wq_b.weight"));
  }
}

}  // namespace
}  // namespace sluice::shares_test
