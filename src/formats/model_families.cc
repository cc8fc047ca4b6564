#include "formats/model_families.h"

#include "formats/decoder_config.h"
#include "formats/deepseek_mla_config.h"
#include "formats/deepseek_v32_chat.h"
#include "formats/deepseek_v4_chat.h"
#include "formats/deepseek_v4_config.h"

namespace sluice {
namespace {

constexpr auto kTemplate = nullptr;

// Every supported family, once.
constexpr ModelFamily kFamilies[] = {
    {"DeepseekV4ForCausalLM", "deepseek_v4", read_deepseek_v4_config, load_deepseek_v4_chat},
    {"DeepseekV32ForCausalLM", "deepseek_v32", read_deepseek_v32_config, load_deepseek_v32_chat},
    {"DeepseekV3ForCausalLM", "deepseek_v3", read_deepseek_v3_config, kTemplate},
    {"DeepseekV2ForCausalLM", "deepseek_v2", read_deepseek_v2_config, kTemplate},
    {"LlamaForCausalLM", "llama", read_llama_config, kTemplate},
    {"Qwen2ForCausalLM", "qwen2", read_qwen2_config, kTemplate},
    {"Qwen3ForCausalLM", "qwen3", read_qwen3_config, kTemplate},
    {"Qwen3MoeForCausalLM", "qwen3_moe", read_qwen3_moe_config, kTemplate},
};

}  // namespace

std::span<const ModelFamily> model_families() {
  return kFamilies;
}

}  // namespace sluice
