// The layer for multi-token prediction (docs/models/deepseek_v4.md §10). Slot s of its keys belongs to token s: it is
// made of that token and of X of the token before it, so it is a function of tokens 0..s as every other cached row is.
// The row's position, s - 1, is that of X.
// Used by attention.cc and model.cc.
#include <algorithm>
#include <numeric>
#include <vector>

#include "model/deepseek_v4/step.h"

namespace sluice::v4 {

PreviousRowsArgs DeepSeekV4::previous_residuals(Step& step) const {
  const PlaneId open = planes_[static_cast<std::size_t>(mtp_index())].open;
  PreviousRowsArgs args;
  args.format = layout_[open].format, args.step = &step.tables;
  args.y = step.w.wanted.floats(step.rows());
  args.states = step.cache.states(open), args.state_bytes = step.cache.open_stride;
  args.boundaries = &step.cache[open];
  return args;
}

// e_proj enorm(embed) of each token, [ids, hidden].
void DeepSeekV4::compute_token_inputs(const Exec& exec, std::span<const TokenId> ids, float* out) {
  Workspace& w = *workspace_;
  const MtpWeights& mtp = weights_.mtp.front();
  const int rows = static_cast<int>(ids.size()), hidden = config_.hidden_size;
  float* const token = w.collapsed.floats(rows);
  embed(exec, {ids, &weights_.embedding, 1, token});
  const Rows e = w.normed.rows(rows, InputForms().add(mtp.e_proj));
  add_norm(exec, {.rows = rows,
                  .dim = hidden,
                  .x = token,
                  .norm = mtp.enorm.data(),
                  .eps = static_cast<float>(config_.rms_norm_eps),
                  .normed = e});
  project(exec, rows, e, mtp.e_proj, contiguous_rows(out, hidden));
}

// The same, from a table of all tokens where that is small.
void DeepSeekV4::token_inputs(const Exec& exec, std::span<const TokenId> ids, float* out) {
  constexpr std::size_t kMostBytes = 16 << 20;
  const auto dim = static_cast<std::size_t>(config_.hidden_size), tokens = static_cast<std::size_t>(config_.vocab_size);
  const std::size_t bytes = tokens * dim * sizeof(float);
  if (weights_on_device(exec) || bytes > kMostBytes) return compute_token_inputs(exec, ids, out);
  if (token_inputs_.size() == 0) {
    token_inputs_ = AlignedBytes(bytes);
    std::vector<TokenId> all(tokens);
    std::iota(all.begin(), all.end(), 0);
    const auto at_once = static_cast<std::size_t>(step_rows());
    for (std::size_t first = 0; first < tokens; first += at_once) {
      const std::span<const TokenId> some = std::span(all).subspan(first, std::min(at_once, tokens - first));
      compute_token_inputs(exec, some, token_inputs_.as<float>() + first * dim);
    }
  }
  const WeightView table{.out = config_.vocab_size, .in = config_.hidden_size, .data = token_inputs_.data()};
  embed(exec, {ids, &table, 1, out});
}

// X' of the rows, from their tokens and `x`, X of the tokens before them: e_proj enorm(embed) + h_proj hnorm(x_j).
// Leaves it in the streams, which `x` may be.
void DeepSeekV4::enter_mtp(Step& step, float* x) {
  Workspace& w = step.w;
  const MtpWeights& mtp = weights_.mtp.front();
  const int rows = step.rows(), hidden = config_.hidden_size;
  float* const of_token = w.sub_layer.floats(rows);
  token_inputs(step.exec, step.tables.ids, of_token);

  const int streams = kHcStreams * rows;
  const Rows z = w.mtp_inputs.rows(streams, InputForms().add(mtp.h_proj));
  add_norm(step.exec, {.rows = streams,
                       .dim = hidden,
                       .x = x,
                       .norm = mtp.hnorm.data(),
                       .eps = static_cast<float>(config_.rms_norm_eps),
                       .normed = z});
  project(step.exec, ProjectArgs{.rows = streams, .x = z}.add({.weights = {&mtp.h_proj, 1},
                                                               .y = contiguous_rows(w.streams.floats(rows), hidden),
                                                               .addend = of_token,
                                                               .shared = kHcStreams}));
}

// Writes the key of every row, which needs no attention. The streams hold X.
void DeepSeekV4::write_mtp_keys(Step& step) {
  PreviousRowsArgs previous = previous_residuals(step);
  previous.x = step.w.streams.floats(step.rows());
  previous_rows(step.exec, previous);
  enter_mtp(step, previous.y);
  const LayerWeights& weights = layer(mtp_index());
  const Rows kv = step.w.kv.rows(step.rows());
  HcLeaveEnterArgs into = leave(step, true, InputForms().add(weights.attn.kv));
  into.weights = &weights_.mtp.front().key.op, into.norm = weights.attn_norm.data();
  hc_leave_enter(step.exec, into);
  project(step.exec, step.rows(), into.normed, weights.attn.kv, kv);
  store_kv(step.exec, StoreKvArgs{.step = &step.tables}.add(window_rows(step, mtp_index())));
  step.show(mtp_index(), "kv", kv);
}

void DeepSeekV4::draft(const Exec& exec, const StepTables& tables, const CacheView& cache, int depth, float* logits,
                       const Observer* observer) {
  begin(tables);
  Workspace& w = *workspace_;
  Step step{{exec, tables, cache, observer, config_.num_hidden_layers}, w};
  step.own = own();
  if (depth == 1) {
    const PreviousRowsArgs committed = previous_residuals(step);
    previous_rows(exec, committed);
    enter_mtp(step, committed.y);
  } else {
    enter_mtp(step, w.streams.floats(step.rows()));  // the residual that the depth before left
  }
  block(step, mtp_index());
  const MtpWeights& mtp = weights_.mtp.front();
  head(step, mtp_index(), mtp.hc_head, mtp.norm, mtp.head, logits);
}

}  // namespace sluice::v4
