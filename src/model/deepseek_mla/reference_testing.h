// A second forward of DeepSeek-V2, V3 and V3.2, for parts that no stored logits cover, and the stages of the default
// profile. It computes in f64, one sequence at once, with per-head keys and values. It is written from docs/models,
// independently of the model's own code and config reader.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/index_types.h"
#include "model/checks/recording_testing.h"

namespace sluice {

struct ReferenceOptions {
  bool as_trained = false;   // V3.2: FP8 latents, rotated FP8 index queries and keys
  bool bf16_rotary = false;  // the cached key's rotary dims in bf16, as in docs/models/deepseek_v3.2.md §3
};

// Logits [ids.size(), vocab]. `folder`: bf16 or f32 weights under the official names, config.json in the newer form.
std::vector<double> mla_reference_logits(const std::string& folder, std::span<const TokenId> ids,
                                         const ReferenceOptions& options = {});

// Logits [drafts, vocab] of the layer for multi-token prediction after ids[0, known): guess d + 1 is for the token
// after ids[known + d], made from the guess before it.
std::vector<double> mla_reference_drafts(const std::string& folder, std::span<const TokenId> ids, int known);

// The stages of the default profile, from what a model of the same `folder` showed: latent attention in its absorbed
// form, as rounding is part of it.
StageErrors mla_default_stages(const std::string& folder, const Recording& run);

}  // namespace sluice
