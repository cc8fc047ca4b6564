#include "model/numerics.h"

#include <fmt/format.h>

namespace sluice {
namespace {

Result<RowCodec> kv_codec(const std::string& text, RowCodec automatic) {
  if (text == "auto") return automatic;
  if (text == "f32") return RowCodec::kF32;
  if (text == "bf16") return RowCodec::kBf16;
  if (text == "fp8") return RowCodec::kV4Fp8;
  return invalid_argument(fmt::format("--kv-cache-dtype: expected auto, f32, bf16 or fp8, found '{}'", text));
}

Result<RowCodec> index_codec(const std::string& text, RowCodec automatic) {
  if (text == "auto") return automatic;
  if (text == "f32") return RowCodec::kF32;
  if (text == "bf16") return RowCodec::kBf16;
  if (text == "fp8") return RowCodec::kIndexFp8;
  if (text == "fp4") return RowCodec::kIndexFp4;
  return invalid_argument(fmt::format("--index-cache-dtype: expected auto, f32, bf16, fp8 or fp4, found '{}'", text));
}

const char* short_name(RowCodec codec) {
  switch (codec) {
    case RowCodec::kF32:
      return "f32";
    case RowCodec::kBf16:
      return "bf16";
    case RowCodec::kV4Fp8:
    case RowCodec::kIndexFp8:
      return "fp8";
    case RowCodec::kIndexFp4:
      return "fp4";
  }
  return "?";
}

bool quantised(RowCodec codec) {
  return codec != RowCodec::kF32 && codec != RowCodec::kBf16;
}

}  // namespace

std::string NumericsProfile::text() const {
  return fmt::format("{} {} kv={}{} index={}{}", name, compute == ComputeDtype::kF32 ? "f32" : "bf16", short_name(kv),
                     simulate_kv ? "(as fp8)" : "", short_name(index), simulate_index ? "(as fp4)" : "");
}

Result<NumericsProfile> resolve_profile(const EngineOptions& options, const ModelConfig& config) {
  NumericsProfile p;
  p.name = options.profile;
  const bool trained_quantised = config.quantization.fp8;
  RowCodec kv = RowCodec::kF32, index = RowCodec::kF32;
  if (options.profile == "default") {
    kv = trained_quantised ? RowCodec::kV4Fp8 : RowCodec::kBf16;
    index = trained_quantised ? RowCodec::kIndexFp4 : RowCodec::kBf16;
  } else if (options.profile != "plain" && options.profile != "ref") {
    return invalid_argument(fmt::format("--profile: expected default, plain or ref, found '{}'", options.profile));
  }
  SLUICE_ASSIGN_OR_RETURN(p.kv, kv_codec(options.kv_cache_dtype, kv));
  SLUICE_ASSIGN_OR_RETURN(p.index, index_codec(options.index_cache_dtype, index));
  if (options.compute_dtype == "bf16") {
    p.compute = ComputeDtype::kBf16;
  } else if (options.compute_dtype != "auto" && options.compute_dtype != "f32") {
    return invalid_argument(
        fmt::format("--compute-dtype: expected auto, f32 or bf16, found '{}'", options.compute_dtype));
  }
  // `ref` simulates whatever the checkpoint says; the default simulates what the checkpoint was trained with.
  const bool simulate = options.profile == "ref" || (options.profile == "default" && trained_quantised);
  p.simulate_kv = simulate && !quantised(p.kv);
  p.simulate_index = simulate && !quantised(p.index);
  p.index_hadamard = simulate || quantised(p.index);
  p.index_query = quantised(p.index) ? p.index : simulate ? RowCodec::kIndexFp4 : RowCodec::kF32;
  return p;
}

}  // namespace sluice
