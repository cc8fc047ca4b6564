// Cases of kernels/ops/attention.h and kernels/ops/attend_expanded.h.
#include <fmt/format.h>

#include <limits>

#include "base/sanitizer_testing.h"
#include "kernels/cuda/op_cases_testing.h"

namespace sluice {
namespace {

struct AttendShapes {
  int heads, dims, value_dims, rope, tokens_per_row, max_selected;  // max_selected 0: all visible entries
  RowCodec codec;
  bool window, latent;
  int window_tokens = 128, key_heads = 1, value_offset = 0;

  int row_dims() const { return value_offset > 0 ? value_offset + value_dims : dims; }  // GQA: a key, then a value
};

const std::vector<AttendShapes>& attend_shapes() {
  static const std::vector<AttendShapes> all{
      {8, 128, 128, 64, 4, 0, RowCodec::kV4Fp8, true, true},  // V4's kinds, small
      {8, 128, 128, 64, 4, 32, RowCodec::kV4Fp8, true, true},
      {20, 512, 512, 64, 128, 0, RowCodec::kV4Fp8, true, true},
      {64, 512, 512, 64, 4, 512, RowCodec::kV4Fp8, true, true},
      {5, 64, 64, 16, 1, 0, RowCodec::kF32, true, false},
      {4, 128, 128, 64, 4, 0, RowCodec::kF32, true, true},
      {9, 576, 512, 64, 1, 0, RowCodec::kMlaFp8, false, true},  // MLA
      {16, 48, 32, 16, 1, 0, RowCodec::kBf16, false, true},
      {16, 48, 32, 16, 1, 40, RowCodec::kMlaFp8, false, true},
      {6, 40, 40, 8, 1, 0, RowCodec::kBf16, false, true, 128, 2},       // GQA with K = V
      {9, 64, 64, 64, 1, 0, RowCodec::kBf16, false, true, 128, 3, 64},  // GQA
      {8, 128, 128, 128, 1, 0, RowCodec::kF32, false, true, 128, 8, 128},
      {32, 64, 64, 64, 1, 0, RowCodec::kBf16, true, false, 40, 4, 64},  // with sliding windows
      {2, 32, 200, 32, 1, 0, RowCodec::kBf16, true, false, 300, 1, 32}};
  return all;
}

const std::vector<AttendShapes>& official_attend_shapes() {
  static const std::vector<AttendShapes> all{
      {64, 512, 512, 64, 4, 512, RowCodec::kV4Fp8, true, true},    // V4 Flash: a CSA layer,
      {64, 512, 512, 64, 128, 0, RowCodec::kV4Fp8, true, true},    // HCA,
      {64, 512, 512, 64, 1, 0, RowCodec::kV4Fp8, true, false},     // a window alone
      {128, 512, 512, 64, 4, 1024, RowCodec::kV4Fp8, true, true},  // V4 Pro
      {128, 512, 512, 64, 128, 0, RowCodec::kV4Fp8, true, true},
      {128, 576, 512, 64, 1, 0, RowCodec::kBf16, false, true},     // V3, absorbed
      {128, 576, 512, 64, 1, 0, RowCodec::kMlaFp8, false, true}};  // V3.2
  return all;
}

struct Planes {
  std::vector<PlaneView> views;  // the key heads' planes
  const PlaneView* data() const { return views.data(); }
};

OpCase attend_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const AttendShapes c = pick(random, sizes, attend_shapes(), official_attend_shapes());
  const int sequences = random.between(1, 3);
  int most_tokens = c.tokens_per_row == 1 ? 600 : 1400;
  if (sizes == CaseSizes::kOfficial) {
    const int more = kSanitized ? 600 : 6000;
    most_tokens = c.tokens_per_row == 1 ? 1500 : 40 * c.tokens_per_row + more;
  }
  const RowFormat format = make_row_format(c.codec, c.row_dims(), c.rope);
  const int pages = sequences * (most_tokens / kBlockTokens + 1) + 3;
  auto &latents = memory.keep<Planes>(), &windows = memory.keep<Planes>();
  for (int k = 0; k < c.key_heads; ++k) {
    latents.views.push_back(random_plane(random, memory, format, kBlockTokens / c.tokens_per_row, pages));
    windows.views.push_back(random_plane(random, memory, format, kBlockTokens, pages));
  }
  auto latent_pages = random.permutation(pages), window_pages = random.permutation(pages);
  TestStep step;
  int rows = 0;
  std::vector<std::int32_t> selected, counts;
  for (int s = 0; s < sequences; ++s) {
    const int of_span = random.pick(std::vector<int>{1, 1, 1, 2, 17, c.heads > 20 && c.dims < 100 ? 140 : 5});
    const int tokens = of_span + (random.between(0, 3) == 0 ? 0 : random.between(0, most_tokens - of_span));
    const TestSequence sequence(random, tokens, c.tokens_per_row, latents.views[0], windows.views[0], latent_pages,
                                window_pages);
    for (std::size_t k = 1; k < latents.views.size(); ++k) {
      const auto values = [&] { return random.floats(static_cast<std::size_t>(format.dims)); };
      for (std::int32_t e = 0; e < tokens / c.tokens_per_row; ++e) {
        encode_row(format, values().data(), sequence.latent_row(latents.views[k], e));
      }
      for (Position p = 0; p < tokens; ++p) {
        encode_row(format, values().data(), sequence.window_row(windows.views[k], p));
      }
    }
    step.add(sequence.span(of_span, tokens - of_span, c.window_tokens));
    for (int r = 0; r < of_span && c.max_selected > 0; ++r) {
      const int visible = (tokens - of_span + r + 1) / c.tokens_per_row;
      auto entries = random.permutation(visible);
      entries.resize(static_cast<std::size_t>(std::min(visible, random.between(0, 5) == 0 ? 3 : c.max_selected)));
      std::sort(entries.begin(), entries.end());
      counts.push_back(static_cast<std::int32_t>(entries.size()));
      selected.insert(selected.end(), entries.begin(), entries.end());
      selected.resize(counts.size() * static_cast<std::size_t>(c.max_selected), -1);
    }
    rows += of_span;
  }
  const StepTables& tables = put_step(memory, step.tables());
  AttendArgs args;
  args.rows = rows;
  args.heads = c.heads;
  args.dims = c.dims;
  args.value_dims = c.value_dims;
  args.q = memory.put(random.floats(static_cast<std::size_t>(rows * c.heads * c.dims), 0.3F)).data();
  args.scale = 0.3F;
  if (random.between(0, 1) == 0) args.sink = memory.put(random.floats(static_cast<std::size_t>(c.heads))).data();
  args.step = &tables;
  // All spans, or some consecutive ones.
  const int first = random.between(0, 3) == 0 ? random.between(0, sequences - 1) : 0;
  args.spans = tables.spans.subspan(static_cast<std::size_t>(first));
  args.key_heads = c.key_heads;
  args.window = c.window ? windows.data() : nullptr;
  args.window_tokens = c.window_tokens;
  args.first_key = random.between(0, 2) == 0 ? random.between(1, 3) : 0;
  args.latent = c.latent ? latents.data() : nullptr;
  args.tokens_per_row = c.tokens_per_row;
  if (c.max_selected > 0) {
    args.selected = memory.put(selected).data();
    args.selected_count = memory.put(counts).data();
    args.max_selected = c.max_selected;
  }
  args.value_offset = c.value_offset;
  args.bf16 = random.between(0, 2) > 0;
  const auto out = memory.poisoned<float>(static_cast<std::size_t>(rows * c.heads * c.value_dims));
  args.out = out.data();
  const bool fault = c.window && random.between(0, 7) == 0;
  return {
      fmt::format("rows {} in {} spans, {} heads of {} and {}, {} key heads, {} a row of {} {}, selected {}, window "
                  "{}, bf16 {}, fault {}",
                  rows, sequences, c.heads, c.dims, c.value_dims, c.key_heads, c.tokens_per_row, name(c.codec),
                  c.row_dims(), c.max_selected, c.window ? c.window_tokens : 0, args.bf16, fault),
      [args, fault](const Exec& exec, bool) {
        Exec with_fault = exec;
        with_fault.fault_chunk_anchored_splits = fault;
        attend_keys(with_fault, args);
      },
      {out},
      {}};
}

OpCase attend_expanded_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  AttendExpandedArgs args;
  args.rows = random.pick(std::vector<int>{1, 3, 8, 21, 70});
  args.heads = pick(random, sizes, {random.between(1, 4)}, {kSanitized ? 16 : 128});
  args.key_dims = pick(random, sizes, {16, 40, 192}, {192});
  args.value_dims = pick(random, sizes, {16, 24, 128, 200}, {128});
  args.keys = random.between(1, 300);
  args.visible = random.between(-5, args.keys + 5);
  args.scale = 0.2F;
  const auto n = static_cast<std::size_t>(args.rows);
  args.ldq = args.heads * args.key_dims + random.between(0, 3);
  args.ldo = args.heads * args.value_dims + random.between(0, 3);
  args.ld_lse = args.heads + random.between(0, 3);
  args.q = memory.put(random.floats(n * static_cast<std::size_t>(args.ldq))).data();
  const int row_floats = expanded_row_floats(args.key_dims, args.value_dims);
  args.kv = memory.put(random.floats(static_cast<std::size_t>(args.heads * args.keys * row_floats))).data();
  const auto out = memory.poisoned<float>(n * static_cast<std::size_t>(args.ldo)),
             lse = memory.poisoned<float>(n * static_cast<std::size_t>(args.ld_lse));
  args.out = out.data();
  args.lse = lse.data();
  return {fmt::format("rows {} heads {} of {} and {}, {} keys, {} visible", args.rows, args.heads, args.key_dims,
                      args.value_dims, args.keys, args.visible),
          [args](const Exec& exec, bool) { attend_expanded(exec, args); },
          {out, lse},
          {}};
}

OpCase merge_attention_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  MergeAttentionArgs args;
  args.rows = random.between(1, 40);
  args.value_dims = pick(random, sizes, {random.between(1, 200)}, {128});
  const auto n = static_cast<std::size_t>(args.rows), values = n * static_cast<std::size_t>(args.value_dims);
  const auto lse = [&] {
    auto of_rows = random.floats(n, 5.0F);
    for (float& value : of_rows) {
      if (random.between(0, 3) == 0) value = kNothing;
    }
    return memory.put(of_rows);
  };
  const auto part = memory.put(random.floats(values)), total = memory.put(random.floats(values));
  const auto part_lse = lse(), total_lse = lse();
  args.part = part.data();
  args.part_lse = part_lse.data();
  args.total = total.data();
  args.total_lse = total_lse.data();
  return {fmt::format("rows {} of {}", args.rows, args.value_dims),
          [args](const Exec& exec, bool) { merge_attention(exec, args); },
          {total, total_lse},
          {}};
}

}  // namespace

std::vector<OpCases> attention_cases() {
  return {{"attend_keys", attend_case},
          {"attend_expanded", attend_expanded_case},
          {"merge_attention", merge_attention_case}};
}

}  // namespace sluice
