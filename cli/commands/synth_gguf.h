// A random checkpoint as one GGUF file, of the form to which other programs convert official ones.
//
// Architecture deepseek2 (DeepSeek-V2, V3): kv_b whole, matrices in Q4_0 but the router's, which is f32 like all
// vectors; without the layers for multi-token prediction.
#pragma once

#include <string>
#include <vector>

#include "config/model_config.h"
#include "files/gguf/gguf_writer.h"
#include "model/model_plan.h"
#include "model/weights/synth_weights.h"
#include "sluice/status.h"

namespace sluice {

// The metadata, with the tokenizer of a folder or a generated one ("").
Result<GgufEntries> gguf_metadata(const ModelConfig& config, const std::string& tokenizer);

// Stacked experts are one tensor. The sources point into both.
std::vector<TensorSource> gguf_sources(const ModelPlan& plan, const SynthWeights& weights);

// The tokenizer of a random model, as the metadata of its GGUF file: byte-level BPE.

// Adds the tokenizer.ggml keys of a vocabulary of config.vocab_size ids. From tokenizer.json in the folder `tokenizer`,
// filled up with unused tokens; without a folder (""), the config's begin and end tokens, the bytes, and pairs of
// letters. `pretokenizer`: its name in GGUF files.
Status write_vocabulary(const ModelConfig& config, const std::string& tokenizer, std::string_view pretokenizer,
                        GgufEntries& metadata);

}  // namespace sluice
