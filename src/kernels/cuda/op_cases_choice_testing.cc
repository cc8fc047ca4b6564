// Cases of kernels/ops/indexer.h and kernels/ops/sample.h.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kernels/cuda/op_cases_testing.h"

namespace sluice {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

OpCase index_select_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  static const std::vector<RowCodec> kCodecs{RowCodec::kIndexFp4, RowCodec::kIndexFp4, RowCodec::kIndexFp8,
                                             RowCodec::kBf16, RowCodec::kF32};
  const RowCodec codec = random.pick(kCodecs);
  IndexSelectArgs args;
  args.heads = pick(random, sizes, {1, 4, 7, 64}, {64});
  args.dims = pick(random, sizes, {32, 64, 128}, {128});
  const bool official = sizes == CaseSizes::kOfficial;
  if (codec == RowCodec::kF32 && !official && random.between(0, 2) == 0) args.dims = 33;
  args.tokens_per_row = random.pick(std::vector<int>{1, 4});
  args.top_k = pick(random, sizes, {1, 16, 100, 300}, {512, 1024, 2048});
  args.first_entry = random.between(0, 2) == 0 ? random.between(1, 3) : 0;
  const int sequences = random.between(1, 2), most_tokens = (official ? 3000 : 300) * args.tokens_per_row;
  const int pages = sequences * (most_tokens / kBlockTokens + 1) + 2;
  const RowFormat format = make_row_format(codec, args.dims, 0);
  const PlaneView& keys = random_plane(random, memory, format, kBlockTokens / args.tokens_per_row, pages);
  const PlaneView& window = random_plane(random, memory, make_row_format(RowCodec::kBf16, 16, 0), 128, pages);
  auto key_pages = random.permutation(pages), window_pages = random.permutation(pages);
  const bool few_values = random.between(0, 2) == 0, hard = random.between(0, 3) == 0;
  TestStep step;
  for (int s = 0; s < sequences; ++s) {
    const int of_span = random.pick(std::vector<int>{1, 1, 2, 9});
    const int tokens = of_span + random.between(0, most_tokens - of_span);
    const TestSequence sequence(random, tokens, args.tokens_per_row, keys, window, key_pages, window_pages);
    for (std::int32_t e = 0; e < tokens / args.tokens_per_row; ++e) {
      std::vector<float> key(static_cast<std::size_t>(args.dims), 0.0F);
      if (few_values) key[static_cast<std::size_t>(random.between(0, args.dims - 1))] = 1.0F;  // many scores tie
      for (float& k : key) {
        if (hard) k = random.normal() * std::ldexp(1.0F, random.between(-130, 120));
      }
      if (few_values || hard) encode_row(format, key.data(), sequence.latent_row(keys, e));
    }
    step.add(sequence.span(of_span, tokens - of_span));
    args.rows += of_span;
  }
  const StepTables& tables = put_step(memory, step.tables());
  const auto n = static_cast<std::size_t>(args.rows), heads = n * static_cast<std::size_t>(args.heads);
  auto q = random.floats(heads * static_cast<std::size_t>(args.dims)), weights = random.floats(heads);
  for (float& x : q) {
    if (few_values) x = static_cast<float>(random.between(-1, 1));
    if (hard && random.between(0, 99) == 0) x *= std::ldexp(1.0F, random.between(-130, 120));
    if (hard && random.between(0, 999) == 0) x = random.between(0, 1) == 0 ? kInfinity : NAN;
  }
  for (float& w : weights) w = few_values ? static_cast<float>(random.between(-1, 1)) : w;
  args.q = memory.put(q).data();
  args.weights = memory.put(weights).data();
  args.step = &tables;
  args.keys = &keys;
  const auto selected = memory.poisoned<std::int32_t>(n * static_cast<std::size_t>(args.top_k)),
             count = memory.poisoned<std::int32_t>(n);
  args.selected = selected.data();
  args.count = count.data();
  OpCase op_case{
      fmt::format("rows {} of {} sequences, {} heads of {} {}, {} a row, top {}, few {}, hard {}", args.rows, sequences,
                  args.heads, args.dims, name(codec), args.tokens_per_row, args.top_k, few_values, hard),
      nullptr,
      {},
      {std::as_writable_bytes(selected), std::as_writable_bytes(count)}};
  if (random.between(0, 1) == 0) {
    args.scores_stride = tables.end / args.tokens_per_row + random.between(0, 200);
    const auto scores = memory.poisoned<float>(n * static_cast<std::size_t>(args.scores_stride));
    args.scores = scores.data();
    op_case.floats = {scores};
  }
  op_case.run = [args](const Exec& exec, bool) { select_entries(exec, args); };
  return op_case;
}

SampleRow sample_row(Random& random, CaseMemory& memory, int vocab, int logit_rows) {
  SampleRow row;
  row.row = random.between(0, logit_rows - 1);
  row.temperature = random.pick(std::vector<float>{0.0F, 0.3F, 1.0F, 1.0F, 5.0F});
  row.top_k = random.pick(std::vector<int>{0, 0, 1, 5, 40, vocab / 5, vocab - 1, vocab, 2 * vocab});
  row.top_p = random.pick(std::vector<float>{1.0F, 1.0F, 0.01F, 0.5F, 0.9F, 0.999F});
  row.min_p = random.pick(std::vector<float>{0.0F, 0.0F, 0.05F, 1.0F});
  row.seed = static_cast<std::uint64_t>(random.between(0, 1 << 30)) << 20;
  row.position = random.between(0, 100000);
  row.top_logprobs = random.pick(std::vector<int>{-1, -1, 0, 1, 20});
  row.processed = random.between(0, 1) == 0;
  row.id_count = random.pick(std::vector<int>{0, 0, 1, 5, kSampledIds});
  for (TokenId& id : row.ids) id = random.between(0, vocab - 1);
  if (random.between(0, 3) == 0) {
    const auto words = memory.poisoned<std::uint32_t>(static_cast<std::size_t>((vocab + 31) / 32));
    for (std::uint32_t& word : words) {
      word = static_cast<std::uint32_t>(random.between(0, 1 << 30)) * static_cast<std::uint32_t>(random.between(0, 5));
    }
    row.allowed = words.data();
  }
  if (random.between(0, 3) == 0) {
    auto bias = random.floats(static_cast<std::size_t>(vocab));
    for (float& b : bias) b = random.between(0, 9) == 0 ? -kInfinity : b;
    row.bias = memory.put(bias).data();
  }
  return row;
}

OpCase sample_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  SampleArgs args;
  args.vocab = pick(random, sizes, {1, 7, 512, 1000, 5003, 13000, 13000}, {129280});
  args.rows = args.vocab == 1 ? 300 : random.between(1, 6);
  const int logit_rows = random.between(1, 4);
  auto logits =
      random.floats(static_cast<std::size_t>(logit_rows * args.vocab), random.pick(std::vector<float>{0.1F, 3.0F}));
  const bool long_lists = args.vocab == 13000;  // lists of equal values
  const int kind = long_lists ? 0 : random.between(0, 5), few = long_lists ? 1 : random.between(0, 2);
  for (float& logit : logits) {
    if (kind == 0) logit = static_cast<float>(random.between(-few, few));  // many are equal
    if (kind == 1 && random.between(0, 2) == 0) logit = -kInfinity;
  }
  if (random.between(0, 9) == 0) logits[0] = random.between(0, 1) == 0 ? kInfinity : NAN;
  args.logits = memory.put(logits).data();
  std::vector<SampleRow> rows;
  for (int i = 0; i < args.rows; ++i) rows.push_back(sample_row(random, memory, args.vocab, logit_rows));
  if (long_lists) rows[0].temperature = 1.0F, rows[0].top_k = 0, rows[0].top_p = 0.9F;
  args.greedy = random.between(0, 4) == 0;
  for (SampleRow& row : rows) {
    if (args.greedy) row.temperature = 0.0F, row.top_logprobs = -1;
  }
  const auto newest = memory.poisoned<TokenId>(static_cast<std::size_t>(args.rows) + 3);
  args.newest = newest.data();
  for (SampleRow& row : rows) {
    if (random.between(0, 1) == 0) row.slot = static_cast<std::int32_t>(&row - rows.data()) + 2;
  }
  args.params = memory.put(rows).data();
  const auto out = memory.poisoned<SampledRow>(rows.size());
  args.out = out.data();
  OpCase op_case{fmt::format("{} rows of {}, kind {}", args.rows, args.vocab, kind),
                 [args](const Exec& exec, bool) { sample(exec, args); },
                 {},
                 {std::as_writable_bytes(newest)}};
  for (const SampleRow& row : rows) {
    op_case.text += fmt::format("; T {} k {} p {} min {} top {}{}{}{} ids {}", row.temperature, row.top_k, row.top_p,
                                row.min_p, row.top_logprobs, row.allowed != nullptr ? " masked" : "",
                                row.bias != nullptr ? " biased" : "", row.processed ? " processed" : "", row.id_count);
  }
  for (SampledRow& row : out) {  // without the bytes between status and token
    auto* bytes = reinterpret_cast<std::byte*>(&row);
    op_case.bytes.push_back({bytes, 1});
    op_case.bytes.push_back({bytes + offsetof(SampledRow, token), sizeof(SampledRow) - offsetof(SampledRow, token)});
  }
  return op_case;
}

OpCase take_ids_case(Random& random, CaseMemory& memory, CaseSizes) {
  TakeIdsArgs args;
  args.rows = random.between(1, 40);
  const auto newest = memory.poisoned<TokenId>(5);
  for (TokenId& id : newest) id = random.between(0, 999);
  const auto slots = memory.poisoned<std::int32_t>(static_cast<std::size_t>(args.rows));
  for (std::int32_t& slot : slots) slot = random.between(-1, 4);
  const auto ids = memory.poisoned<TokenId>(slots.size());
  args.slots = slots.data();
  args.newest = newest.data();
  args.ids = ids.data();
  return {fmt::format("{} rows", args.rows),
          [args](const Exec& exec, bool) { take_ids(exec, args); },
          {},
          {std::as_writable_bytes(ids)}};
}

}  // namespace

std::vector<OpCases> choice_cases() {
  return {{"select_entries", index_select_case}, {"sample", sample_case}, {"take_ids", take_ids_case}};
}

}  // namespace sluice
