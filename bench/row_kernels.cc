// Kernels that work on rows of activations: norms, rotations, hyper-connections, the router, compressors, codecs, the
// embedding, sampling. Bytes are the bytes read and written; most of them stay in the caches.
#include <numeric>

#include "base/aligned.h"
#include "kernel_lines.h"
#include "kernels/ops/compressor.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/hyper_connection.h"
#include "kernels/ops/rope_table.h"
#include "kernels/ops/router.h"
#include "kernels/ops/sample.h"
#include "kernels/step/step_builder.h"

namespace sluice {
namespace {

constexpr int kHidden = 2048, kHeads = 16, kHeadDim = 512, kRopeDims = 64;

double floats(double count) {
  return count * sizeof(float);
}

std::size_t size(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

void bench_norms(KernelBench& bench, int rows) {
  const auto x = random_floats(size(rows, kHidden)), weight = random_floats(kHidden);
  std::vector<float> y(x.size());
  const double bytes = floats(2.0 * rows * kHidden);
  if (bench.wants("rms_norm 2048")) {
    bench.line("rms_norm 2048", rows, {.bytes = bytes, .cached = true}, [&](int) {
      rms_norm(bench.exec(), {rows, kHidden, x.data(), kHidden, weight.data(), 1e-6F, y.data(), kHidden});
    });
  }
  if (bench.wants("hadamard 16 x 128")) {
    bench.line("hadamard 16 x 128", rows, {.bytes = bytes, .cached = true},
               [&](int) { hadamard(bench.exec(), {rows * 16, 128, y.data()}); });
  }
  if (bench.wants("rope_heads 16 x 512 with norm")) {
    std::vector<float> frequencies(kRopeDims / 2, 0.01F);
    RopeTable table(frequencies);
    static_cast<void>(table.reserve(cpu_device(), rows));
    table.ensure(rows);
    std::vector<Position> positions(static_cast<std::size_t>(rows));
    std::iota(positions.begin(), positions.end(), 0);
    auto q = random_floats(size(rows, kHeads * kHeadDim));
    bench.line("rope_heads 16 x 512 with norm", rows,
               {.bytes = 2 * floats(rows * 1.0 * kHeads * kHeadDim), .cached = true}, [&](int) {
                 rope_heads(bench.exec(), {rows, kHeads, kHeadDim, kRopeDims, kHeadDim - kRopeDims, q.data(),
                                           kHeads * kHeadDim, positions.data(), table.data(), false, 1e-6F});
               });
  }
}

void bench_hyper_connection(KernelBench& bench, int rows) {
  if (!bench.wants("hc_mix 4 x 2048") && !bench.wants("hc_collapse 4 x 2048") && !bench.wants("hc_expand 4 x 2048"))
    return;
  auto x = random_floats(size(rows, kHcStreams * kHidden));
  const auto fn = random_floats(size(24, kHcStreams * kHidden)), base = random_floats(24), scale = random_floats(3);
  WeightView view;
  view.out = 24, view.in = kHcStreams * kHidden;
  view.data = reinterpret_cast<const std::byte*>(fn.data());
  const HyperConnectionWeights weights{
      {LinearWeight::make(slice_rows(view, 0, 16), InputForm::kF32, packs_for(bench.exec())),
       LinearWeight::make(slice_rows(view, 16, 8), InputForm::kF32, packs_for(bench.exec()))},
      base.data(),
      scale.data()};
  std::vector<float> mixes(size(rows, 24)), pre(size(rows, 4)), post(size(rows, 4)), comb(size(rows, 16));
  std::vector<float> y(size(rows, kHidden));
  const double streams = floats(1.0 * rows * kHcStreams * kHidden), row = floats(1.0 * rows * kHidden);
  if (bench.wants("hc_mix 4 x 2048")) {
    bench.line("hc_mix 4 x 2048", rows, {.multiply_adds = 24.0 * rows * view.in, .bytes = streams, .cached = true},
               [&](int) {
                 hc_mix(bench.exec(), {rows, kHidden, x.data(), &weights, 1e-6F, 1e-6F, 20, mixes.data(), pre.data(),
                                       post.data(), comb.data()});
               });
  }
  if (bench.wants("hc_collapse 4 x 2048")) {
    bench.line("hc_collapse 4 x 2048", rows, {.bytes = streams + row, .cached = true},
               [&](int) { hc_collapse(bench.exec(), {rows, kHidden, x.data(), pre.data(), y.data()}); });
  }
  if (bench.wants("hc_expand 4 x 2048")) {
    std::fill(comb.begin(), comb.end(), 0.25F);
    bench.line("hc_expand 4 x 2048", rows, {.bytes = 2 * streams + row, .cached = true},
               [&](int) { hc_expand(bench.exec(), {rows, kHidden, y.data(), post.data(), comb.data(), x.data()}); });
  }
}

void bench_router(KernelBench& bench, int rows) {
  constexpr int kExperts = 256, kSlots = 8;
  if (!bench.wants("route 8 of 256")) return;
  auto logits = random_floats(size(rows, kExperts));
  const auto bias = random_floats(kExperts);
  std::vector<std::int32_t> ids(size(rows, kSlots));
  std::vector<float> weights(ids.size());
  RouteArgs args;
  args.rows = rows, args.experts = kExperts, args.slots = kSlots;
  args.logits = logits.data(), args.bias = bias.data();
  args.ids = ids.data(), args.weights = weights.data();
  bench.line("route 8 of 256", rows, {.bytes = floats(1.0 * rows * kExperts), .cached = true},
             [&](int) { route(bench.exec(), args); });
}

void bench_compressor(KernelBench& bench, int rows) {
  constexpr int kWidth = 2 * kHeadDim;
  if (!bench.wants("compress csa 512")) return;
  const auto kv = random_floats(size(rows, kWidth)), gate = random_floats(size(rows, kWidth));
  const auto ape = random_floats(4 * kWidth);
  const auto state = static_cast<std::size_t>(compressor_state_floats(kHeadDim, true));
  std::vector<float> states(2 * state);
  reset_compressor_state(kHeadDim, true, states.data());
  std::vector<float> pooled(size(rows / 4 + 1, kHeadDim));
  StepBuilder builder(TableShape{.ratios = {4}, .windows = false});
  const std::vector<LatentPage> pages(static_cast<std::size_t>(rows / kBlockTokens + 1), LatentPage(0));
  builder.add({.rows = rows, .latent_pages = pages}, std::vector<TokenId>(static_cast<std::size_t>(rows), 0), {});
  CompressArgs args;
  args.dim = kHeadDim, args.ratio = 4, args.overlap = true;
  args.kv = kv.data(), args.gate = gate.data(), args.ld = kWidth, args.ape = ape.data();
  args.step = &builder.finish();
  args.states = reinterpret_cast<std::byte*>(states.data()), args.state_bytes = state * sizeof(float);
  args.pooled = pooled.data();
  bench.line("compress csa 512", rows, {.bytes = floats(2.0 * rows * kWidth), .cached = true},
             [&](int) { compress(bench.exec(), args); });
}

void bench_codec(KernelBench& bench, RowCodec codec, int dims, int rope_dims, int rows) {
  const RowFormat format = make_row_format(codec, dims, rope_dims);
  auto x = random_floats(size(rows, dims));
  AlignedBytes memory(size(rows + kBlockTokens, format.row_bytes()) + 64);
  const int pages = (rows + kBlockTokens - 1) / kBlockTokens;
  PlaneView view{.base = memory.data(), .rows_per_page = kBlockTokens, .format = format};
  view.page_bytes = size(kBlockTokens, format.row_bytes());
  std::vector<LatentPage> list;
  for (int page = 0; page < pages; ++page) list.emplace_back(page);
  StepBuilder builder(TableShape{.ratios = {1}, .windows = false});
  builder.add({.rows = rows, .latent_pages = list}, std::vector<TokenId>(static_cast<std::size_t>(rows), 0), {});
  const StepTables& step = builder.finish();
  const RowSlot* slots = step.closed_by(1).slots;
  const KernelWork work{.bytes = 1.0 * rows * format.row_bytes() + floats(1.0 * rows * dims), .cached = true};
  const std::string text = std::string(name(codec)) + " " + std::to_string(dims);
  if (bench.wants("encode_rows " + text)) {
    bench.line("encode_rows " + text, rows, work,
               [&](int) { encode_rows(bench.exec(), {&view, rows, x.data(), dims, slots}); });
  }
  if (bench.wants("decode_rows " + text)) {
    encode_rows(bench.exec(), {&view, rows, x.data(), dims, slots});
    bench.line("decode_rows " + text, rows, work,
               [&](int) { decode_rows(bench.exec(), {&step, step.spans[0], &view, 0, rows, x.data()}); });
  }
}

void bench_embedding(KernelBench& bench, int rows) {
  constexpr int kVocabulary = 32768;
  if (!bench.wants("embed 2048 bf16 x 4")) return;
  const std::vector<std::byte> data(size(kVocabulary, kHidden) * 2, std::byte{0x3C});
  WeightView table;
  table.format = WeightFormat::kBf16;
  table.out = kVocabulary, table.in = kHidden;
  table.data = data.data();
  std::vector<TokenId> ids(static_cast<std::size_t>(rows));
  std::vector<float> out(size(rows, 4 * kHidden));
  bench.line("embed 2048 bf16 x 4", rows,
             {.bytes = 2.0 * rows * kHidden + floats(4.0 * rows * kHidden), .cached = true}, [&](int turn) {
               for (std::size_t i = 0; i < ids.size(); ++i) {
                 ids[i] = static_cast<TokenId>((i * 7919 + static_cast<std::size_t>(turn) * 104729) % kVocabulary);
               }
               embed(bench.exec(), {ids, &table, 4, out.data()});
             });
}

void bench_sampling(KernelBench& bench, int rows) {
  constexpr int kVocabulary = 129280, kLogitRows = 8;
  const auto with = [&](const std::string& name, const SampleRow& row) {
    if (!bench.wants(name)) return;
    auto logits = random_floats(size(kLogitRows, kVocabulary));
    for (float& logit : logits) logit *= 3;
    std::vector<SampleRow> params(static_cast<std::size_t>(rows), row);
    for (std::size_t i = 0; i < params.size(); ++i) params[i].row = static_cast<int>(i % kLogitRows);
    std::vector<SampledRow> out(params.size());
    bench.line(name, rows, {.bytes = floats(1.0 * rows * kVocabulary), .cached = true}, [&](int turn) {
      for (std::size_t i = 0; i < params.size(); ++i) params[i].position = turn;
      sample(bench.exec(), {rows, kVocabulary, logits.data(), params.data(), out.data()});
    });
  };
  with("sample 129280 greedy", {.temperature = 0});
  with("sample 129280", {});
  with("sample 129280 top_k 50", {.top_k = 50});
  with("sample 129280 top_p 0.95", {.top_p = 0.95F});
}

}  // namespace

void bench_rows(KernelBench& bench) {
  for (const int rows : bench.options().rows) {
    bench_norms(bench, rows);
    bench_hyper_connection(bench, rows);
    bench_router(bench, rows);
    bench_compressor(bench, rows);
    bench_codec(bench, RowCodec::kV4Fp8, kHeadDim, kRopeDims, rows);
    bench_codec(bench, RowCodec::kMlaFp8, 576, kRopeDims, rows);
    bench_codec(bench, RowCodec::kIndexFp4, 128, 0, rows);
    bench_codec(bench, RowCodec::kBf16, 576, kRopeDims, rows);
    bench_embedding(bench, rows);
    bench_sampling(bench, rows);
  }
}

}  // namespace sluice
