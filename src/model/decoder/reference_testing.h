// A second forward of Llama, Qwen2, Qwen3 and Qwen3-MoE, for what no stored logits show (reference_model_testing.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/index_types.h"
#include "model/checks/recording_testing.h"

namespace sluice {

// Logits [ids.size(), vocab]. `folder`: bf16 or f32 weights under the official names, config.json in the newer form.
std::vector<double> decoder_reference_logits(const std::string& folder, std::span<const TokenId> ids);

// The stages of the default profile, from what a model of the same `folder` showed.
StageErrors decoder_default_stages(const std::string& folder, const Recording& run);

}  // namespace sluice
