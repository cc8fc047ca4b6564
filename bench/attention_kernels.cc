// attend over a cache of each family's kind, and over expanded keys and values.
#include <algorithm>
#include <random>

#include "base/aligned.h"
#include "base/storage/large_bytes.h"
#include "kernel_lines.h"
#include "kernels/ops/attend_expanded.h"
#include "kernels/ops/attention.h"
#include "kernels/step/step_builder.h"

namespace sluice {
namespace {

struct Kind {
  const char* name;
  RowCodec codec;
  int heads, key_heads, dims, rope_dims, value_dims, value_offset;
  int row_dims;        // dims of a cached row
  int tokens_per_row;  // tokens per row of latent entries
  int selected;        // entries that a row attends to; 0: all
  int window;          // tokens; 0: none
};

constexpr int kContext = 8192;

// Rows of a plane, over contexts that together exceed the caches.
class Cache {
 public:
  Cache(KernelBench& bench, const Kind& kind, int tokens_per_row) {
    view_.format = make_row_format(kind.codec, kind.row_dims, kind.rope_dims);
    view_.rows_per_page = kBlockTokens / tokens_per_row;
    view_.page_bytes = static_cast<std::size_t>(view_.rows_per_page * view_.format.row_bytes());
    const std::size_t bytes = kContextPages * view_.page_bytes;
    contexts_ = bench.copies(bytes);
    memory_ = LargeBytes(bytes * static_cast<std::size_t>(contexts_));
    view_.base = memory_.data();
    const auto x = random_floats(static_cast<std::size_t>(view_.rows_per_page * kind.row_dims) + kContextPages);
    std::vector<RowSlot> slots;
    for (std::size_t page = 0; page < kContextPages * static_cast<std::size_t>(contexts_); ++page) {
      slots.clear();
      for (int r = 0; r < view_.rows_per_page; ++r) {
        slots.emplace_back(static_cast<std::int32_t>(page) * view_.rows_per_page + r);
      }
      encode_rows(bench.exec(),
                  {&view_, view_.rows_per_page, x.data() + page % kContextPages, kind.row_dims, slots.data()});
    }
  }
  const PlaneView& view() const { return view_; }
  std::int32_t first_page(int turn) const { return turn % contexts_ * static_cast<std::int32_t>(kContextPages); }

  static constexpr std::size_t kContextPages = kContext / kBlockTokens;

 private:
  PlaneView view_;
  int contexts_ = 0;
  LargeBytes memory_;
};

// Rows at the end of a context.
class Attention {
 public:
  Attention(KernelBench& bench, const Kind& kind)
      : bench_(bench), kind_(kind), step_(TableShape{.ratios = {}, .windows = kind.window > 0}) {
    for (int head = 0; head < kind.key_heads; ++head) {
      latents_.emplace_back(bench, kind, kind.tokens_per_row);
      latent_views_.push_back(latents_.back().view());
    }
    if (kind.window > 0) windows_.emplace_back(bench, kind, 1);
  }

  void run(int rows, InputForm form) {
    form_ = form;
    const int entries = kContext / kind_.tokens_per_row;
    const int selected = std::min(kind_.selected, entries);
    prepare(rows, entries, selected);
    const double keys = (selected > 0 ? selected : entries) + kind_.window;
    const double bytes = latents_.front().view().format.row_bytes() * kind_.key_heads *
                         (std::min(1.0 * entries, selected > 0 ? 1.0 * selected * rows : entries) +
                          (kind_.window > 0 ? kind_.window + rows - 1 : 0));
    bench_.line(
        std::string(kind_.name) + kForms[static_cast<int>(form)], rows,
        {.multiply_adds = rows * keys * kind_.heads * (kind_.dims + kind_.value_dims), .inputs = form, .bytes = bytes},
        [&](int turn) { attend_once(rows, turn); });
  }

 private:
  static constexpr const char* kForms[] = {"", " bf16 in", "", "", " tiles in"};

  void prepare(int rows, int entries, int selected) {
    const auto count = static_cast<std::size_t>(rows);
    q_ = random_floats(count * static_cast<std::size_t>(kind_.heads * kind_.dims));
    out_.resize(count * static_cast<std::size_t>(kind_.heads * kind_.value_dims));
    sink_.assign(static_cast<std::size_t>(kind_.heads), 0.0F);
    selected_.clear();
    counts_.assign(count, selected);
    if (selected == 0) return;
    std::mt19937 random(4);
    std::vector<std::int32_t> all(static_cast<std::size_t>((kContext - rows) / kind_.tokens_per_row));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);
    static_cast<void>(entries);
    for (int r = 0; r < rows; ++r) std::sample(all.begin(), all.end(), std::back_inserter(selected_), selected, random);
  }

  void attend_once(int rows, int turn) {
    const auto pages = static_cast<std::int32_t>(Cache::kContextPages);
    latent_pages_.clear();
    window_pages_.clear();
    for (std::int32_t p = 0; p < pages; ++p) {
      latent_pages_.emplace_back(latents_.front().first_page(turn) + p);
      if (!windows_.empty()) window_pages_.emplace_back(windows_.front().first_page(turn) + p);
    }
    step_.begin();
    step_.add(
        {.rows = rows, .first_position = kContext - rows, .latent_pages = latent_pages_, .window_pages = window_pages_},
        std::vector<TokenId>(static_cast<std::size_t>(rows), 0), {});
    const StepTables& step = step_.finish();
    AttendArgs args;
    args.rows = rows, args.heads = kind_.heads, args.dims = kind_.dims, args.value_dims = kind_.value_dims;
    args.q = q_.data(), args.scale = 0.05F, args.sink = sink_.data();
    args.step = &step, args.spans = step.spans;
    args.key_heads = kind_.key_heads;
    args.latent = latent_views_.data(), args.tokens_per_row = kind_.tokens_per_row;
    args.value_offset = kind_.value_offset, args.bf16 = form_ != InputForm::kF32;
    args.tiles = form_ == InputForm::kTiles;
    if (!windows_.empty()) args.window = &windows_.front().view(), args.window_tokens = kind_.window;
    if (!selected_.empty()) {
      args.selected = selected_.data(), args.selected_count = counts_.data(), args.max_selected = counts_.front();
    }
    args.out = out_.data();
    attend(bench_.exec(), args);
  }

  KernelBench& bench_;
  const Kind& kind_;
  InputForm form_ = InputForm::kF32;
  StepBuilder step_;
  std::vector<Cache> latents_, windows_;
  std::vector<PlaneView> latent_views_;
  std::vector<LatentPage> latent_pages_;
  std::vector<WindowPage> window_pages_;
  std::vector<float> q_, out_, sink_;
  std::vector<std::int32_t> selected_, counts_;
};

void bench_expanded(KernelBench& bench) {
  constexpr int kHeads = 16, kKeyDims = 192, kValueDims = 128, kKeys = 1024;
  const std::string name = "attend_expanded 16 x 192 of 1024";
  if (!bench.wants(name)) return;
  const auto kv = random_floats(std::size_t{kHeads} * kKeys * (expanded_value_offset(kKeyDims) + kValueDims));
  for (const int rows : bench.options().rows) {
    const auto count = static_cast<std::size_t>(rows);
    const auto q = random_floats(count * kHeads * kKeyDims);
    std::vector<float> out(count * kHeads * kValueDims), lse(count * kHeads);
    AttendExpandedArgs args;
    args.rows = rows, args.heads = kHeads, args.key_dims = kKeyDims, args.value_dims = kValueDims;
    args.q = q.data(), args.ldq = kHeads * kKeyDims, args.scale = 0.07F;
    args.keys = args.visible = kKeys;
    args.kv = kv.data();
    args.out = out.data(), args.ldo = kHeads * kValueDims;
    args.lse = lse.data(), args.ld_lse = kHeads;
    bench.line(name, rows,
               {.multiply_adds = 1.0 * rows * kHeads * kKeys * (kKeyDims + kValueDims),
                .bytes = static_cast<double>(kv.size() * sizeof(float)),
                .cached = true},
               [&](int) { attend_expanded(bench.exec(), args); });
  }
}

}  // namespace

void bench_attention(KernelBench& bench) {
  constexpr Kind kKinds[] = {
      {"attend v4 csa 512 of 2048 + 128 at 8K", RowCodec::kV4Fp8, 16, 1, 512, 64, 512, 0, 512, 4, 512, 128},
      {"attend v4-flash csa 512 of 2048 + 128 at 8K", RowCodec::kV4Fp8, 64, 1, 512, 64, 512, 0, 512, 4, 512, 128},
      {"attend v4 hca 64 + 128 at 8K", RowCodec::kV4Fp8, 16, 1, 512, 64, 512, 0, 512, 128, 0, 128},
      {"attend mla bf16 at 8K", RowCodec::kBf16, 16, 1, 576, 64, 512, 0, 576, 1, 0, 0},
      {"attend dsa fp8 2048 of 8192", RowCodec::kMlaFp8, 16, 1, 576, 64, 512, 0, 576, 1, 2048, 0},
      {"attend gqa 9 over 3 x 64 bf16 at 8K", RowCodec::kBf16, 9, 3, 64, 0, 64, 64, 128, 1, 0, 0},
  };
  for (const Kind& kind : kKinds) {
    if (!bench.wants(kind.name)) continue;
    Attention attention(bench, kind);
    for (const int rows : bench.options().rows) {
      for (const InputForm form : {InputForm::kF32, InputForm::kBf16, InputForm::kTiles}) attention.run(rows, form);
    }
  }
  bench_expanded(bench);
}

}  // namespace sluice
