// Used by model_config.cc.
#include "config/model_families.h"

#include "config/config_keys.h"
#include "config/decoder_config.h"
#include "config/deepseek_mla_config.h"
#include "config/deepseek_v4_config.h"

namespace sluice {
namespace {

// Every supported family, once.
constexpr ModelFamily kFamilies[] = {
    {"DeepseekV4ForCausalLM", "deepseek_v4", &kDeepSeekV4Table, read_deepseek_v4_config},
    {"DeepseekV32ForCausalLM", "deepseek_v32", &kDeepSeekV32Table, read_deepseek_v32_config},
    {"DeepseekV3ForCausalLM", "deepseek_v3", &kDeepSeekV3Table, read_deepseek_v3_config, "kimi_k2"},
    {"DeepseekV2ForCausalLM", "deepseek_v2", &kDeepSeekV2Table, read_deepseek_v2_config},
    {"LlamaForCausalLM", "llama", &kLlamaTable, read_llama_config, {}, "LLaMAForCausalLM"},
    {"MistralForCausalLM", "mistral", &kMistralTable, read_mistral_config},
    {"Qwen2ForCausalLM", "qwen2", &kQwen2Table, read_qwen2_config},
    {"Qwen3ForCausalLM", "qwen3", &kQwen3Table, read_qwen3_config},
    {"Qwen3MoeForCausalLM", "qwen3_moe", &kQwen3MoeTable, read_qwen3_moe_config},
};

}  // namespace

std::span<const ModelFamily> model_families() {
  return kFamilies;
}

}  // namespace sluice
