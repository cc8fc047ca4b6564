// Rotary position tables: cos and sin of position * frequency, for kernels/ops/elementwise.h.
//
// Frequencies of pair i of n = rope_dims / 2 (docs/models/deepseek_v4.md §5):  f_i = theta^(-2i / rope_dims)
//   YaRN:  corr(r) = rope_dims * ln(original / (2 pi r)) / (2 ln theta);  low = max(floor(corr(beta_fast)), 0),
//          high = min(ceil(corr(beta_slow)), rope_dims - 1);  ramp_i = clamp((i - low) / (high - low), 0, 1)
//          (high + 0.001 when low = high);  frequency = (f_i / factor) * ramp_i + f_i * (1 - ramp_i)
//   Llama 3: by the wavelength l = 2 pi / f_i: f_i / factor if l > original / low;  f_i if l < original / high;
//          between them (1 - s) * f_i / factor + s * f_i with s = (original / l - low) / (high - low)
// Every step is rounded to f32 (theta^(2i / rope_dims) first, f_i is its reciprocal), as in official inference: at
// position 3,000 one ulp more of a frequency is 2e-4 rad. The angle, f32(position) * frequency, is f32 as well. cos and
// sin are those of the f32 angle, correctly rounded in all but about one case in a billion (computed in f64). `scale`
// multiplies cos and sin (YaRN's attention factor; V4: 1). Thread safety: one thread at a time.
// Used by bench/row_kernels.cc, model/family_model.h and model/rope.h.
#pragma once

#include <vector>

#include "base/index_types.h"
#include "kernels/device/device.h"
#include "sluice/status.h"

namespace sluice {

struct YarnScaling {
  double factor = 1.0, beta_fast = 32.0, beta_slow = 1.0;
  int original_max_position = 0;
  bool truncate = true;  // low and high are rounded to whole pairs; false: they are corr(beta_fast), corr(beta_slow)
};

// Returns rope_dims / 2 frequencies; `yarn` null: plain ones.
std::vector<float> rope_frequencies(double theta, int rope_dims, const YarnScaling* yarn);

// LongRoPE: 1 / (factors[i] * theta^(2i / rope_dims)); a factor for each pair.
std::vector<float> long_rope_frequencies(double theta, int rope_dims, const std::vector<float>& factors);

struct Llama3Scaling {
  double factor = 1.0, low = 1.0, high = 4.0;
  int original_max_position = 0;
};
void scale_as_llama3(const Llama3Scaling& scaling, std::vector<float>* frequencies);

class RopeTable {
 public:
  RopeTable() = default;
  explicit RopeTable(std::vector<float> frequencies, double scale = 1.0);

  // Reserves memory of the device for positions [0, most), of which none is computed yet. data() does not move
  // afterwards.
  Status reserve(Device& device, Position most);
  // Makes positions [0, positions) available to ops that are enqueued from now on; at least that many must be reserved.
  void ensure(Position positions);
  // Returns the table, [position][pair][cos, sin], at an address of the device.
  const float* data() const { return delayed() + width(); }
  // The same a position late, for layers whose row at a position belongs to the position before. A reader of position p
  // gets the values of p - 1; for position 0 it gets those of 0.
  const float* delayed() const { return reinterpret_cast<const float*>(memory_.data()); }
  Position reserved() const { return reserved_; }
  const std::vector<float>& frequencies() const { return frequencies_; }

 private:
  std::size_t width() const { return frequencies_.size() * 2; }  // the number of values of a position
  void write(Position position, float* row) const;

  std::vector<float> frequencies_;
  double scale_ = 1.0;
  Device* device_ = nullptr;
  DeviceMemory memory_;  // position 0, then all positions from 0 on: delayed() begins at the first
  Position reserved_ = 0, positions_ = 0;
};

}  // namespace sluice
