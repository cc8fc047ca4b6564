#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/storage/temp_folder_testing.h"
#include "config/gguf/gguf_config.h"
#include "files/checkpoint.h"
#include "files/gguf/gguf_testing.h"

namespace sluice::gguf_tensors_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t kF32 = 0, kQ8_0 = 8, kBF16 = 30;

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
std::string counting(int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return floats(values);
}

GgufBuilder llama(std::uint32_t heads, std::uint32_t kv_heads) {
  GgufBuilder b;
  b.str("general.architecture", "llama").u32("llama.attention.head_count", heads);
  b.u32("llama.attention.head_count_kv", kv_heads);
  return b;
}

struct Opened {
  TempFolder folder;
  Result<Checkpoint> checkpoint;
  explicit Opened(const GgufBuilder& builder)
      : checkpoint(Checkpoint::open(folder.write("m.gguf", builder.bytes()), gguf_names)) {}
  std::string error() const { return checkpoint.ok() ? "(accepted)" : checkpoint.status().message(); }
  std::vector<float> rows(std::string_view name, std::int64_t first, std::int64_t count) const {
    const TensorView* tensor = checkpoint->find(name);
    if (tensor == nullptr) return {};
    std::vector<float> values(static_cast<std::size_t>(count * tensor->row_length()));
    read_rows(*tensor, first, count, values.data());
    return values;
  }
};

TEST(GgufTensors, HaveOfficialNames) {
  GgufBuilder b = llama(2, 1);
  b.tensor("token_embd.weight", {4, 3}, kF32, counting(12)).tensor("output_norm.weight", {4}, kF32, counting(4));
  b.tensor("blk.0.ffn_up.weight", {4, 2}, kF32, counting(8)).tensor("blk.11.ffn_up.weight", {4, 2}, kF32, counting(8));
  b.tensor("blk.x.ffn_up.weight", {1}, kF32, counting(1)).tensor("blk.01.ffn_up.weight", {1}, kF32, counting(1));
  b.tensor("else", {1}, kF32, counting(1)).tensor("rope_freqs.weight", {2}, kF32, counting(2));
  const Opened m(b);
  ASSERT_EQ(m.error(), "(accepted)");
  std::vector<std::string> names;
  for (const TensorView* tensor : m.checkpoint->tensors()) names.push_back(tensor->name);
  EXPECT_THAT(names, ElementsAre("blk.01.ffn_up.weight", "blk.x.ffn_up.weight", "else", "model.embed_tokens.weight",
                                 "model.layers.0.mlp.up_proj.weight", "model.layers.11.mlp.up_proj.weight",
                                 "model.norm.weight"));
  EXPECT_EQ(m.checkpoint->total_bytes(), 4U * (12 + 4 + 8 + 8 + 3));
}

TEST(GgufTensors, InterleavedRowsComeInTheOfficialOrder) {
  GgufBuilder b = llama(2, 1);
  b.tensor("blk.0.attn_q.weight", {2, 8}, kF32, counting(16));  // two heads of four rows of two
  b.tensor("blk.0.attn_q.bias", {8}, kF32, counting(8)).tensor("blk.0.attn_k.weight", {1, 6}, kF32, counting(6));
  b.tensor("blk.0.attn_v.weight", {1, 6}, kF32, counting(6));
  const Opened m(b);
  ASSERT_EQ(m.error(), "(accepted)");
  const std::string prefix = "model.layers.0.self_attn.";
  EXPECT_THAT(m.rows(prefix + "q_proj.weight", 0, 8),
              ElementsAre(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  EXPECT_THAT(m.rows(prefix + "q_proj.weight", 5, 2), ElementsAre(12, 13, 10, 11));
  EXPECT_THAT(m.rows(prefix + "q_proj.bias", 0, 1), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(m.rows(prefix + "k_proj.weight", 0, 6), ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_THAT(m.rows(prefix + "v_proj.weight", 0, 6), ElementsAre(0, 1, 2, 3, 4, 5));

  EXPECT_THAT(Opened(llama(2, 1).tensor("blk.0.attn_q.weight", {2, 6}, kF32, counting(12))).error(),
              HasSubstr("tensor blk.0.attn_q.weight in m.gguf: expected the rows of 2 heads of an even size, found F32 "
                        "[6, 2]"));
  EXPECT_THAT(
      Opened(GgufBuilder().str("general.architecture", "llama").tensor("blk.0.attn_q.weight", {1}, kF32, "xxxx"))
          .error(),
      HasSubstr("m.gguf: key 'llama.attention.head_count': expected a value, found nothing"));
}

TEST(GgufTensors, StackedExpertsAreViews) {
  GgufBuilder b;
  b.str("general.architecture", "deepseek2");
  std::string blocks;
  for (int i = 0; i < 6; ++i) blocks += std::string("\0\x3C", 2) + std::string(32, static_cast<char>(i));
  b.tensor("blk.3.ffn_gate_exps.weight", {32, 2, 3}, kQ8_0, blocks);
  const Opened m(b);
  ASSERT_EQ(m.error(), "(accepted)");
  ASSERT_EQ(m.checkpoint->tensors().size(), 3U);
  const TensorView* expert = m.checkpoint->find("model.layers.3.mlp.experts.2.gate_proj.weight");
  ASSERT_NE(expert, nullptr);
  EXPECT_EQ(shape_text(expert->shape), "[2, 32]");
  EXPECT_EQ(expert->dtype, DType::kQ8_0);
  EXPECT_EQ(expert->bytes, 68U);
  EXPECT_EQ(m.rows(expert->name, 1, 1), std::vector<float>(32, 5.0F));

  const auto stacked = [](std::vector<std::uint64_t> dims, const std::string& data) {
    GgufBuilder wrong;
    wrong.str("general.architecture", "deepseek2").tensor("blk.3.ffn_gate_exps.weight", dims, kF32, data);
    return Opened(wrong).error();
  };
  EXPECT_THAT(stacked({4}, counting(4)), HasSubstr("expected the matrices of up to 65536 experts, found F32 [4]"));
  EXPECT_THAT(stacked({0, 1, 1U << 30}, ""), HasSubstr("up to 65536 experts"));
}

TEST(GgufTensors, SplitKeysAndValuesAreOneTensor) {
  GgufBuilder b;  // 2 heads, rank 3, nope 2, v 1
  b.str("general.architecture", "deepseek2");
  b.tensor("blk.0.attn_k_b.weight", {2, 3, 2}, kF32, counting(12));
  b.tensor("blk.0.attn_v_b.weight", {3, 1, 2}, kF32, floats({20, 21, 22, 23, 24, 25}));
  const Opened m(b);
  ASSERT_EQ(m.error(), "(accepted)");
  const TensorView* whole = m.checkpoint->find("model.layers.0.self_attn.kv_b_proj.weight");
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(shape_text(whole->shape), "[6, 3]");
  EXPECT_EQ(m.checkpoint->tensors().size(), 1U);
  const std::vector<float> all{0, 2, 4, 1, 3, 5, 20, 21, 22, 6, 8, 10, 7, 9, 11, 23, 24, 25};
  EXPECT_EQ(m.rows(whole->name, 0, 6), all);
  for (int first = 0; first < 6; ++first) {
    for (int count = 1; count <= 6 - first; ++count) {
      EXPECT_EQ(m.rows(whole->name, first, count),
                std::vector<float>(all.begin() + first * 3, all.begin() + (first + count) * 3));
    }
  }

  const auto error = [](std::vector<std::uint64_t> k, std::vector<std::uint64_t> v) {
    GgufBuilder wrong;
    wrong.str("general.architecture", "deepseek2");
    if (!k.empty()) wrong.tensor("blk.0.attn_k_b.weight", k, kF32, counting(12));
    if (!v.empty()) wrong.tensor("blk.0.attn_v_b.weight", v, kF32, counting(6));
    return Opened(wrong).error();
  };
  EXPECT_THAT(error({2, 3, 2}, {}), HasSubstr("expected a tensor blk.0.attn_v_b.weight, as there is blk.0.attn_k_b"));
  EXPECT_THAT(error({}, {3, 1, 2}), HasSubstr("expected a tensor blk.0.attn_k_b.weight"));
  EXPECT_THAT(error({6, 2}, {3, 1, 2}),
              HasSubstr("expected [heads, kv_lora_rank, qk_nope_head_dim], found F32 [2, 6]"));
  EXPECT_THAT(error({2, 3, 2}, {2, 1, 3}), HasSubstr("expected [2, v_head_dim, 3], to go with blk.0.attn_k_b.weight"));
}

TEST(GgufTensors, ArchitecturesAreListed) {
  EXPECT_THAT(Opened(GgufBuilder()).error(), HasSubstr("key 'general.architecture': expected a value, found nothing"));
  EXPECT_THAT(Opened(GgufBuilder().str("general.architecture", "gpt2")).error(),
              HasSubstr("expected a supported one (llama, qwen2, qwen3, deepseek2, deepseek4), found \"gpt2\""));
}

TEST(GgufTensors, OneNameTwiceIsRefused) {
  GgufBuilder b;
  b.str("general.architecture", "deepseek2").tensor("blk.0.attn_kv_b.weight", {1}, kF32, "xxxx");
  b.tensor("blk.0.attn_k_b.weight", {2, 3, 2}, kF32, counting(12));
  b.tensor("blk.0.attn_v_b.weight", {3, 1, 2}, kF32, counting(6));
  EXPECT_THAT(Opened(b).error(), HasSubstr("tensor model.layers.0.self_attn.kv_b_proj.weight: expected once"));
}

// A complete config, before a test changes it.
GgufBuilder small_llama() {
  GgufBuilder b = llama(4, 2);
  b.u32("llama.embedding_length", 64).u32("llama.block_count", 2).u32("llama.context_length", 512);
  b.u32("llama.feed_forward_length", 96).f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  return b;
}
GgufBuilder& with_embedding(GgufBuilder& b) {
  return b.tensor("token_embd.weight", {64, 10}, kBF16, std::string(1280, '\0'));
}
std::string config_error(GgufBuilder b) {
  const TempFolder folder;
  const auto config = load_model_config(folder.write("m.gguf", b.bytes()));
  return config.ok() ? "(accepted)" : config.status().message();
}

TEST(GgufConfig, SaysWhatConfigJsonWould) {
  GgufBuilder b = small_llama();
  b.f32("llama.rope.freq_base", 500000.0F).u32("tokenizer.ggml.bos_token_id", 1);
  b.u32("tokenizer.ggml.eos_token_id", 5).u32("tokenizer.ggml.eot_token_id", 3).u32("tokenizer.ggml.eom_token_id", 5);
  with_embedding(b).tensor("rope_freqs.weight", {8}, kF32, floats({1, 1, 2, 3, 4, 5, 6, 8}));
  const TempFolder folder;
  const auto config = load_model_config(folder.write("m.gguf", b.bytes()));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->model_type, "llama");
  EXPECT_EQ(config->vocab_size, 10);
  EXPECT_EQ(config->hidden_size, 64);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->num_key_value_heads, 2);
  EXPECT_EQ(config->rms_norm_eps, 1e-5);  // the decimal, not the nearest f32
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_EQ(config->bos_token_id, 1);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(3, 5));
  EXPECT_EQ(config->rope.theta, 500000.0);
  EXPECT_THAT(config->rope.frequency_divisors, ElementsAre(1, 1, 2, 3, 4, 5, 6, 8));
}

TEST(GgufConfig, RefusesWhatItCannotRun) {
  const auto with = [](auto&& change) {
    GgufBuilder b = small_llama();
    change(b);
    return config_error(with_embedding(b));
  };
  EXPECT_EQ(with([](GgufBuilder&) {}), "(accepted)");
  EXPECT_THAT(config_error(small_llama()), HasSubstr("expected a tensor token_embd.weight [vocabulary, "));
  GgufBuilder no_blocks = llama(4, 2);
  EXPECT_THAT(config_error(with_embedding(no_blocks)),
              HasSubstr("m.gguf: key 'llama.embedding_length': expected a value, found nothing"));
  EXPECT_THAT(with([](GgufBuilder& b) { b.u32("llama.expert_count", 8); }),
              HasSubstr("key 'llama.expert_count': expected no experts, found 8"));
  EXPECT_THAT(with([](GgufBuilder& b) { b.u32("llama.rope.dimension_count", 8); }),
              HasSubstr("key 'llama.rope.dimension_count': expected 16, the size of a head, found 8"));
  EXPECT_THAT(with([](GgufBuilder& b) { b.str("llama.rope.scaling.type", "longrope"); }), HasSubstr("\"longrope\""));
  EXPECT_THAT(with([](GgufBuilder& b) { b.str("llama.rope.freq_base", "1"); }),
              HasSubstr("key 'llama.rope.freq_base': expected a finite number, found \"1\""));
  EXPECT_EQ(with([](GgufBuilder& b) { b.u32("tokenizer.ggml.eos_token_id", 10); }), "(accepted)");
  EXPECT_EQ(with([](GgufBuilder& b) { b.u32("tokenizer.ggml.bos_token_id", 0xFFFFFFFF); }), "(accepted)");
  EXPECT_THAT(with([](GgufBuilder& b) { b.tensor("rope_freqs.weight", {2}, kF32, floats({1, 1})); }),
              HasSubstr("expected a divisor for each frequency, [8], found F32 [2]"));
  EXPECT_THAT(with([](GgufBuilder& b) { b.tensor("rope_freqs.weight", {8}, kF32, floats({1, 1, 1, 1, 1, 1, 1, 0})); }),
              HasSubstr("expected finite divisors above 0, found 0"));
}

}  // namespace
}  // namespace sluice::gguf_tensors_test
