// Tests of each profile for each family, with values from docs/dev/numerics.md: the types of its cached rows, the input
// form of every linear, and the rounding of an indexer's queries and keys.
#include "model/numerics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/test_paths_testing.h"
#include "model/decoder/weights.h"
#include "model/deepseek_mla/weights.h"
#include "model/deepseek_v4/weights.h"
#include "model/model_plan.h"

namespace sluice::numerics_test {
namespace {

using ::testing::ContainerEq;
using enum RowCodec;

ModelConfig config_of(const std::string& name) {
  const std::string file = name.ends_with("-like") ? test_data_dir() + "/oracles/" + name + "/config.json"
                                                   : source_dir() + "/tests/configs/" + name + ".json";
  return load_model_config(file).value();
}

EngineSetup with(const std::string& profile, const std::string& compute = "auto") {
  EngineSetup options;
  options.numerics.profile = profile;
  options.numerics.compute_dtype = compute;
  return options;
}

// "layers.3.experts.12.w1" -> "layers.*.experts.*.w1"
std::string without_numbers(const std::string& name) {
  std::string text;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    const std::string part = name.substr(at, end - at);
    const bool number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    text += (at > 0 ? "." : "") + (number ? "*" : part);
    at = end + 1;
  }
  return text;
}

// Cached rows.
struct Rows {
  RowCodec kv, kv_simulation;  // stored, and what they pass through before
  RowCodec index, index_query;
  bool rotated, index_simulated;
};

std::string text(const Rows& r) {
  return fmt::format("kv {} through {}, index {}, queries {}, {}rotated, keys {}simulated", name(r.kv),
                     name(r.kv_simulation), name(r.index), name(r.index_query), r.rotated ? "" : "not ",
                     r.index_simulated ? "" : "not ");
}

constexpr Rows kAsTheyAre{kF32, kF32, kF32, kF32, false, false};
constexpr Rows kBf16Rows{kBf16, kF32, kF32, kF32, false, false};

struct Family {
  std::vector<const char*> configs;
  Rows by_default, ref;
};

const Family kFamilies[] = {
    {{"v4-flash", "v4-pro"},
     {kV4Fp8, kF32, kIndexFp4, kIndexFp4, true, false},
     {kF32, kV4Fp8, kF32, kIndexFp4, true, true}},
    {{"v4-flash-like", "v4-pro-like"},
     {kBf16, kF32, kBf16, kF32, false, false},
     {kF32, kV4Fp8, kF32, kIndexFp4, true, true}},
    {{"v3.2", "v32-like"},
     {kMlaFp8, kF32, kIndexFp8, kIndexFp8, true, false},
     {kF32, kMlaFp8, kF32, kIndexFp8, true, true}},
    {{"v2", "v2-lite", "v3", "kimi-k2", "v2-like", "v2-lite-like", "v3-like"}, kBf16Rows, kAsTheyAre},
    {{"llama-like", "qwen2-swa-like", "qwen3-yarn-like", "qwen3moe-like"}, kBf16Rows, kAsTheyAre},
};

void expect_rows(const std::string& config, const std::string& profile, const Rows& expected) {
  SCOPED_TRACE(config + " " + profile);
  const auto plan = plan_model(config_of(config), with(profile));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const NumericsProfile& p = plan->profile;
  EXPECT_EQ(text({p.kv, p.kv_simulation, p.index, p.index_query, p.index_hadamard, p.simulate_index}), text(expected));
  EXPECT_EQ(p.inputs, profile == "default" ? InputForm::kInt8 : InputForm::kF32);
  EXPECT_EQ(p.bf16_attention(), profile == "default");
  EXPECT_EQ(p.expand_from, 0);
  for (const PlaneSpec& plane : plan->cache_layout.planes) {
    if (plane.kind == PlaneKind::kOpen) continue;
    const bool index = plane.name.ends_with(".index");
    EXPECT_EQ(plane.format.codec, index ? expected.index : expected.kv) << plane.name;
  }
}

TEST(Numerics, Sm90HasTheCachesOfTheDefaultAndItsInputsInBf16) {
  const auto text_of = [](const EngineSetup& options) {
    const auto plan = plan_model(config_of("v4-flash"), options);
    return plan.ok() ? plan->profile.text() : plan.status().message();
  };
  EngineSetup options = with("sm90");
  EXPECT_EQ(text_of(options), "sm90 bf16 kv=fp8 index=fp4");
  options.numerics.compute_dtype = "int8";
  EXPECT_EQ(text_of(options), "sm90 int8 kv=fp8 index=fp4");
  options.numerics.compute_dtype = "f32";
  EXPECT_EQ(text_of(options),
            "--profile sm90 --compute-dtype f32: its tensor cores multiply bf16 or FP8; expected auto, bf16, fp8 or "
            "int8 (integers for weights that are blocks of integers), or another profile");
}

TEST(Numerics, ExpertTypesThatSayNothingAreErrors) {
  const auto error = [](const char* model, const char* profile, const char* compute, const char* experts) {
    EngineSetup options = with(profile, compute);
    options.numerics.expert_dtype = experts;
    return resolve_profile(options, config_of(model)).status().message();
  };
  EXPECT_EQ(error("v4-flash", "sm90", "auto", "fp8"), "--expert-dtype: expected auto or int8, found 'fp8'");
  EXPECT_EQ(
      error("v4-flash", "sm90", "int8", "int8"),
      "--expert-dtype int8: with --profile sm90 --compute-dtype int8 experts in MXFP4 multiply int8 already; leave "
      "the flag out");
  EXPECT_EQ(error("v4-flash", "default", "auto", "int8"),
            "--expert-dtype int8: with --profile default experts in MXFP4 multiply int8 already; leave the flag out");
  EXPECT_EQ(error("v4-flash", "plain", "auto", "int8"),
            "--expert-dtype int8: for --profile sm90 alone, found --profile plain; leave the flag out, or give "
            "--profile sm90");
  EXPECT_EQ(error("v3", "sm90", "auto", "int8"),
            "--expert-dtype int8: the model has no experts in MXFP4 (config.json: 'expert_dtype'); leave the flag out");
}

// Pages that were computed in the orders of kernels/ops/attention.h are not met.
TEST(Numerics, Sm90NamesTheOrderOfAttentionOverRowsThatAreNotV4s) {
  const auto text_of = [](const char* config, const char* kv, const char* profile) {
    EngineSetup options = with(profile);
    options.numerics.kv_cache_dtype = kv;
    return plan_model(config_of(config), options).value().profile.text();
  };
  EXPECT_EQ(text_of("v3-like", "auto", "sm90"), "sm90 bf16 kv=bf16 norms=blocks attention=blocks");
  EXPECT_EQ(text_of("v3-like", "fp8", "sm90"), "sm90 bf16 kv=fp8 norms=blocks attention=blocks");
  EXPECT_EQ(text_of("v32-like", "auto", "sm90"), "sm90 bf16 kv=fp8 index=fp8 norms=blocks attention=blocks");
  EXPECT_EQ(text_of("llama-like", "auto", "sm90"), "sm90 bf16 kv=bf16 norms=blocks attention=blocks");
  EXPECT_EQ(text_of("llama-like", "f32", "sm90"), "sm90 bf16 kv=f32 norms=blocks");
  EXPECT_EQ(text_of("llama-like", "auto", "default"), "default int8 kv=bf16");
}

TEST(Numerics, TilesHasTheCachesOfTheDefaultAndBf16InputsInAnOrderOfTheirOwn) {
  EngineSetup options = with("amx");
  const auto plan = plan_model(config_of("v4-flash"), options);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->profile.text(), "amx bf16 kv=fp8 index=fp4 attention=tiles");
  EXPECT_EQ(plan->profile.inputs, InputForm::kTiles);
  EXPECT_TRUE(plan->profile.bf16_attention());
  EXPECT_TRUE(plan->profile.tiles_attention());
  for (const char* dtype : {"f32", "int8", "fp8"}) {
    options.numerics.compute_dtype = dtype;
    const auto refused = plan_model(config_of("v4-flash"), options);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().message(), std::string("--profile amx --compute-dtype ") + dtype +
                                              ": its products are of bf16 inputs; expected auto or bf16, or another "
                                              "profile");
  }
}

TEST(Numerics, CachedRowsOfEveryFamily) {
  for (const Family& family : kFamilies) {
    for (const char* config : family.configs) {
      expect_rows(config, "default", family.by_default);
      expect_rows(config, "ref", family.ref);
      expect_rows(config, "plain", kAsTheyAre);
    }
  }
}

// Inputs of linears. By the weight's name: how the official checkpoint stores it, and the form of its inputs in the
// default profile.
struct Linear {
  WeightFormat stored;
  InputForm inputs;
  friend bool operator==(const Linear&, const Linear&) = default;
};
using Linears = std::map<std::string, Linear>;

void PrintTo(const Linear& linear, std::ostream* out) {
  *out << name(linear.stored) << " form " << static_cast<int>(linear.inputs);
}

constexpr Linear kFp4{WeightFormat::kMxfp4, InputForm::kInt8};
constexpr Linear kFp8{WeightFormat::kFp8, InputForm::kBf16};
constexpr Linear kHalf{WeightFormat::kBf16, InputForm::kBf16};
constexpr Linear kExact{WeightFormat::kBf16, InputForm::kF32};  // bf16 weights that take their inputs as they are
constexpr Linear kFloats{WeightFormat::kF32, InputForm::kF32};
constexpr Linear kFp8Turned{WeightFormat::kFp8, InputForm::kF32};  // bound as the transpose, in f32

const Linears kV4 = {
    {"head.weight", kHalf},
    {"hc_head_fn", kFloats},
    {"layers.*.hc_attn_fn", kFloats},
    {"layers.*.hc_ffn_fn", kFloats},
    {"layers.*.attn.wq_a.weight", kFp8},
    {"layers.*.attn.wq_b.weight", kFp8},
    {"layers.*.attn.wkv.weight", kFp8},
    {"layers.*.attn.wo_a.weight", kFp8},
    {"layers.*.attn.wo_b.weight", kFp8},
    {"layers.*.attn.compressor.wkv.weight", kHalf},
    {"layers.*.attn.compressor.wgate.weight", kHalf},
    {"layers.*.attn.indexer.wq_b.weight", kFp8},
    {"layers.*.attn.indexer.weights_proj.weight", kHalf},
    {"layers.*.attn.indexer.compressor.wkv.weight", kHalf},
    {"layers.*.attn.indexer.compressor.wgate.weight", kHalf},
    {"layers.*.ffn.gate.weight", kExact},
    {"layers.*.ffn.experts.*.w1.weight", kFp4},
    {"layers.*.ffn.experts.*.w2.weight", kFp4},
    {"layers.*.ffn.experts.*.w3.weight", kFp4},
    {"layers.*.ffn.shared_experts.w1.weight", kFp8},
    {"layers.*.ffn.shared_experts.w2.weight", kFp8},
    {"layers.*.ffn.shared_experts.w3.weight", kFp8},
};

const Linears kV3 = {
    {"lm_head.weight", kHalf},
    {"model.layers.*.self_attn.q_a_proj.weight", kFp8},
    {"model.layers.*.self_attn.q_b_proj.weight", kFp8},
    {"model.layers.*.self_attn.kv_a_proj_with_mqa.weight", kFp8},
    {"model.layers.*.self_attn.kv_b_proj.weight", kFp8},
    {"model.layers.*.self_attn.kv_b_proj.weight turned", kFp8Turned},
    {"model.layers.*.self_attn.o_proj.weight", kFp8},
    {"model.layers.*.mlp.gate_proj.weight", kFp8},
    {"model.layers.*.mlp.up_proj.weight", kFp8},
    {"model.layers.*.mlp.down_proj.weight", kFp8},
    {"model.layers.*.mlp.gate.weight", kExact},
    {"model.layers.*.mlp.experts.*.gate_proj.weight", kFp8},
    {"model.layers.*.mlp.experts.*.up_proj.weight", kFp8},
    {"model.layers.*.mlp.experts.*.down_proj.weight", kFp8},
    {"model.layers.*.mlp.shared_experts.gate_proj.weight", kFp8},
    {"model.layers.*.mlp.shared_experts.up_proj.weight", kFp8},
    {"model.layers.*.mlp.shared_experts.down_proj.weight", kFp8},
};

const Linears kIndexer = {
    {"model.layers.*.self_attn.indexer.wq_b.weight", kFp8},
    {"model.layers.*.self_attn.indexer.wk.weight", kFp8},
    {"model.layers.*.self_attn.indexer.weights_proj.weight", kHalf},
};

const Linears kLlama = {
    {"lm_head.weight", kExact},
    {"model.layers.*.self_attn.q_proj.weight", kHalf},
    {"model.layers.*.self_attn.k_proj.weight", kHalf},
    {"model.layers.*.self_attn.v_proj.weight", kHalf},
    {"model.layers.*.self_attn.o_proj.weight", kHalf},
    {"model.layers.*.mlp.gate_proj.weight", kHalf},
    {"model.layers.*.mlp.up_proj.weight", kHalf},
    {"model.layers.*.mlp.down_proj.weight", kHalf},
};

const Linears kQwen3Moe = {
    {"lm_head.weight", kExact},
    {"model.layers.*.self_attn.q_proj.weight", kHalf},
    {"model.layers.*.self_attn.k_proj.weight", kHalf},
    {"model.layers.*.self_attn.v_proj.weight", kHalf},
    {"model.layers.*.self_attn.o_proj.weight", kHalf},
    {"model.layers.*.mlp.gate.weight", kExact},
    {"model.layers.*.mlp.experts.*.gate_proj.weight", kHalf},
    {"model.layers.*.mlp.experts.*.up_proj.weight", kHalf},
    {"model.layers.*.mlp.experts.*.down_proj.weight", kHalf},
};

Linears together(Linears a, const Linears& b) {
  a.insert(b.begin(), b.end());
  return a;
}
Linears renamed(Linears linears, const std::string& from, const std::string& to) {
  auto node = linears.extract(from);
  node.key() = to;
  linears.insert(std::move(node));
  return linears;
}
// V2-Lite has no rank of queries.
Linears without_query_rank(Linears linears) {
  linears.erase("model.layers.*.self_attn.q_a_proj.weight");
  return renamed(std::move(linears), "model.layers.*.self_attn.q_b_proj.weight",
                 "model.layers.*.self_attn.q_proj.weight");
}
// The same model stored in bf16.
Linears in_bf16(Linears linears) {
  for (auto& [name, linear] : linears) {
    if (linear.stored == WeightFormat::kFp8 || linear.stored == WeightFormat::kMxfp4) linear = kHalf;
  }
  return linears;
}

// Without layers for multi-token prediction.
Linears linears_of(const std::string& name, const EngineSetup& options) {
  const ModelConfig config = config_of(name);
  const NumericsProfile profile = resolve_profile(options, config).value();
  v4::Weights v4;
  mla::Weights mla;
  decoder::Weights decoder;
  WeightTable table;
  if (std::holds_alternative<DeepSeekV4Config>(config.family)) table = weight_table(config, profile, v4);
  if (std::holds_alternative<DeepSeekMlaConfig>(config.family)) table = weight_table(config, profile, mla);
  if (std::holds_alternative<DecoderConfig>(config.family)) table = weight_table(config, profile, decoder);
  Linears linears;
  for (const WeightSpec& spec : table) {
    if (!std::holds_alternative<LinearWeight*>(spec.into) || !spec.group.empty()) continue;
    const bool turned = spec.names.front().transposed;
    const bool becomes_f32 = turned && weight_format(spec.stored).scaled;
    const Linear found{spec.stored, input_form(spec.inputs, becomes_f32 ? WeightFormat::kF32 : spec.stored)};
    const auto [at, is_new] =
        linears.emplace(without_numbers(spec.names.front().name) + (turned ? " turned" : ""), found);
    EXPECT_EQ(at->second, found) << spec.names.front().name << ", unlike another layer's";
  }
  return linears;
}

const std::map<std::string, Linears> kLinears = {
    {"v4-flash", kV4},
    {"v4-pro", kV4},
    {"v4-flash-like", in_bf16(kV4)},
    {"v4-pro-like", in_bf16(kV4)},
    {"v3.2", together(kV3, kIndexer)},
    {"v32-like", in_bf16(together(kV3, kIndexer))},
    {"v3", kV3},
    {"kimi-k2", kV3},
    {"v3-like", in_bf16(kV3)},
    {"v2", in_bf16(kV3)},
    {"v2-like", in_bf16(kV3)},
    {"v2-lite", in_bf16(without_query_rank(kV3))},
    {"v2-lite-like", in_bf16(without_query_rank(kV3))},
    {"llama-like", renamed(kLlama, "lm_head.weight", "model.embed_tokens.weight")},  // tied
    {"qwen2-swa-like", kLlama},
    {"qwen3-yarn-like", renamed(kLlama, "lm_head.weight", "model.embed_tokens.weight")},
    {"qwen3moe-like", kQwen3Moe},
};

// Elsewhere its inputs are floats.
TEST(Numerics, TheHeadOfGroupedQueryModelsTakesBf16InSm90) {
  Linears llama = kLlama, moe = kQwen3Moe;
  llama.at("lm_head.weight") = moe.at("lm_head.weight") = kHalf;
  for (const char* const dtype : {"auto", "fp8", "int8"}) {
    const Linears found = linears_of("qwen2-swa-like", with("sm90", dtype));
    EXPECT_EQ(found.at("lm_head.weight"), kHalf) << dtype;
  }
  EXPECT_EQ(linears_of("qwen2-swa-like", with("sm90", "auto")), llama);
  EXPECT_EQ(linears_of("qwen3moe-like", with("sm90", "auto")), moe);
}

TEST(Numerics, Sm90InFp8MultipliesCodesByFp8WeightsAlone) {
  EngineSetup options = with("sm90", "fp8");
  const NumericsProfile profile = resolve_profile(options, config_of("v4-flash")).value();
  EXPECT_EQ(profile.text(), "sm90 fp8 kv=fp8 index=fp4");
  EXPECT_TRUE(profile.bf16_attention());
  EXPECT_EQ(float_inputs(profile.inputs), InputForm::kBf16);
  Linears expected = kV4;
  for (auto& [name, linear] : expected) {
    if (linear.stored == WeightFormat::kFp8) linear.inputs = InputForm::kFp8Blocks;
    if (linear.stored == WeightFormat::kMxfp4) linear.inputs = InputForm::kFp8;
  }
  EXPECT_THAT(linears_of("v4-flash", options), ContainerEq(expected));
  for (const WeightFormat format : {WeightFormat::kCodes, WeightFormat::kMxfp4}) {
    EXPECT_EQ(input_form(InputForm::kFp8Blocks, format), InputForm::kFp8);
  }
  EXPECT_EQ(input_form(InputForm::kFp8Blocks, WeightFormat::kF32), InputForm::kF32);
}

TEST(Numerics, ExpertsOfSm90MayTakeInt8ByThemselves) {
  for (const char* compute : {"auto", "fp8"}) {
    EngineSetup options = with("sm90", compute);
    const Linears others = linears_of("v4-flash", options);
    options.numerics.expert_dtype = "int8";
    Linears expected = others;
    for (auto& [name, linear] : expected) {
      if (linear.stored == WeightFormat::kMxfp4) linear.inputs = InputForm::kInt8;
    }
    EXPECT_NE(expected, others);
    EXPECT_THAT(linears_of("v4-flash", options), ContainerEq(expected));
    EXPECT_EQ(resolve_profile(options, config_of("v4-flash"))->text(),
              std::string("sm90 ") + (options.numerics.compute_dtype == "fp8" ? "fp8" : "bf16") +
                  " experts=int8 kv=fp8 index=fp4");
  }
}

TEST(Numerics, InputsOfEveryLinearByDefault) {
  for (const auto& [name, expected] : kLinears) {
    EXPECT_THAT(linears_of(name, with("default")), ContainerEq(expected)) << name;
  }
}

TEST(Numerics, PlainAndRefRoundNoInputs) {
  for (const auto& [name, linears] : kLinears) {
    if (!name.ends_with("-like")) continue;  // the official ones have the same weights, tens of thousands of them
    for (const char* profile : {"plain", "ref"}) {
      for (const auto& [weight, linear] : linears_of(name, with(profile))) {
        EXPECT_EQ(linear.inputs, InputForm::kF32) << name << " " << profile << " " << weight;
      }
    }
  }
}

// A linear that takes its inputs unrounded by default does so whatever form the others are given.
TEST(Numerics, RoutersTakeFloatsInEveryProfile) {
  for (const auto& [name, expected] : kLinears) {
    if (!name.ends_with("-like")) continue;
    for (const char* compute : {"f32", "bf16", "int8", "fp8"}) {
      const Linears found = linears_of(name, with("default", compute));
      for (const auto& [weight, linear] : expected) {
        if (linear == kExact || linear == kFloats) {
          EXPECT_EQ(found.at(weight), linear) << name << " " << compute << " " << weight;
        }
      }
    }
  }
}

// The input form for a stored format under the default's int8: GGUF's integer codes take int8 as MXFP4 does.
TEST(Numerics, Int8IsForIntegers) {
  EXPECT_EQ(input_form(InputForm::kInt8, WeightFormat::kMxfp4), InputForm::kInt8);
  EXPECT_EQ(input_form(InputForm::kInt8, WeightFormat::kCodes), InputForm::kInt8);
  EXPECT_EQ(input_form(InputForm::kInt8, WeightFormat::kTransposedCodes), InputForm::kF32);
  EXPECT_EQ(input_form(InputForm::kInt8, WeightFormat::kFp8), InputForm::kBf16);
  EXPECT_EQ(input_form(InputForm::kInt8, WeightFormat::kBf16), InputForm::kBf16);
  EXPECT_EQ(input_form(InputForm::kInt8, WeightFormat::kF32), InputForm::kF32);
  for (const WeightFormat format : {WeightFormat::kMxfp4, WeightFormat::kFp8, WeightFormat::kBf16}) {
    EXPECT_EQ(input_form(InputForm::kTiles, format), InputForm::kTiles);
  }
  EXPECT_EQ(input_form(InputForm::kTiles, WeightFormat::kCodes), InputForm::kBf16);
  EXPECT_EQ(input_form(InputForm::kTiles, WeightFormat::kF32), InputForm::kF32);
}

}  // namespace
}  // namespace sluice::numerics_test
