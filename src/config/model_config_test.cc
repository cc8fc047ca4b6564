#include "config/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <numeric>

#include "base/storage/mapped_file.h"
#include "base/test_paths_testing.h"
#include "files/json.h"

namespace sluice::model_config_test {
namespace {

namespace json = boost::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kFlash = source_dir() + "/tests/configs/v4-flash.json";
const std::string kPro = source_dir() + "/tests/configs/v4-pro.json";

json::object object_of(const std::string& path) {
  return parse_json(read_text_file(path).value(), path).value().as_object();
}

// Flash with some keys set (null removes) and parsed.
Result<ModelConfig> flash_with(const json::object& changes) {
  json::object config = object_of(kFlash);
  for (const auto& [key, value] : changes) {
    if (value.is_null()) {
      config.erase(key);
    } else {
      config[key] = value;
    }
  }
  return parse_model_config(dump_json(config), "config.json");
}

std::string error_with(const json::object& changes) {
  const auto config = flash_with(changes);
  return config.ok() ? "(accepted)" : config.status().message();
}

std::vector<int> ratios_of(const ModelConfig& config) {
  std::vector<int> ratios;
  for (const DeepSeekV4Layer& layer : config.v4().layers) ratios.push_back(layer.compress_ratio);
  return ratios;
}

std::vector<int> hash_layers_of(const ModelConfig& config) {
  std::vector<int> layers;
  for (std::size_t i = 0; i < config.v4().layers.size(); ++i) {
    if (config.v4().layers[i].hash_routing) layers.push_back(static_cast<int>(i));
  }
  return layers;
}

TEST(ModelConfig, Flash) {
  const auto loaded = load_model_config(kFlash);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const ModelConfig& config = *loaded;
  EXPECT_EQ(config.architecture, "DeepseekV4ForCausalLM");
  EXPECT_EQ(config.model_type, "deepseek_v4");
  EXPECT_EQ(config.vocab_size, 129280);
  EXPECT_EQ(config.hidden_size, 4096);
  EXPECT_EQ(config.num_hidden_layers, 43);
  EXPECT_EQ(config.num_attention_heads, 64);
  EXPECT_EQ(config.num_key_value_heads, 1);
  EXPECT_EQ(config.head_dim, 512);
  EXPECT_EQ(config.max_position_embeddings, 1048576);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.torch_dtype, "bfloat16");
  EXPECT_EQ(config.bos_token_id, 0);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(1));
  EXPECT_EQ(config.rope, RopeConfig{.theta = 10000.0});
  const RopeConfig yarn = {.theta = 160000.0,
                           .yarn = true,
                           .factor = 16.0,
                           .beta_fast = 32.0,
                           .beta_slow = 1.0,
                           .original_max_position_embeddings = 65536};
  EXPECT_EQ(config.compress_rope, yarn);
  EXPECT_EQ(config.moe.n_routed_experts, 256);
  EXPECT_EQ(config.moe.num_experts_per_tok, 6);
  EXPECT_EQ(config.moe.moe_intermediate_size, 2048);
  EXPECT_EQ(config.moe.routed_scaling_factor, 1.5);
  EXPECT_EQ(config.moe.swiglu_limit, 10.0);
  EXPECT_EQ(config.moe.expert_dtype, "fp4");
  EXPECT_TRUE(config.moe.expert_dtype_is_given);
  EXPECT_TRUE(config.quantization.fp8);
  EXPECT_EQ(config.quantization.block_rows, 128);
  EXPECT_EQ(config.quantization.scale_fmt, "ue8m0");
}

TEST(ModelConfig, FlashV4Part) {
  const ModelConfig config = load_model_config(kFlash).value();
  const DeepSeekV4Config& v4 = config.v4();
  EXPECT_EQ(v4.qk_rope_head_dim, 64);
  EXPECT_EQ(v4.nope_head_dim(config.head_dim), 448);
  EXPECT_EQ(v4.q_lora_rank, 1024);
  EXPECT_EQ(v4.o_lora_rank, 1024);
  EXPECT_EQ(v4.o_groups, 8);
  EXPECT_EQ(v4.sliding_window, 128);
  EXPECT_EQ(v4.index_n_heads, 64);
  EXPECT_EQ(v4.index_head_dim, 128);
  EXPECT_EQ(v4.index_topk, 512);
  EXPECT_EQ(v4.hc_sinkhorn_iters, 20);
  ASSERT_EQ(v4.layers.size(), 43U);
  const std::vector<int> ratios = ratios_of(config);
  EXPECT_EQ(ratios[0], 0);
  EXPECT_EQ(ratios[1], 0);
  EXPECT_EQ(std::ranges::count(ratios, 4), 21);
  EXPECT_EQ(std::ranges::count(ratios, 128), 20);
  EXPECT_EQ(ratios[42], 4);
  EXPECT_THAT(hash_layers_of(config), ElementsAre(0, 1, 2));
  EXPECT_THAT(v4.mtp_layers, ElementsAre(DeepSeekV4Layer()));
}

TEST(ModelConfig, Pro) {
  const auto config = load_model_config(kPro);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->hidden_size, 7168);
  EXPECT_EQ(config->v4().o_groups, 16);
  const std::vector<int> ratios = ratios_of(*config);
  EXPECT_EQ(std::ranges::count(ratios, 4), 30);
  EXPECT_EQ(std::ranges::count(ratios, 128), 31);
}

TEST(ModelConfig, EmbeddedModelFolder) {
  const auto config = load_model_config(source_dir() + "/models/sluice-tiny-v4");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->vocab_size, 4096);
  EXPECT_THAT(ratios_of(*config), ElementsAre(0, 0, 4, 128, 4, 128, 4, 128, 4));
  EXPECT_EQ(load_model_config(source_dir() + "/src").status().code(), StatusCode::kNotFound);
}

TEST(ModelConfig, TokenIdsMayBeListsOrAbsent) {
  EXPECT_THAT(flash_with({{"eos_token_id", {1, 7}}})->eos_token_ids, ElementsAre(1, 7));
  const auto none = flash_with({{"eos_token_id", nullptr}, {"bos_token_id", nullptr}});
  EXPECT_TRUE(none->eos_token_ids.empty());
  EXPECT_EQ(none->bos_token_id, -1);
  EXPECT_THAT(error_with({{"eos_token_id", "</s>"}}), HasSubstr("key 'eos_token_id': expected a token id or a list"));
}

TEST(ModelConfig, IdsThatNoTokenHasMeanNone) {
  for (const json::value& id :
       {json::value(-1), json::value(129280), json::value(4294967295U), json::value(UINT64_MAX)}) {
    const auto config = flash_with({{"eos_token_id", {1, id}}, {"bos_token_id", id}, {"pad_token_id", id}});
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_THAT(config->eos_token_ids, ElementsAre(1));
    EXPECT_EQ(config->bos_token_id, -1);
    EXPECT_THAT(config->notes, ElementsAre(HasSubstr("key 'bos_token_id': no token has the id"),
                                           HasSubstr("key 'eos_token_id': no token has the id")));
  }
}

TEST(ModelConfig, TextsOfPython) {
  std::string text = read_text_file(kFlash).value();
  text.insert(text.find('{') + 1, R"("a":NaN,"b":[-Infinity,1e400],"c":"\ud800",)");
  const auto config = parse_model_config(text, "config.json");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_THAT(config->notes, ElementsAre(HasSubstr("have no keys 'a', 'b', 'c'")));
  text.insert(text.find('{') + 1, R"("rms_norm_eps2":1,)");
  const std::string key = "\"rms_norm_eps\":";
  const std::size_t at = text.find(key);
  ASSERT_NE(at, std::string::npos);
  text.replace(at + key.size(), text.find(',', at) - at - key.size(), " NaN");
  EXPECT_THAT(parse_model_config(text, "c").status().message(), HasSubstr("key 'rms_norm_eps': expected a number"));
}

TEST(ModelConfig, NamesOfDtypes) {
  for (const char* name : {"half", "torch.float64", "float8_e4m3fn"}) {
    EXPECT_TRUE(flash_with({{"torch_dtype", name}}).ok()) << name;
  }
  EXPECT_EQ(flash_with({{"dtype", {{"", "bfloat16"}}}})->torch_dtype, "bfloat16");
}

TEST(ModelConfig, ModelTypeAndArchitecturesMeanOneFamily) {
  EXPECT_EQ(flash_with({{"architectures", {"DeepseekV4Model"}}})->architecture, "DeepseekV4ForCausalLM");
  EXPECT_THAT(error_with({{"model_type", "mistral"}}),
              AllOf(HasSubstr("key 'model_type': expected \"deepseek_v4\""), HasSubstr("DeepseekV4ForCausalLM"),
                    HasSubstr("found \"mistral\"")));
  EXPECT_THAT(error_with({{"model_type", "gpt2"}}), HasSubstr("key 'model_type'"));
}

TEST(ModelConfig, UnquantisedCheckpointsHaveBf16Experts) {
  const auto config = flash_with({{"quantization_config", nullptr}, {"expert_dtype", nullptr}});
  ASSERT_TRUE(config.ok());
  EXPECT_FALSE(config->quantization.fp8);
  EXPECT_EQ(config->moe.expert_dtype, "bf16");
  EXPECT_EQ(flash_with({{"expert_dtype", nullptr}})->moe.expert_dtype, "fp4");
  EXPECT_FALSE(flash_with({{"expert_dtype", nullptr}})->moe.expert_dtype_is_given);
}

// Flash in the newer form, with 5 layers.
json::object newer_form() {
  json::object config = object_of(kFlash);
  for (const char* key : {"compress_ratios", "num_hash_layers", "qk_rope_head_dim", "rope_theta", "rope_scaling",
                          "compress_rope_theta"}) {
    config.erase(key);
  }
  config["num_hidden_layers"] = 5;
  config["layer_types"] = {"sliding_attention", "sliding_attention", "compressed_sparse_attention",
                           "heavily_compressed_attention", "compressed_sparse_attention"};
  config["compress_rates"] = {{"compressed_sparse_attention", 4}, {"heavily_compressed_attention", 128}};
  config["mlp_layer_types"] = {"hash_moe", "moe", "hash_moe", "moe", "moe"};
  config["partial_rotary_factor"] = 0.125;
  config["rope_parameters"] = {{"main", {{"rope_type", "default"}, {"rope_theta", 20000.0}}},
                               {"compress",
                                {{"rope_type", "yarn"},
                                 {"rope_theta", 170000},
                                 {"factor", 8.0},
                                 {"beta_fast", 31},
                                 {"beta_slow", 2.0},
                                 {"attention_factor", 1.0},
                                 {"original_max_position_embeddings", 4096}}}};
  return config;
}

Result<ModelConfig> parse(const json::object& config) {
  return parse_model_config(dump_json(config), "config.json");
}

std::string error_of(const json::object& config) {
  const auto parsed = parse(config);
  return parsed.ok() ? "(accepted)" : parsed.status().message();
}

TEST(ModelConfigNewerForm, NestedRopeParameters) {
  const auto config = parse(newer_form());
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_THAT(ratios_of(*config), ElementsAre(0, 0, 4, 128, 4));
  EXPECT_THAT(hash_layers_of(*config), ElementsAre(0, 2));
  EXPECT_EQ(config->v4().qk_rope_head_dim, 64);
  EXPECT_EQ(config->rope, RopeConfig{.theta = 20000.0});
  const RopeConfig yarn = {.theta = 170000.0,
                           .yarn = true,
                           .factor = 8.0,
                           .beta_fast = 31.0,
                           .beta_slow = 2.0,
                           .original_max_position_embeddings = 4096};
  EXPECT_EQ(config->compress_rope, yarn);
}

TEST(ModelConfigNewerForm, FlatRopeParameters) {
  json::object config = newer_form();
  config["rope_parameters"] = {{"rope_type", "yarn"},
                               {"rope_theta", 30000},
                               {"factor", 16},
                               {"beta_fast", 32},
                               {"beta_slow", 1},
                               {"original_max_position_embeddings", 65536},
                               {"partial_rotary_factor", 0.25}};
  config.erase("partial_rotary_factor");
  auto parsed = parse(config);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->rope, RopeConfig{.theta = 30000.0});
  EXPECT_EQ(parsed->compress_rope.theta, 160000.0);
  EXPECT_TRUE(parsed->compress_rope.yarn);
  EXPECT_EQ(parsed->v4().qk_rope_head_dim, 128);
  config["compress_rope_theta"] = 50000;
  EXPECT_EQ(parse(config)->compress_rope.theta, 50000.0);
}

TEST(ModelConfigNewerForm, WithoutLayerTypesTheLibrarysSchedule) {
  json::object config = newer_form();
  config.erase("layer_types");
  config.erase("mlp_layer_types");
  config["num_hidden_layers"] = 7;
  const auto parsed = parse(config);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_THAT(ratios_of(*parsed), ElementsAre(128, 128, 128, 4, 128, 4, 128));
  EXPECT_THAT(hash_layers_of(*parsed), ElementsAre(0, 1, 2));
}

TEST(ModelConfigNewerForm, OfficialKeysWin) {
  json::object config = newer_form();
  config["compress_ratios"] = {128, 128, 4, 128, 4, 0};
  config["num_hash_layers"] = 1;
  config["qk_rope_head_dim"] = 32;
  config["rope_theta"] = 10000;
  config["compress_rope_theta"] = 160000;
  config["rope_scaling"] = {{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 1024}};
  const auto parsed = parse(config);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_THAT(ratios_of(*parsed), ElementsAre(128, 128, 4, 128, 4));
  EXPECT_THAT(hash_layers_of(*parsed), ElementsAre(0));
  EXPECT_EQ(parsed->v4().qk_rope_head_dim, 32);
  EXPECT_EQ(parsed->rope.theta, 10000.0);
  EXPECT_EQ(parsed->compress_rope.theta, 160000.0);
  EXPECT_EQ(parsed->compress_rope.factor, 4.0);
  EXPECT_EQ(parsed->compress_rope.beta_fast, 32.0);
}

TEST(ModelConfigNewerForm, Errors) {
  const auto error = [](std::string_view key, const json::value& value) {
    json::object config = newer_form();
    config[key] = value;
    return error_of(config);
  };
  EXPECT_THAT(error("layer_types", json::array{"sliding_attention"}),
              HasSubstr("key 'layer_types': expected a type for each of num_hidden_layers = 5"));
  EXPECT_THAT(error("layer_types", {"a", "b", "c", "d", "e"}), HasSubstr("expected types sliding_attention"));
  EXPECT_THAT(error("mlp_layer_types", {"moe", "moe", "dense", "moe", "moe"}), HasSubstr("hash_moe or moe"));
  EXPECT_THAT(error("mlp_layer_types", json::array()), HasSubstr("mlp_layer_types"));
  EXPECT_THAT(error("compress_rates", json::object{{"compressed_sparse_attention", 8}}),
              HasSubstr("key 'compress_rates': key 'compressed_sparse_attention': expected an integer from 4 to 4"));
  EXPECT_THAT(error("partial_rotary_factor", 0.3), HasSubstr("an even number of rotated dims"));
  EXPECT_THAT(error("partial_rotary_factor", 2), HasSubstr("from 0.0 to 1.0, found 2"));
  EXPECT_THAT(error("partial_rotary_factor", nullptr), HasSubstr("or a partial_rotary_factor"));
  EXPECT_THAT(error("rope_parameters", json::object{{"rope_type", "linear"}, {"factor", 2}}),
              HasSubstr("key 'rope_parameters': key 'rope_type': expected \"yarn\" or \"default\", found \"linear\""));
  EXPECT_THAT(error("rope_parameters", json::object{{"compress", 3}}), HasSubstr("key 'compress': expected an object"));
}

TEST(ModelConfigErrors, UnknownFamilies) {
  EXPECT_THAT(error_with({{"architectures", json::array{"GPT2LMHeadModel"}}}),
              AllOf(HasSubstr("config.json: key 'architectures'"), HasSubstr("DeepseekV4ForCausalLM"),
                    HasSubstr("found [\"GPT2LMHeadModel\"]")));
  EXPECT_THAT(error_with({{"architectures", nullptr}, {"model_type", "gpt2"}}), HasSubstr("found \"gpt2\""));
  EXPECT_THAT(error_with({{"architectures", nullptr}, {"model_type", nullptr}}), HasSubstr("found nothing"));
  EXPECT_EQ(error_with({{"architectures", nullptr}}), "(accepted)");
  EXPECT_THAT(parse_model_config("[]", "c").status().message(), HasSubstr("c: expected an object, found []"));
  EXPECT_THAT(parse_model_config("{", "c").status().message(), HasSubstr("c: line 1, column 2"));
}

TEST(ModelConfigErrors, NameKeyExpectationAndFinding) {
  EXPECT_EQ(error_with({{"hidden_size", "abc"}}),
            "config.json: key 'hidden_size': expected an integer from 1 to 1048576, found \"abc\"");
  EXPECT_THAT(error_with({{"hidden_size", nullptr}}), HasSubstr("key 'hidden_size': expected a value, found nothing"));
  EXPECT_THAT(error_with({{"hidden_size", 4096.0}}), HasSubstr("found 4096.0"));
  EXPECT_THAT(error_with({{"num_attention_heads", 1e308}}), HasSubstr("found 1e+308"));
  EXPECT_THAT(error_with({{"rms_norm_eps", -1.0}}), HasSubstr("a number from 0.0 to 1.0, found -1.0"));
  EXPECT_THAT(error_with({{"num_experts_per_tok", 257}}), HasSubstr("from 1 to 256, found 257"));
  EXPECT_THAT(error_with({{"o_groups", 7}}), HasSubstr("a divisor of num_attention_heads (64), found 7"));
  EXPECT_THAT(error_with({{"index_head_dim", 96}}), HasSubstr("a power of two of at least qk_rope_head_dim (64)"));
  EXPECT_THAT(error_with({{"index_head_dim", 32}}), HasSubstr("'index_head_dim'"));
  EXPECT_THAT(error_with({{"qk_rope_head_dim", 63}}), HasSubstr("even number"));
  EXPECT_THAT(error_with({{"qk_rope_head_dim", 514}}), HasSubstr("from 2 to 512"));
  EXPECT_THAT(error_with({{"num_key_value_heads", 8}}), HasSubstr("expected 1, found 8"));
  EXPECT_THAT(error_with({{"hc_mult", 2}}), HasSubstr("'hc_mult'"));
  EXPECT_THAT(error_with({{"sliding_window", 0}}), HasSubstr("'sliding_window'"));
  EXPECT_THAT(error_with({{"num_hash_layers", 44}}), HasSubstr("from 0 to 43"));
  EXPECT_THAT(error_with({{"expert_dtype", "int4"}}), HasSubstr("'expert_dtype'"));
  EXPECT_THAT(error_with({{"torch_dtype", "q4_k"}}), HasSubstr("'torch_dtype'"));
}

TEST(ModelConfigErrors, CompressRatios) {
  const auto with_ratios = [](std::vector<int> ratios) {
    return error_with({{"num_hidden_layers", 4}, {"compress_ratios", json::array(ratios.begin(), ratios.end())}});
  };
  EXPECT_EQ(with_ratios({0, 4, 128, 4}), "(accepted)");
  EXPECT_EQ(with_ratios({0, 4, 128, 4, 0}), "(accepted)");
  EXPECT_THAT(with_ratios({0, 4, 128}), HasSubstr("4 to 5 ratios for num_hidden_layers = 4, found [0, 4, 128]"));
  EXPECT_THAT(with_ratios({0, 4, 128, 4, 0, 0}), HasSubstr("4 to 5 ratios"));
  EXPECT_THAT(with_ratios({0, 4, 64, 4}), HasSubstr("ratios of 0, 4 or 128"));
  EXPECT_THAT(with_ratios({0, 4, 128, 4, 4}), HasSubstr("0 for the MTP layers"));
}

TEST(ModelConfigErrors, UnsupportedVariants) {
  EXPECT_THAT(error_with({{"scoring_func", "softmax"}}), HasSubstr("expected \"sqrtsoftplus\", found \"softmax\""));
  EXPECT_THAT(error_with({{"norm_topk_prob", false}}), HasSubstr("expected true, found false"));
  EXPECT_THAT(error_with({{"tie_word_embeddings", true}}), HasSubstr("expected false, found true"));
  EXPECT_THAT(error_with({{"hidden_act", "gelu"}}), HasSubstr("\"silu\""));
  EXPECT_THAT(
      error_with({{"quantization_config", {{"quant_method", "gptq"}}}}),
      HasSubstr("key 'quantization_config': key 'quant_method': expected \"fp8\", found \"gptq\"; weights quantised "
                "by gptq are not read: use the model's checkpoint in bf16"));
  EXPECT_THAT(error_with({{"quantization_config", {{"load_in_4bit", true}}}}), HasSubstr("quantised by bitsandbytes"));
  EXPECT_THAT(error_with({{"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128, 0}}}}}),
              HasSubstr("'weight_block_size'"));
  EXPECT_THAT(error_with({{"rope_scaling", {{"type", "yarn"}, {"factor", 4}}}}),
              HasSubstr("key 'rope_scaling': key 'original_max_position_embeddings'"));
  EXPECT_THAT(error_with({{"rope_scaling", {{"type", "dynamic"}}}}), HasSubstr("\"yarn\" or \"default\""));
}

// Checks the promises of every accepted config to the code that uses it.
void check_promises(const ModelConfig& c) {
  const DeepSeekV4Config& v4 = c.v4();
  ASSERT_EQ(v4.layers.size(), static_cast<std::size_t>(c.num_hidden_layers));
  for (const DeepSeekV4Layer& layer : v4.layers) {
    ASSERT_TRUE(layer.compress_ratio == 0 || layer.compress_ratio == 4 || layer.compress_ratio == 128);
  }
  ASSERT_GT(c.vocab_size, 0);
  ASSERT_GT(c.hidden_size, 0);
  ASSERT_GE(c.head_dim, v4.qk_rope_head_dim);
  ASSERT_EQ(v4.qk_rope_head_dim % 2, 0);
  ASSERT_GT(v4.qk_rope_head_dim, 0);
  ASSERT_EQ(c.num_attention_heads % v4.o_groups, 0);
  ASSERT_LE(c.moe.num_experts_per_tok, c.moe.n_routed_experts);
  ASSERT_TRUE(std::isfinite(c.rope.theta) && std::isfinite(c.compress_rope.theta) && std::isfinite(c.rms_norm_eps));
  ASSERT_TRUE(!c.compress_rope.yarn || c.compress_rope.original_max_position_embeddings > 0);
  ASSERT_LT(c.bos_token_id, c.vocab_size);
  for (const std::int32_t id : c.eos_token_ids) ASSERT_TRUE(id >= 0 && id < c.vocab_size);
}

// Each key of the config, nested ones too, replaced by each absurd value and removed.
void mutate_everywhere(const json::object& root, json::object& where, const std::vector<json::value>& absurd) {
  for (std::size_t i = 0; i < where.size(); ++i) {
    const std::string key((where.begin() + static_cast<std::ptrdiff_t>(i))->key());
    const json::value original = where.at(key);
    for (const json::value& value : absurd) {
      where[key] = value;
      const auto config = parse(root);
      SCOPED_TRACE(key + " = " + describe_json(&value));
      if (config.ok()) {
        check_promises(*config);
      } else {
        EXPECT_THAT(config.status().message(), HasSubstr("config.json: key '"));
      }
    }
    where[key] = original;
    if (original.is_object()) mutate_everywhere(root, where.at(key).get_object(), absurd);
  }
}

TEST(ModelConfigErrors, SurvivesAbsurdValuesOfEveryKey) {
  const std::vector<json::value> absurd = {nullptr,
                                           true,
                                           false,
                                           "",
                                           "abc",
                                           0,
                                           -1,
                                           1,
                                           3,
                                           0.5,
                                           -0.0,
                                           1e308,
                                           -1e308,
                                           5e-324,
                                           INT32_MAX,
                                           INT64_MAX,
                                           INT64_MIN,
                                           UINT64_MAX,
                                           json::array(),
                                           json::object(),
                                           {1, 2, 3},
                                           {-1, 1e308, "x", nullptr},
                                           json::array(5000, 4),
                                           {{"type", "yarn"}, {"rope_type", "yarn"}, {"factor", 0}},
                                           {{"main", nullptr}, {"compress", {{"rope_theta", -1}}}}};
  json::object official = object_of(kFlash);
  mutate_everywhere(official, official, absurd);
  json::object newer = newer_form();
  mutate_everywhere(newer, newer, absurd);
}

TEST(ModelConfigErrors, RequiredKeys) {
  for (const char* key : {"vocab_size",
                          "hidden_size",
                          "num_hidden_layers",
                          "num_attention_heads",
                          "max_position_embeddings",
                          "rms_norm_eps",
                          "head_dim",
                          "qk_rope_head_dim",
                          "q_lora_rank",
                          "o_lora_rank",
                          "o_groups",
                          "sliding_window",
                          "index_n_heads",
                          "index_head_dim",
                          "index_topk",
                          "n_routed_experts",
                          "n_shared_experts",
                          "num_experts_per_tok",
                          "moe_intermediate_size",
                          "routed_scaling_factor",
                          "swiglu_limit",
                          "hc_mult",
                          "hc_sinkhorn_iters",
                          "hc_eps",
                          "num_hash_layers",
                          "rope_theta",
                          "compress_rope_theta"}) {
    EXPECT_THAT(error_with({{key, nullptr}}), HasSubstr(std::string("config.json: key '") + key + "': expected"));
  }
}

}  // namespace
}  // namespace sluice::model_config_test
