// Used by cli, model, model/decoder and model/deepseek_v4.
#include "model/numerics.h"

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr int kPrefixChunk = 1024;  // tokens: merging costs little in comparison, and a few heads of them fit in caches
constexpr int kMaxPrefixChunk = 1 << 20;

// "f32, bf16 or fp8"
std::string types_of(const std::vector<RowCodec>& codecs) {
  std::string text;
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    text += i == 0 ? "" : i + 1 < codecs.size() ? ", " : " or ";
    text += row_codec(codecs[i]).type;
  }
  return text;
}

Result<RowCodec> codec_of(const char* flag, const std::string& text, RowCodec automatic,
                          const std::vector<RowCodec>& codecs) {
  if (text == "auto") return automatic;
  for (const RowCodec codec : codecs) {
    if (text == row_codec(codec).type) return codec;
  }
  return invalid_argument(
      fmt::format("{}: expected auto, {} for this model, found '{}'", flag, types_of(codecs), text));
}

Status choose_prefill(const EngineSetup& options, const CacheTypes& types, NumericsProfile& profile) {
  const int chunk = options.numerics.attn_prefill_chunk_size;
  if (options.numerics.mla_prefill == MlaPrefill::kAbsorbed) {
    if (chunk == 0) return {};
    return invalid_argument(
        fmt::format("--attn-prefill-chunk-size {}: cuts the prefix that --mla-prefill expanded expands; give that flag "
                    "too, or leave out both",
                    chunk));
  }
  if (types.why_not_expanded != nullptr) {
    return invalid_argument(
        fmt::format("--mla-prefill expanded: {}; leave the flag out for this model", types.why_not_expanded));
  }
  if (chunk < 0 || chunk > kMaxPrefixChunk) {
    return invalid_argument(
        fmt::format("--attn-prefill-chunk-size: expected 0 to {}, found {}", kMaxPrefixChunk, chunk));
  }
  profile.expand_from = options.testing.mla_expand_from;
  profile.prefix_chunk = chunk > 0 ? chunk : kPrefixChunk;
  return {};
}

const char* name_of(InputForm inputs) {
  switch (inputs) {
    case InputForm::kF32:
      return "f32";
    case InputForm::kBf16:
    case InputForm::kTiles:  // implied by the profile's name
      return "bf16";
    case InputForm::kInt8:
      return "int8";
    case InputForm::kFp8:
    case InputForm::kFp8Blocks:  // implied by the profile's name
      return "fp8";
  }
  return "?";
}

// After the inputs of the others.
Status choose_experts(const EngineSetup& options, NumericsProfile& profile) {
  profile.experts = profile.inputs;
  const std::string& dtype = options.numerics.expert_dtype;
  if (dtype == "auto") return {};
  if (dtype != "int8") return invalid_argument(fmt::format("--expert-dtype: expected auto or int8, found '{}'", dtype));
  if (profile.inputs == InputForm::kInt8) {
    return invalid_argument(fmt::format(
        "--expert-dtype int8: with --profile {}{} experts in MXFP4 multiply int8 already; leave the flag out",
        profile.name, options.numerics.compute_dtype == "int8" ? " --compute-dtype int8" : ""));
  }
  if (profile.name != kSm90Profile) {
    return invalid_argument(
        fmt::format("--expert-dtype int8: for --profile sm90 alone, found --profile {}; leave the flag out, or give "
                    "--profile sm90",
                    profile.name));
  }
  profile.experts = InputForm::kInt8;
  return {};
}

Result<InputForm> inputs_of(const std::string& compute_dtype, InputForm automatic) {
  if (compute_dtype == "auto") return automatic;
  for (const InputForm form : {InputForm::kF32, InputForm::kBf16, InputForm::kInt8, InputForm::kFp8}) {
    if (compute_dtype == name_of(form)) return form;
  }
  return invalid_argument(
      fmt::format("--compute-dtype: expected auto, f32, bf16, int8 or fp8, found '{}'", compute_dtype));
}

}  // namespace

std::string NumericsProfile::text() const {
  const auto rows = [](const char* what, RowCodec stored, RowCodec simulated) {
    return fmt::format(" {}={}{}", what, row_codec(stored).type,
                       simulated != RowCodec::kF32 ? fmt::format("(as {})", row_codec(simulated).type) : "");
  };
  const std::string of_experts = experts != inputs ? fmt::format(" experts={}", name_of(experts)) : "";
  std::string text = fmt::format("{} {}{}{}{}", name, name_of(inputs), of_experts, rows("kv", kv, kv_simulation),
                                 indexed ? rows("index", index, simulate_index ? index_query : RowCodec::kF32) : "");
  if (tiles_attention()) text += " attention=tiles";
  // Its first versions normed in the order of kernels/ops/elementwise.h, and attended to such rows in those of
  // kernels/ops/attention.h.
  if (norms_in_blocks) text += " norms=blocks";
  if (name == kSm90Profile && (kv == RowCodec::kBf16 || kv == RowCodec::kMlaFp8)) text += " attention=blocks";
  if (!rope.empty()) text += " rope=" + rope;
  if (expand_from > 0) text += fmt::format(" mla=expanded(from {}, prefix by {})", expand_from, prefix_chunk);
  return text;
}

Result<NumericsProfile> make_profile(const EngineSetup& options, const CacheTypes& types) {
  NumericsProfile p;
  p.name = options.numerics.profile;
  const bool sm90 = options.numerics.profile == kSm90Profile;
  const bool amx = options.numerics.profile == kAmxProfile;
  if (options.numerics.profile != "default" && options.numerics.profile != "plain" &&
      options.numerics.profile != "ref" && !amx && !sm90) {
    return invalid_argument(
        fmt::format("--profile: expected default, amx, plain, ref or sm90, found '{}'", options.numerics.profile));
  }
  SLUICE_RETURN_IF_ERROR(choose_prefill(options, types, p));
  p.norms_in_blocks = sm90 && types.kv_trained != RowCodec::kV4Fp8;
  const bool as_shipped = sm90 || amx || options.numerics.profile == "default";
  SLUICE_ASSIGN_OR_RETURN(p.kv, codec_of("--kv-cache-dtype", options.numerics.kv_cache_dtype,
                                         as_shipped ? types.kv : RowCodec::kF32, types.kv_codecs));
  SLUICE_ASSIGN_OR_RETURN(p.index, codec_of("--index-cache-dtype", options.numerics.index_cache_dtype,
                                            as_shipped ? types.index : RowCodec::kF32, types.index_codecs));
  const InputForm automatic = sm90 || amx ? InputForm::kBf16 : as_shipped ? InputForm::kInt8 : InputForm::kF32;
  SLUICE_ASSIGN_OR_RETURN(p.inputs, inputs_of(options.numerics.compute_dtype, automatic));
  if (sm90 && p.inputs == InputForm::kF32) {
    return invalid_argument(
        "--profile sm90 --compute-dtype f32: its tensor cores multiply bf16 or FP8; expected auto, bf16, fp8 or int8 "
        "(integers for weights that are blocks of integers), or another profile");
  }
  if (sm90 && p.inputs == InputForm::kFp8) p.inputs = InputForm::kFp8Blocks;
  if (amx) {
    if (p.inputs != InputForm::kBf16) {
      return invalid_argument(
          fmt::format("--profile amx --compute-dtype {}: its products are of bf16 inputs; expected auto or bf16, or "
                      "another profile",
                      name_of(p.inputs)));
    }
    p.inputs = InputForm::kTiles;
  }
  SLUICE_RETURN_IF_ERROR(choose_experts(options, p));
  const bool simulate = options.numerics.profile == "ref" || (as_shipped && types.simulated_by_default);
  if (simulate && !row_codec(p.kv).quantised()) p.kv_simulation = types.kv_trained;
  p.indexed = types.indexed;
  if (!types.indexed) {
    p.index = RowCodec::kF32;
    return p;
  }
  p.simulate_index = simulate && !row_codec(p.index).quantised();
  p.index_hadamard = simulate || row_codec(p.index).quantised();
  p.index_query = row_codec(p.index).quantised() ? p.index : simulate ? types.index_trained : RowCodec::kF32;
  return p;
}

}  // namespace sluice
