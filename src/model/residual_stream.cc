#include "model/residual_stream.h"

#include "kernels/elementwise.h"
#include "kernels/embedding.h"

namespace sluice {

void ResidualStream::reserve(Scratch& scratch, std::size_t rows) {
  for (ScratchTensor* tensor : {&x_, &normed_, &sub_layer_}) {
    scratch.add(rows * static_cast<std::size_t>(hidden_), tensor);
  }
}

void ResidualStream::embed(const ModelStep& step, const WeightView& embedding) {
  sluice::embed(step.exec, {step.tables.ids, &embedding, 1, x_.get(step.floats(hidden_))});
}

float* ResidualStream::normed(const ModelStep& step, const Param<float>& norm) {
  float* to = normed_.get(step.floats(hidden_));
  rms_norm(step.exec, {step.rows(), hidden_, x_.get(step.floats(hidden_)), hidden_, norm.data(), eps_, to, hidden_});
  return to;
}

const float* ResidualStream::add(const ModelStep& step, const float* y) {
  float* x = x_.get(step.floats(hidden_));
  sluice::add(step.exec, {step.rows(), hidden_, y, x});
  return x;
}

void ResidualStream::logits(const ModelStep& step, const Param<float>& norm, const LinearWeight& head,
                            float* logits) {
  if (step.tables.logit_rows.empty()) return;
  const int rows = static_cast<int>(step.tables.logit_rows.size());
  float* wanted = sub_layer_.get(step.floats(hidden_));  // spent
  gather_rows(step.exec, {step.tables.logit_rows, hidden_, x_.get(0), wanted});
  float* to = normed_.get(step.floats(hidden_));
  rms_norm(step.exec, {rows, hidden_, wanted, hidden_, norm.data(), eps_, to, hidden_});
  const LinearJob job{&head, to, hidden_, logits, head.out()};
  linear(step.exec, rows, {&job, 1});
}

}  // namespace sluice
