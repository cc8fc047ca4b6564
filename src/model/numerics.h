// NumericsProfile: everything besides weights and tokens that fixes the bits of the logits.
//
// The ISA and the number of threads are not part of it: every kernel gives the same bits (kernels/device/exec.h).
//   plain    f32 everywhere, nothing simulated
//   ref      f32 activations and caches; the rounding of KV and index rows that the model was trained with is simulated
//   amx      products and attention in the order of AMX tiles, inputs in bf16
//            (InputForm::kTiles of kernels/ops/linear.h); all else as in default
//   sm90     products, attention and the indexer's scores on the tensor cores of Hopper GPUs, inputs in bf16, in orders
//            of their own (kernels/cuda/strip_layout.h, kernels/cuda/sm90); all else as in default. With
//            --compute-dtype fp8 FP8 weights multiply inputs in FP8 (kernels/cuda/fp8_layout.h); with --expert-dtype
//            int8 experts in MXFP4 multiply inputs in int8
//   default  inputs in int8 for weights that are blocks of integers (MXFP4, GGUF's), in bf16 for the others; rows as
//            the family's CacheTypes say (docs/dev/numerics.md)
// --compute-dtype, --kv-cache-dtype and --index-cache-dtype override one part each. A cache type wider than what the
// model was trained with stores the simulated values, except in `plain`.
// --mla-prefill expanded makes a separate profile of any other: its text() differs, so it shares no pages with others.
// In it the logits depend on how prompts were cut into spans (docs/guarantees.md).
// Used by cli, model, model/decoder and model/deepseek_v4.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/model_config.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/plane.h"
#include "model/engine_setup.h"
#include "sluice/status.h"

namespace sluice {

// The types of a model's caches, and so the meaning of the flags and profiles for it. Each family has its own
// (families.cc).
struct CacheTypes {
  RowCodec kv = RowCodec::kBf16;                                        // KV rows of the default profile
  std::vector<RowCodec> kv_codecs = {RowCodec::kF32, RowCodec::kBf16};  // named by --kv-cache-dtype
  RowCodec kv_trained = RowCodec::kF32;  // the rounding that KV rows had in training; kF32: none
  bool indexed = false;                  // there is an indexer, to which the rest applies
  RowCodec index = RowCodec::kBf16;
  RowCodec index_trained = RowCodec::kF32;
  // The types that --index-cache-dtype can name, even without an indexer.
  std::vector<RowCodec> index_codecs = {RowCodec::kF32, RowCodec::kBf16, RowCodec::kIndexFp8};
  bool simulated_by_default = false;  // rows stored in a wider type are rounded as in training by default
  const char* why_not_expanded = "the model has no latent attention";  // --mla-prefill expanded; null: it can
};

inline constexpr std::string_view kAmxProfile = "amx";
inline constexpr std::string_view kSm90Profile = "sm90";  // its ops: cuda_sm90_op_table() (kernels/cuda/device.h)

struct NumericsProfile {
  std::string name;  // "default", "amx", "plain", "ref" or "sm90"
  InputForm inputs =
      InputForm::kF32;  // for linears that checkpoints quantise; int8: for blocks of integers, bf16 for others
  InputForm experts = InputForm::kF32;  // for the routed experts
  RowCodec kv = RowCodec::kF32;
  RowCodec index = RowCodec::kF32;
  bool indexed = false;
  RowCodec kv_simulation = RowCodec::kF32;  // rounds KV rows before they are stored in a wider type
  bool index_hadamard = false;              // index queries and keys are rotated
  RowCodec index_query =
      RowCodec::kF32;  // the rounding that index queries (and simulated keys) pass through; kF32: none
  int expand_from =
      0;  // latent attention: spans of at least this many rows attend to expanded keys and values; 0: none
  int prefix_chunk = 0;  // tokens of a prefix that are then expanded at once
  std::string rope;      // "long" or "short": LongRoPE's factors, which the longest sequence chooses; else empty
  bool norms_in_blocks = false;  // for a plain residual stream (kernels/cuda/shared/add_norm.h)
  bool simulate_index = false;   // index keys pass through `index_query` before they are stored in a wider type

  // Returns whether attention multiplies in bf16 (kernels/ops/attention.h): in profiles whose linears round their
  // inputs.
  bool bf16_attention() const { return inputs != InputForm::kF32 && inputs != InputForm::kFp8; }
  // Returns whether it also does so in the order of AMX tiles.
  bool tiles_attention() const { return inputs == InputForm::kTiles; }

  std::string text() const;  // "default int8 kv=fp8 index=fp4"
};

// Makes the profile. Unknown names are errors that list the known ones.
Result<NumericsProfile> make_profile(const EngineSetup& options, const CacheTypes& types);
// Makes the profile for the family of `config`.
Result<NumericsProfile> resolve_profile(const EngineSetup& options, const ModelConfig& config);

}  // namespace sluice
