// NumericsProfile: everything besides weights and tokens that fixes the bits of the logits.
//
// The ISA and the number of threads are not part of it: every kernel gives the same bits (kernels/exec.h).
//   plain    f32 everywhere, nothing simulated
//   ref      f32 activations and caches; the KV FP8 and index FP4 rounding that the model was trained with is simulated
//   default  chosen by the checkpoint's own config (docs/numerics.md): with FP8 quantisation declared, KV rows in FP8
//   and index
//            rows in FP4 (Hadamard-rotated), else bf16 rows; f32 compute
// --compute-dtype, --kv-cache-dtype and --index-cache-dtype override one part each. A cache type wider than what the
// model was trained with stores the simulated values, except in `plain`.
#pragma once

#include <string>

#include "formats/model_config.h"
#include "kernels/stream.h"
#include "sluice/engine.h"
#include "sluice/status.h"

namespace sluice {

enum class ComputeDtype { kF32, kBf16 };  // bf16: the inputs of FP8 and FP4 linears are rounded to bf16

struct NumericsProfile {
  std::string name;  // "default", "plain" or "ref"
  ComputeDtype compute = ComputeDtype::kF32;
  RowCodec kv = RowCodec::kF32;
  RowCodec index = RowCodec::kF32;
  bool simulate_kv = false;     // KV rows pass through FP8 before they are stored in a wider type
  bool index_hadamard = false;  // index queries and keys are rotated
  RowCodec index_query =
      RowCodec::kF32;           // the rounding that index queries (and simulated keys) pass through; kF32: none
  bool simulate_index = false;  // index keys pass through `index_query` before they are stored in a wider type

  std::string text() const;  // "default f32 kv=fp8 index=fp4"
};

// Unknown names are errors that list what is known.
Result<NumericsProfile> resolve_profile(const EngineOptions& options, const ModelConfig& config);

}  // namespace sluice
