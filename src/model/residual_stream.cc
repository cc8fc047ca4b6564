// Used by model/decoder/model.h and model/deepseek_mla/model.h.
#include "model/residual_stream.h"

#include <utility>

namespace sluice {

void ResidualStream::reserve(Scratch& scratch, std::size_t rows, InputForm inputs) {
  for (ScratchTensor* tensor : {&x_, &sub_layer_}) scratch.add(rows, hidden_, tensor);
  scratch.add(rows, hidden_, &normed_, InputForms::of_profile(inputs));
}

void ResidualStream::embed(const ModelStep& step, const WeightView& embedding) {
  last_ = {};
  sluice::embed(step.exec, {step.tables.ids, &embedding, 1, x_.floats(step.rows())});
}

Rows ResidualStream::begin(const ModelStep& step) {
  last_ = {};
  return x_.rows(step.rows());
}

Rows ResidualStream::enter(const ModelStep& step, const Param<float>* norm, const InputForms& inputs,
                           std::span<const std::int32_t> only) {
  const Rows x = x_.rows(step.rows()), normed = normed_.rows(step.rows(), inputs);
  const Output last = std::exchange(last_, {});
  add_norm(step.exec,
           {step.rows(), hidden_, x.values, last.y, norm != nullptr ? norm->data() : nullptr, eps_, normed, only});
  if (last.y != nullptr) step.show(last.layer, last.sum, x);
  return normed;
}

void ResidualStream::logits(const ModelStep& step, const Param<float>& norm, const LinearWeight& head, float* logits) {
  const std::span<const std::int32_t> wanted = step.tables.logit_rows;
  // Scored rows come after the others; without them rows ascend.
  const bool scores = step.exports != nullptr && step.exports->on_tile;
  const bool all = !scores && static_cast<int>(wanted.size()) == step.rows();
  const auto only = all ? std::span<const std::int32_t>() : wanted;
  const Rows normed = enter(step, wanted.empty() ? nullptr : &norm, InputForms().add(head), only);
  if (wanted.empty()) return;
  step.project_logits(static_cast<int>(wanted.size()), normed, head, logits);
}

}  // namespace sluice
