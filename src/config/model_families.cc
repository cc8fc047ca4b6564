#include "config/model_families.h"

#include "config/decoder_config.h"
#include "config/deepseek_mla_config.h"
#include "config/deepseek_v4_config.h"

namespace sluice {
namespace {

// Every supported family, once.
constexpr ModelFamily kFamilies[] = {
    {"DeepseekV4ForCausalLM", "deepseek_v4", read_deepseek_v4_config},
    {"DeepseekV32ForCausalLM", "deepseek_v32", read_deepseek_v32_config},
    {"DeepseekV3ForCausalLM", "deepseek_v3", read_deepseek_v3_config},
    {"DeepseekV2ForCausalLM", "deepseek_v2", read_deepseek_v2_config},
    {"LlamaForCausalLM", "llama", read_llama_config},
    {"Qwen2ForCausalLM", "qwen2", read_qwen2_config},
    {"Qwen3ForCausalLM", "qwen3", read_qwen3_config},
    {"Qwen3MoeForCausalLM", "qwen3_moe", read_qwen3_moe_config},
};

}  // namespace

std::span<const ModelFamily> model_families() {
  return kFamilies;
}

}  // namespace sluice
