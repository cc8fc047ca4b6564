// FakeModel: a model for tests whose logits are a hash of everything that it reads back from its cache: window rows,
// latent rows at 1:4 and 1:128, and three open states. A page given to two sequences, a row in the wrong place, a state
// that was not committed or a key too many changes every logit after it. Integer arithmetic only, so equality is exact
// and it is fast.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/device/emulated_device.h"
#include "kernels/ops/attention.h"
#include "model/model.h"

namespace sluice {

class FakeModel final : public Model {
 public:
  struct Settings {
    int vocab = 64;
    int max_position_embeddings = 4096;
    int window_tokens = 128;
    std::chrono::microseconds step_time{0};
    // A deliberate fault, to see that a test finds it: a span of exactly this many rows keeps its open state to itself.
    int forgetful_rows = 0;
    bool drafts = false;  // it has a layer that drafts, and guesses the token 0 always
    int experts = 0;      // routed, of which a token has two that depend on all before it; 0: it has none
    std::shared_ptr<ServedFiles> files = nullptr;              // the files() that it reports
    std::function<void(const StepTables&)> on_step = nullptr;  // called at the beginning of each forward pass
    // May change the logits of the row at a position, whose token is given.
    std::function<void(TokenId, Position, float*)> on_logits = nullptr;
    // The same for the guesses of the layer that drafts.
    std::function<void(TokenId, Position, float*)> on_draft = nullptr;
  };

  FakeModel() : FakeModel(Settings()) {}
  explicit FakeModel(Settings settings) : settings_(std::move(settings)) {
    config_.model_type = "fake";
    config_.vocab_size = settings_.vocab;
    config_.num_hidden_layers = 1;
    config_.moe.n_routed_experts = settings_.experts;
    config_.max_position_embeddings = settings_.max_position_embeddings;
    profile_.name = "fake";
    const RowFormat format{.codec = RowCodec::kF32, .dims = 2, .rope_dims = 0, .data_bytes = 8, .scale_bytes = 0};
    window_ = layout_.add({.kind = PlaneKind::kWindow,
                           .name = "window",
                           .layer = 0,
                           .tokens_per_row = 1,
                           .window_tokens = settings_.window_tokens,
                           .format = format,
                           .initial = {},
                           .boundary_bytes = 0});
    csa_ = add_latent("csa", 4, format);
    csa_open_ = add_open("csa.open", 0x1111, 0);
    hca_ = add_latent("hca", 128, format);
    hca_open_ = add_open("hca.open", 0x2222, 0);
    last_open_ = add_open("last", 0x3333, 8);
  }

  const ModelConfig& config() const override { return config_; }
  const NumericsProfile& profile() const override { return profile_; }
  const CacheLayout& cache_layout() const override { return layout_; }

  std::shared_ptr<ServedFiles> files() const override { return settings_.files; }
  Status prepare(Device&, int, Position) override { return {}; }

  bool drafts() const override { return settings_.drafts; }
  void draft(const Exec& exec, const StepTables& step, const CacheView&, int, float* logits, const Observer*) override {
    run_in_order(exec, [this, step, vocab = static_cast<std::size_t>(settings_.vocab), logits] {
      const std::size_t rows = step.ids.size();
      std::fill_n(logits, rows * vocab, 0.0F);
      for (std::size_t row = 0; row < rows; ++row) {
        float* const own = logits + row * vocab;
        own[0] = 1000;
        if (settings_.on_draft) settings_.on_draft(step.ids[row], step.positions[row], own);
      }
    });
  }

  void forward(const Exec& exec, const StepTables& step, const CacheView& cache, float* logits,
               const Observer*) override {
    const StepExports* const exports = exports_ != nullptr && exports_->on_tile ? exports_ : nullptr;
    if (exports != nullptr) logits_of_all_.resize(step.logit_rows.size() * static_cast<std::size_t>(settings_.vocab));
    float* const to = exports != nullptr ? logits_of_all_.data() : logits;
    expert_ids_.resize(2 * step.ids.size());
    run_in_order(exec, [this, exec, step, &cache, to] { compute(exec, step, cache, to); });
    if (exports != nullptr) hand_out(exec, *exports, static_cast<int>(step.logit_rows.size()), logits);
    if (exports_ != nullptr && exports_->on_experts) exports_->on_experts(0, expert_ids_.data(), 2);
  }

 private:
  // Runs `work` after all work that the device was given, whose memory it may touch; at once on the CPU.
  template <typename Work>
  static void run_in_order(const Exec& exec, Work work) {
    if (auto* later = dynamic_cast<EmulatedDevice*>(exec.device)) return later->enqueue(std::move(work));
    work();
  }

  void compute(const Exec& exec, const StepTables& step, const CacheView& cache, float* logits) {
    if (settings_.on_step) settings_.on_step(step);
    if (settings_.step_time.count() > 0) std::this_thread::sleep_for(settings_.step_time);
    after_.resize(step.ids.size());
    span_of_.resize(step.ids.size());
    for (const RowSpan& span : step.spans) write(step, span, cache);
    exec.pool->run(static_cast<int>(step.logit_rows.size()), [&](int i, int) {
      const auto row = static_cast<std::size_t>(step.logit_rows[static_cast<std::size_t>(i)]);
      attend(step, row, cache, logits + static_cast<std::ptrdiff_t>(i) * settings_.vocab);
    });
  }

  // Hands out the logits of scored rows, a tile at a time.
  void hand_out(const Exec& exec, const StepExports& exports, int rows, float* logits) {
    const auto vocab = static_cast<std::size_t>(settings_.vocab);
    const auto copy = [&](int first, int count, float* to) {
      run_in_order(exec, [this, vocab, first, count, to] {
        std::copy_n(logits_of_all_.data() + static_cast<std::size_t>(first) * vocab,
                    static_cast<std::size_t>(count) * vocab, to);
      });
    };
    copy(0, exports.scored_from, logits);
    for (int first = exports.scored_from; first < rows; first += exports.tile_rows) {
      const int count = std::min(exports.tile_rows, rows - first);
      copy(first, count, exports.tile);
      exports.on_tile(first - exports.scored_from, count);
    }
  }

  using Word = std::uint64_t;
  struct Open {
    Word csa, hca, last;
  };

  static Word mix(Word a, Word b) {
    Word x = (a ^ (b + 0x9E3779B97F4A7C15U + (a << 6) + (a >> 2))) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 29)) * 0x94D049BB133111EBU;
    return x ^ (x >> 32);
  }
  static Word load(const std::byte* from) {
    Word w = 0;
    std::memcpy(&w, from, sizeof(w));
    return w;
  }
  static void store(std::byte* to, Word w) { std::memcpy(to, &w, sizeof(w)); }

  PlaneId add_latent(const char* name, int tokens_per_row, const RowFormat& format) {
    return layout_.add({.kind = PlaneKind::kLatent,
                        .name = name,
                        .layer = 0,
                        .tokens_per_row = tokens_per_row,
                        .window_tokens = 0,
                        .format = format,
                        .initial = {},
                        .boundary_bytes = 0});
  }
  PlaneId add_open(const char* name, Word initial, int boundary_bytes) {
    std::vector<std::byte> bytes(sizeof(Word));
    store(bytes.data(), initial);
    return layout_.add({.kind = PlaneKind::kOpen,
                        .name = name,
                        .layer = 0,
                        .tokens_per_row = 1,
                        .window_tokens = 0,
                        .format = {},
                        .initial = std::move(bytes),
                        .boundary_bytes = boundary_bytes});
  }

  // The latent row of the group that begins at position `first`, unless it is inserted already.
  static void write_closed(const StepTables& step, const PlaneView& plane, Position first, const RowSpan& span,
                           Word value) {
    const ClosedWindows& closed = step.closed_by(kBlockTokens / plane.rows_per_page);
    std::int32_t i = closed.begin[&span - step.spans.data()];
    while (closed.positions[i] != first) ++i;
    if (closed.slots[i]) store(plane.row(closed.slots[i]).data, value);
  }

  // The rows of a span, in order: the window row of each, and latent rows where a group of tokens closes.
  void write(const StepTables& step, const RowSpan& span, const CacheView& cache) {
    Open open{load(cache.state(span.state_in) + cache.open_offset(csa_open_)),
              load(cache.state(span.state_in) + cache.open_offset(hca_open_)),
              load(cache.state(span.state_in) + cache.open_offset(last_open_))};
    for (int i = 0; i < span.rows; ++i) {
      const auto row = static_cast<std::size_t>(span.row_begin + i);
      const Position p = span.first_position + i;
      const Word value = mix(mix(static_cast<Word>(step.ids[row]), static_cast<Word>(p)), open.last);
      store(window_row(step, span, cache[window_], p).data, value);
      open = {mix(open.csa, value), mix(open.hca, value), mix(0x3333, static_cast<Word>(step.ids[row]))};
      if ((p + 1) % 4 == 0) {
        write_closed(step, cache[csa_], p / 4 * 4, span, open.csa);
        open.csa = 0x1111;
      }
      if ((p + 1) % 128 == 0) {
        write_closed(step, cache[hca_], p / 128 * 128, span, open.hca);
        open.hca = 0x2222;
        store(cache.boundary(last_open_, step.window_page(span, p / kBlockTokens)), open.last);
      }
      after_[row] = open;
      for (std::size_t slot = 0; slot < 2 && settings_.experts > 0; ++slot) {
        expert_ids_[2 * row + slot] =
            static_cast<std::int32_t>(mix(mix(open.csa, open.hca), slot) % static_cast<Word>(settings_.experts));
      }
      span_of_[row] = &span;
      if (i == span.rows - 1 && span.rows == settings_.forgetful_rows) open = {0x1111, 0x2222, 0x3333};
      if (step.states_after[row] >= 0) write_state(cache, step.states_after[row], open);
    }
  }

  void write_state(const CacheView& cache, std::int32_t state, const Open& open) const {
    store(cache.state(state) + cache.open_offset(csa_open_), open.csa);
    store(cache.state(state) + cache.open_offset(hca_open_), open.hca);
    store(cache.state(state) + cache.open_offset(last_open_), open.last);
  }

  void attend(const StepTables& step, std::size_t row, const CacheView& cache, float* logits) const {
    const RowSpan& span = *span_of_[row];
    const Position p = step.positions[row];
    Word acc = mix(after_[row].csa, mix(after_[row].hca, after_[row].last));
    for (Position k = std::max(0, p - settings_.window_tokens + 1); k <= p; ++k)
      acc = mix(acc, load(window_row(step, span, cache[window_], k).data));
    for (int e = 0; e < (p + 1) / 4; ++e) acc = mix(acc, load(latent_row(step, span, cache[csa_], e).data));
    for (int e = 0; e < (p + 1) / 128; ++e) acc = mix(acc, load(latent_row(step, span, cache[hca_], e).data));
    for (int v = 0; v < settings_.vocab; ++v) {
      logits[v] = static_cast<float>(mix(acc, static_cast<Word>(v)) >> 40) * 0x1p-21F;  // [0, 8)
    }
    if (settings_.on_logits) settings_.on_logits(step.ids[row], p, logits);
  }

  Settings settings_;
  ModelConfig config_;
  NumericsProfile profile_;
  CacheLayout layout_;
  PlaneId window_, csa_, csa_open_, hca_, hca_open_, last_open_;
  std::vector<std::int32_t> expert_ids_;  // [rows, 2]
  std::vector<float> logits_of_all_;      // the logits of a step with scores
  std::vector<Open> after_;               // [rows]: the open state after the row
  std::vector<const RowSpan*> span_of_;   // [rows]
};

}  // namespace sluice
