// GGUF files, their metadata as a configuration, a tokenizer and chat templates, and their tensors under official
// names.
#include "config/gguf/gguf_config.h"
#include "files/gguf/gguf_tensors.h"
#include "files/gguf/gguf_testing.h"
#include "fuzz_target.h"
#include "text/tokenizer/tokenizer.h"
#include "text/vocabulary_files/gguf_tokenizer.h"

namespace sluice {
namespace {

// Reads the first and the last row of a tensor, so that a sanitizer sees a view that leaves its file.
float touch(const TensorView& tensor) {
  const std::int64_t rows = tensor.bytes == 0 ? 0 : tensor.elements() / tensor.row_length();
  if (!has_float_rows(tensor)) return tensor.bytes == 0 ? 0.0F : static_cast<float>(tensor.data[tensor.bytes - 1]);
  float sum = 0;
  std::vector<float> row(static_cast<std::size_t>(rows == 0 ? 0 : tensor.row_length()));
  for (const std::int64_t first : {std::int64_t{0}, rows - 1}) {
    if (rows == 0) continue;
    read_rows(tensor, first, 1, row.data());
    sum += row.back();
  }
  return sum;
}

void check(std::string_view input) {
  const AlignedText text(input);
  Result<std::unique_ptr<GgufFile>> file = GgufFile::parse(text.bytes(), "fuzz.gguf");
  if (!file.ok()) return fuzz_expect(file.status().message().starts_with("fuzz.gguf: "), file.status().message());
  for (const TensorView& tensor : (*file)->tensors()) touch(tensor);
  for (const auto& [key, value] : (*file)->metadata()) fuzz_expect(!describe_gguf(&value).empty(), key);
  Result<std::unique_ptr<GgufModel>> model = GgufModel::of(std::move(*file));
  if (!model.ok()) return;
  (void)gguf_model_config(**model).ok();
  (void)gguf_tokenizer_config(**model).ok();
  const auto tokenizer = Tokenizer::from_gguf(**model);
  if (tokenizer.ok()) (void)(*tokenizer)->encode("a b <|end|>\n", {.add_special_tokens = true}).ok();
  const auto tensors = GgufTensors::of(std::move(*model), gguf_names);
  if (!tensors.ok()) return;
  for (const TensorView& tensor : (*tensors)->tensors()) touch(tensor);
}

}  // namespace

FuzzTarget fuzz_target() {
  FuzzTarget target = {.name = "gguf", .check = check};
  for (const char* word : {"general.alignment",
                           "general.architecture",
                           "llama",
                           "qwen2",
                           "qwen3",
                           "deepseek2",
                           "deepseek4",
                           "split.count",
                           "split.no",
                           "blk.0.attn_k_b.weight",
                           "blk.0.attn_v_b.weight",
                           "blk.0.attn_kv_b.weight",
                           "blk.0.attn_q.weight",
                           "blk.0.attn_k.weight",
                           "blk.0.ffn_gate_exps.weight",
                           "rope_freqs.weight",
                           "token_embd.weight",
                           "output.weight",
                           "llama.block_count",
                           "llama.attention.head_count",
                           "llama.rope.scaling.type",
                           "yarn",
                           "llama.vocab_size",
                           "tokenizer.ggml.tokens",
                           "tokenizer.ggml.merges",
                           "tokenizer.ggml.token_type",
                           "tokenizer.ggml.pre",
                           "tokenizer.ggml.model",
                           "tokenizer.chat_template",
                           "gpt2",
                           "smollm",
                           "llama-bpe",
                           "deepseek-llm"}) {
    target.words.push_back(GgufBuilder::text(word));
  }
  for (std::uint32_t type = 0; type < 40; ++type) target.words.push_back(GgufBuilder::number(type));
  return target;
}

}  // namespace sluice
