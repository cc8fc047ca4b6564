#include "model/weights/unused_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>

#include "base/storage/temp_folder_testing.h"
#include "base/test_paths_testing.h"
#include "files/safetensors_writer.h"
#include "model/weights/own_head.h"

namespace sluice::unused_tensors_test {
namespace {

using ::testing::HasSubstr;

const std::vector<std::byte> kBytes(64);

Checkpoint checkpoint_of(const TempFolder& folder, const std::vector<std::string>& names) {
  std::vector<TensorSource> tensors;
  for (const std::string& name : names) tensors.push_back({name, DType::kU8, {2, 2}, std::span(kBytes).first(4), {}});
  EXPECT_TRUE(write_safetensors(folder.file("model.safetensors"), tensors).ok());
  return Checkpoint::open(folder.path()).value();
}

ModelConfig config_of(const std::string& oracle) {
  return load_model_config(test_data_dir() + "/oracles/" + oracle).value();
}

// The error of a checkpoint of these tensors, none of which is named by the table; else its note.
std::string judged(const ModelConfig& config, const std::vector<std::string>& names) {
  const TempFolder folder;
  const Checkpoint checkpoint = checkpoint_of(folder, names);
  const auto unused = judge_unused(checkpoint.tensors(), checkpoint, config);
  return unused.ok() ? "(harmless) " + unused->note : unused.status().message();
}

TEST(UnusedTensors, LeftoversAreHarmless) {
  const ModelConfig config = config_of("v3-like");
  for (const char* name :
       {"model.layers.0.self_attn.rotary_emb.inv_freq", "model.layers.0.self_attn.rotary_emb.cos_cached",
        "model.layers.0.self_attn.masked_bias", "model.layers.0.self_attn.bias", "model.layers.0.attn.bias",
        "model.layers.1.self_attn.k_scale", "model.layers.1.self_attn.attn.v_scale"}) {
    EXPECT_EQ(judged(config, {name}), "(harmless) ") << name;
  }
  EXPECT_THAT(judged(config, {"model.layers.9.eh_proj.weight", "model.layers.9.mlp.gate.weight"}),
              HasSubstr("2 tensors of a layer for multi-token prediction"));
  EXPECT_THAT(judged(config_of("v4-flash-like"), {"mtp.0.emb.weight"}), HasSubstr("(harmless) 1 tensors of a layer"));
}

TEST(UnusedTensors, OthersNameTheKey) {
  ModelConfig config = config_of("v3-like");
  config.moe.n_shared_experts = 0;
  const struct {
    const char *name, *says;
  } cases[] = {
      {"model.layers.9.mlp.gate.weight", "it is of layer 9, and 'num_hidden_layers' is"},
      {"model.layers.1.mlp.shared_experts.up_proj.weight", "'n_shared_experts' is 0"},
      {"model.layers.1.mlp.experts.4000.up_proj.weight", "routed expert 4000, and 'n_routed_experts' is"},
      {"model.layers.0.self_attn.o_proj.bias", "'attention_bias'"},
      {"model.layers.0.mlp.up_proj.bias", "'mlp_bias'"},
      {"model.layers.0.self_attn.q_proj.qweight", "'quantization_config'"},
      {"vision_tower.x.weight", "multimodal"},
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", "merge it into the weights"},
      {"something.weight", "'architectures') has no tensor of this name"},
  };
  for (const auto& c : cases) EXPECT_THAT(judged(config, {c.name}), HasSubstr(c.says)) << c.name;
}

TEST(OwnHead, BothAreKept) {
  ModelConfig config = config_of("llama-like");
  const auto tied = [&](const std::vector<std::string>& names) {
    const TempFolder folder;
    config.tie_word_embeddings = true;
    untie_own_head(checkpoint_of(folder, names), config);
    return config.tie_word_embeddings;
  };
  EXPECT_FALSE(tied({"lm_head.weight", "model.embed_tokens.weight"}));
  EXPECT_FALSE(tied({"lm_head.weight", "embed_tokens.weight"}));
  EXPECT_TRUE(tied({"lm_head.weight"}));
  EXPECT_TRUE(tied({"model.embed_tokens.weight"}));
}

}  // namespace
}  // namespace sluice::unused_tensors_test
