// Cases of kernels/ops/plane.h, kernels/ops/compressor.h and kernels/ops/previous_rows.h.
#include <fmt/format.h>

#include "kernels/cuda/op_cases_testing.h"

namespace sluice {

const StepTables& put_step(CaseMemory& memory, const StepTables& host) {
  StepTables& tables = memory.keep<StepTables>(host);
  const auto put = [&](const auto* values, std::size_t count) { return memory.put(std::span(values, count)).data(); };
  const std::size_t rows = host.ids.size(), spans = host.spans.size();
  tables.ids = memory.put(host.ids);
  tables.positions = memory.put(host.positions);
  tables.spans = memory.put(host.spans);
  tables.states_after = put(host.states_after, rows);
  tables.host_spans = memory.keep<std::vector<RowSpan>>(host.spans.begin(), host.spans.end());
  tables.latent_pages = put(host.latent_pages, static_cast<std::size_t>(host.latent_count));
  tables.window_pages = put(host.window_pages, static_cast<std::size_t>(host.window_count));
  if (host.window_slots != nullptr) {
    tables.window_slots = put(host.window_slots, rows);
    tables.ended_blocks = put(host.ended_blocks, spans + 1);
    tables.boundary_pages = put(host.boundary_pages, static_cast<std::size_t>(host.ended_blocks[spans]));
  }
  for (ClosedWindows& closed : tables.closed) {
    if (closed.ratio == 0) break;
    const auto count = static_cast<std::size_t>(closed.count);
    closed.begin = put(closed.begin, spans + 1);
    closed.positions = put(closed.positions, count);
    closed.slots = put(closed.slots, count);
  }
  return tables;
}

PlaneView& random_plane(Random& random, CaseMemory& memory, const RowFormat& format, int rows_per_page, int pages) {
  PlaneView& view = memory.keep<PlaneView>();
  view.format = format;
  view.rows_per_page = rows_per_page;
  const std::size_t bytes = static_cast<std::size_t>(rows_per_page) * static_cast<std::size_t>(format.row_bytes());
  view.page_bytes = (bytes + 15) / 16 * 16;
  const auto all = memory.poisoned<std::byte>(view.page_bytes * static_cast<std::size_t>(pages));
  for (std::byte& byte : all) byte = static_cast<std::byte>(random.between(0, 255));
  view.base = all.data();
  return view;
}

CompressorCase random_compressor(Random& random, CaseMemory& memory, CaseSizes sizes) {
  CompressorCase made;
  CompressArgs& args = made.args;
  args.overlap = random.between(0, 1) == 0;
  args.ratio = args.overlap ? 4 : 128;
  args.dim =
      pick(random, sizes, {1, 17, 64, 128, 512}, args.overlap ? std::vector<int>{128, 512} : std::vector<int>{512});
  const int width = args.overlap ? 2 * args.dim : args.dim, spans = random.between(1, 3);
  const std::size_t state_floats = static_cast<std::size_t>(compressor_state_floats(args.dim, args.overlap));
  std::vector<float> states;
  TestStep step({args.ratio});
  int rows = 0, pages = 0, latent_pages = 0, states_before = 0;
  for (int s = 0; s < spans; ++s) {
    const Position first = random.between(0, 1) == 0 ? 0 : random.between(0, 300);
    const int count = random.pick(std::vector<int>{1, 1, 3, 70, 260});
    std::vector<float> state(state_floats);
    reset_compressor_state(args.dim, args.overlap, state.data());
    if (first > 0 && random.between(0, 3) > 0) {
      for (float& value : state) value = std::fabs(random.normal()) + 1.0F;
    }
    states.insert(states.end(), state.begin(), state.end());
    const int drafts = std::min(count - 1, random.pick(std::vector<int>{0, 0, 1, 8}));
    states.resize(states.size() + static_cast<std::size_t>(1 + drafts) * state_floats, NAN);
    std::vector<LatentPage> latents;
    std::vector<WindowPage> windows;
    for (int b = 0; b * kBlockTokens < first + count; ++b) {
      latents.emplace_back(latent_pages++);
      windows.emplace_back(b < first / kBlockTokens ? -1 : pages++);
    }
    step.add({.rows = count,
              .first_position = first,
              .latent_pages = latents,
              .window_pages = windows,
              .state_in = states_before,
              .first_state = states_before,
              .states = 2 + drafts,
              .drafts = drafts});
    rows += count;
    states_before += 2 + drafts;
  }
  const StepTables& tables = put_step(memory, step.tables());
  args.step = &tables;
  args.ld = 2 * width;
  const auto x = memory.put(random.floats(static_cast<std::size_t>(rows * 2 * width), 3.0F));
  args.kv = x.data();
  args.gate = x.data() + width;
  args.ape = memory.put(random.floats(static_cast<std::size_t>(args.ratio * width))).data();
  const auto state_bytes = memory.put(states);
  args.states = reinterpret_cast<std::byte*>(state_bytes.data());
  args.state_bytes = state_floats * sizeof(float);
  made.pages = std::max(pages, 1), made.latent_pages = latent_pages;
  made.states = state_bytes;
  made.text = fmt::format("{} rows in {} spans, dim {} ratio {}", rows, spans, args.dim, args.ratio);
  if (random.between(0, 1) == 0) {
    const PlaneView& boundaries =
        random_plane(random, memory, make_row_format(RowCodec::kF32, 3 * args.dim, 0), 1, made.pages);
    args.boundaries = &boundaries;
    made.boundaries = {boundaries.base, boundaries.page_bytes * static_cast<std::size_t>(made.pages)};
  }
  return made;
}

namespace {

// Any row, with now and then a large value, an infinity or a NaN.
std::vector<float> row_values(Random& random, std::size_t count) {
  std::vector<float> values = random.floats(count, random.between(0, 1) == 0 ? 1.0F : 300.0F);
  for (int i = 0; i < 3; ++i) {
    constexpr float kOdd[] = {1e30F, -1e-30F, 1e-39F, -0.0F, INFINITY, NAN};
    values[static_cast<std::size_t>(random.between(0, static_cast<int>(count) - 1))] = kOdd[random.between(0, 5)];
  }
  return values;
}

RowFormat random_format(Random& random, CaseSizes sizes) {
  static const std::vector<RowFormat> kOfficial = [] {
    std::vector<RowFormat> formats = row_formats();
    std::erase_if(formats, [](const RowFormat& format) { return format.dims % 64 != 0 || format.dims < 128; });
    return formats;
  }();
  return pick(random, sizes, row_formats(), kOfficial);
}

OpCase encode_rows_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  constexpr int kPages = 5;
  const RowFormat format = random_format(random, sizes);
  const int of_page = random.pick(std::vector<int>{1, 32, 128}), gap = random.between(0, 3);
  const int count = random.between(1, std::min(40, of_page * kPages));
  const PlaneView& plane = random_plane(random, memory, format, of_page, kPages);
  const auto order = random.permutation(of_page * kPages);
  const auto slots = memory.poisoned<RowSlot>(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (random.between(0, 5) > 0) slots[i] = RowSlot(order[i]);
  }
  const auto x = memory.put(row_values(random, static_cast<std::size_t>(count * (format.dims + gap))));
  const EncodeRowsArgs args{&plane, count, x.data(), format.dims + gap, slots.data()};
  return {fmt::format("{} rows of {} {}", count, name(format.codec), format.dims),
          [args](const Exec& exec, bool) { encode_rows(exec, args); },
          {},
          {std::span(plane.base, plane.page_bytes * kPages)}};
}

OpCase decode_rows_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const RowFormat format = random_format(random, sizes);
  const int tokens_per_row = random.pick(std::vector<int>{1, 4, 128}), tokens = random.between(tokens_per_row, 500);
  const int pages = (tokens + kBlockTokens - 1) / kBlockTokens + 2;
  const PlaneView& plane = random_plane(random, memory, format, kBlockTokens / tokens_per_row, pages);
  const PlaneView& window = random_plane(random, memory, make_row_format(RowCodec::kBf16, 16, 0), 128, pages);
  auto latent_pages = random.permutation(pages), window_pages = random.permutation(pages);
  const TestSequence sequence(random, tokens, tokens_per_row, plane, window, latent_pages, window_pages);
  TestStep step({tokens_per_row});
  step.add(sequence.span(1, tokens - 1));
  const StepTables& tables = put_step(memory, step.tables());
  DecodeRowsArgs args{&tables, tables.host_spans[0], &plane};
  args.first = random.between(0, tokens / tokens_per_row - 1);
  args.count = random.between(0, tokens / tokens_per_row - args.first);
  const auto x = memory.poisoned<float>(static_cast<std::size_t>(args.count * format.dims));
  args.x = x.data();
  return {fmt::format("{} rows of {} {}", args.count, name(format.codec), format.dims),
          [args](const Exec& exec, bool) { decode_rows(exec, args); },
          {x},
          {}};
}

OpCase simulate_rows_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const RowFormat format = random_format(random, sizes);
  const int count = random.between(1, 20), gap = random.between(0, 3);
  const auto x = memory.put(row_values(random, static_cast<std::size_t>(count * (format.dims + gap))));
  const SimulateRowsArgs args{format.codec, format.dims, format.rope_dims, count, x.data(), format.dims + gap};
  return {fmt::format("{} rows of {} {}", count, name(format.codec), format.dims),
          [args](const Exec& exec, bool) { simulate_rows(exec, args); },
          {x},
          {}};
}

OpCase compress_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  CompressorCase compressor = random_compressor(random, memory, sizes);
  CompressArgs& args = compressor.args;
  const auto pooled =
      memory.poisoned<float>(static_cast<std::size_t>(args.step->closed_by(args.ratio).count * args.dim));
  args.pooled = pooled.data();
  return {compressor.text,
          [args](const Exec& exec, bool) { compress(exec, args); },
          {pooled, compressor.states},
          {compressor.boundaries}};
}

OpCase previous_rows_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  PreviousRowsArgs args;
  const RowCodec codec = random.between(0, 1) == 0 ? RowCodec::kBf16 : RowCodec::kF32;
  const int dims = pick(random, sizes, {1, 17, 64, 300}, {4 * 4096, 7168}), spans = random.between(1, 4);
  args.format = make_row_format(codec, dims, 0);
  const bool writes = random.between(0, 3) > 0;
  args.of_latents = random.between(0, 1) == 0;
  TestStep step(args.of_latents ? std::vector<int>{kBlockTokens} : std::vector<int>{}, !args.of_latents);
  int rows = 0, pages = 0, states = 0;
  for (int s = 0; s < spans; ++s) {
    const Position first = random.between(0, 1) == 0 ? 0 : random.between(0, 300);
    const int count = writes ? random.pick(std::vector<int>{1, 1, 3, 70, 260}) : 1;
    const int drafts = std::min(count - 1, random.between(0, 2));
    std::vector<WindowPage> windows;
    std::vector<LatentPage> latents;
    for (int b = 0; b * kBlockTokens < first + count; ++b) {
      windows.emplace_back(b < first / kBlockTokens ? -1 : pages++);
      latents.emplace_back(windows.back().value);
    }
    step.add({.rows = count,
              .first_position = first,
              .latent_pages = latents,
              .window_pages = windows,
              .state_in = states,
              .first_state = states,
              .states = 2 + drafts,
              .drafts = drafts});
    rows += count;
    states += 2 + drafts;
  }
  const StepTables& tables = put_step(memory, step.tables());
  args.step = &tables;
  const auto values = static_cast<std::size_t>(rows * dims),
             row_bytes = static_cast<std::size_t>(args.format.row_bytes());
  if (writes) args.x = memory.put(random.floats(values)).data();
  const auto y = memory.poisoned<float>(values);
  args.y = y.data();
  args.state_bytes = row_bytes + 12;
  const auto state_bytes = memory.poisoned<std::byte>(args.state_bytes * static_cast<std::size_t>(states));
  for (int s = 0; s < states; ++s) {
    encode_row(args.format, random.floats(static_cast<std::size_t>(dims)).data(),
               {state_bytes.data() + static_cast<std::size_t>(s) * args.state_bytes, nullptr});
  }
  args.states = state_bytes.data();
  OpCase op_case{fmt::format("{} rows of {} {} in {} spans, written {}", rows, name(codec), dims, spans, writes),
                 nullptr,
                 {y},
                 {state_bytes}};
  if (random.between(0, 3) > 0) {
    const PlaneView& boundaries = random_plane(random, memory, args.format, 1, pages);
    args.boundaries = &boundaries;
    op_case.bytes.emplace_back(boundaries.base, boundaries.page_bytes * static_cast<std::size_t>(pages));
  }
  op_case.run = [args](const Exec& exec, bool) { previous_rows(exec, args); };
  return op_case;
}

}  // namespace

std::vector<OpCases> state_cases() {
  return {{"encode_rows", encode_rows_case},
          {"decode_rows", decode_rows_case},
          {"simulate_rows", simulate_rows_case},
          {"compress", compress_case},
          {"previous_rows", previous_rows_case}};
}

}  // namespace sluice
