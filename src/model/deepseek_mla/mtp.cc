// The layer for multi-token prediction (docs/models/deepseek_v3.md §4). Slot s of its rows belongs to token s: it is
// made of that token and of the hidden state before it, so it is a function of tokens 0..s as every other cached row
// is. The row's position, s - 1, is that of the hidden state.
// Used by attention.cc and model.cc.
#include "model/deepseek_mla/step.h"

namespace sluice::mla {

PreviousRowsArgs DeepSeekMla::previous_hidden(Step& step) const {
  const PlaneId open = planes_[static_cast<std::size_t>(mtp_index())].hidden;
  PreviousRowsArgs args;
  args.format = layout_[open].format, args.step = &step.tables;
  args.y = step.w.hidden.floats(step.rows());
  args.states = step.cache.states(open), args.state_bytes = step.cache.open_stride;
  args.boundaries = &step.cache[layout_[open].kept_in], args.of_latents = true;
  return args;
}

// The rows that enter the block, from their tokens and `hidden`, what the tokens before them left:
// eh_proj [enorm(embed) | hnorm(hidden)].
void DeepSeekMla::enter_mtp(Step& step, float* hidden) {
  Workspace& w = step.w;
  const MtpWeights& mtp = weights_.mtp.front();
  const int rows = step.rows(), dim = config_.hidden_size;
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  float* const token = w.token.floats(rows);
  embed(step.exec, {step.tables.ids, &weights_.embedding, 1, token});
  const Rows both = w.token_and_hidden.rows(rows);
  const auto half = [&](int first) { return Rows{.values = both.values + first, .ld = both.ld, .columns = dim}; };
  add_norm(step.exec, {.rows = rows, .dim = dim, .x = token, .norm = mtp.enorm.data(), .eps = eps, .normed = half(0)});
  add_norm(step.exec,
           {.rows = rows, .dim = dim, .x = hidden, .norm = mtp.hnorm.data(), .eps = eps, .normed = half(dim)});
  project(step.exec, rows, both, mtp.eh_proj, residual_.begin(step));
}

// Writes the latent and the index key of every row, which need no attention.
void DeepSeekMla::write_mtp_keys(Step& step) {
  PreviousRowsArgs previous = previous_hidden(step);
  previous.x = residual_.normed(step, weights_.norm, {}).values;
  previous_rows(step.exec, previous);
  enter_mtp(step, previous.y);
  const LayerWeights& weights = layer(mtp_index());
  ProjectArgs from_x{.rows = step.rows()};
  add_keys(step, mtp_index(), &from_x);
  from_x.x = residual_.normed(step, weights.attn_norm, from_x.forms());
  project(step.exec, from_x);
  store_keys(step, mtp_index());
}

void DeepSeekMla::draft(const Exec& exec, const StepTables& tables, const CacheView& cache, int depth, float* logits,
                        const Observer* observer) {
  begin(tables);
  const DeepSeekMlaConfig& mla = config_.mla();
  Step step{{exec, tables, cache, observer, config_.num_hidden_layers},
            *workspace_,
            mla.index_n_heads > 0 && tables.end > mla.index_topk};
  step.own = own();
  if (depth == 1) {
    const PreviousRowsArgs committed = previous_hidden(step);
    previous_rows(exec, committed);
    enter_mtp(step, committed.y);
  } else {
    enter_mtp(step, residual_.last_normed(step.rows()));  // the result of the previous depth
  }
  block(step, mtp_index());
  residual_.logits(step, weights_.mtp.front().norm, weights_.mtp.front().head, logits);
  step.show(mtp_index(), "hidden", residual_.last_normed(step.rows()), step.rows(), config_.hidden_size);
}

}  // namespace sluice::mla
