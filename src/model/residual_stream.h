// ResidualStream: the stream to which the layers of most families add, one row of `hidden` values per token. It begins
// as the embedding and is RMS-normed for each sub-layer, whose output is added to it. In the end it is normed and
// projected onto the vocabulary. (DeepSeek-V4 has hyper-connections instead.) Its buffers are in the model's Scratch.
// Thread safety: one thread at a time.
// Used by model/decoder/model.h and model/deepseek_mla/model.h.
#pragma once

#include <vector>

#include "kernels/device/scratch.h"
#include "kernels/ops/linear.h"
#include "model/model_step.h"
#include "model/weights/param.h"

namespace sluice {

class ResidualStream {
 public:
  ResidualStream(int hidden, double rms_norm_eps) : hidden_(hidden), eps_(static_cast<float>(rms_norm_eps)) {}

  // `inputs`: the profile's (NumericsProfile::inputs).
  void reserve(Scratch& scratch, std::size_t rows, InputForm inputs);
  // Begins with the step's tokens; embedding: [vocab, hidden].
  void embed(const ModelStep& step, const WeightView& embedding);

  // Adds the output of sub_layer(x, y), which writes y [rows, hidden] from x, the normed stream in the forms of
  // `inputs`. The observer sees y as `output` and the sum as `sum`.
  template <class SubLayer>
  void add(const ModelStep& step, int layer, const Param<float>& norm, const InputForms& inputs, const char* output,
           const char* sum, const SubLayer& sub_layer) {
    const Rows y = sub_layer_.rows(step.rows());
    sub_layer(enter(step, &norm, inputs, {}), y);
    step.show(layer, output, y);
    last_ = {y.values, layer, sum};
  }

  // Begins with the rows that the caller writes to the result: [rows, hidden].
  Rows begin(const ModelStep& step);
  // The stream of all rows normed, in the forms of `inputs`.
  Rows normed(const ModelStep& step, const Param<float>& norm, const InputForms& inputs) {
    return enter(step, &norm, inputs, {});
  }
  // The rows that were normed last; after logits() the rows that wanted logits.
  float* last_normed(int rows) const { return normed_.floats(rows); }

  // Logits of the rows that want them: [logit_rows, head.out()].
  void logits(const ModelStep& step, const Param<float>& norm, const LinearWeight& head, float* logits);

 private:
  // The output of a sub-layer that is not added yet; the norm of the next one adds it.
  struct Output {
    const float* y = nullptr;
    int layer = 0;
    const char* sum = nullptr;
  };
  // Returns the sum, normed, for all rows or those in `only`; without a norm it only adds.
  Rows enter(const ModelStep& step, const Param<float>* norm, const InputForms& inputs,
             std::span<const std::int32_t> only);

  int hidden_;
  float eps_;
  ScratchTensor x_, normed_, sub_layer_;  // [rows, hidden]
  Output last_;
};

}  // namespace sluice
