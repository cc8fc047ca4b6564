// Used by bench/row_kernels.cc, model/family_model.h and model/rope.h.
#include "kernels/ops/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace sluice {

std::vector<float> rope_frequencies(double theta, int rope_dims, const YarnScaling* yarn) {
  const int pairs = rope_dims / 2;
  std::vector<float> frequencies(static_cast<std::size_t>(pairs));
  double low = 0, high = 0;
  if (yarn != nullptr) {
    const auto correction = [&](double rotations) {
      return rope_dims * std::log(yarn->original_max_position / (2 * std::numbers::pi * rotations)) /
             (2 * std::log(theta));
    };
    low = correction(yarn->beta_fast), high = correction(yarn->beta_slow);
    if (yarn->truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(rope_dims - 1));
    if (low == high) high += 0.001;
  }
  for (int i = 0; i < pairs; ++i) {
    const auto power = static_cast<float>(std::pow(theta, 2.0 * i / rope_dims));
    float f = 1.0F / power;
    if (yarn != nullptr) {
      const float ramp = static_cast<float>(std::clamp((i - low) / (high - low), 0.0, 1.0));
      f = f / static_cast<float>(yarn->factor) * ramp + f * (1.0F - ramp);
    }
    frequencies[static_cast<std::size_t>(i)] = f;
  }
  return frequencies;
}

std::vector<float> long_rope_frequencies(double theta, int rope_dims, const std::vector<float>& factors) {
  std::vector<float> frequencies;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const auto power = static_cast<float>(std::pow(theta, 2.0 * static_cast<double>(i) / rope_dims));
    frequencies.push_back(1.0F / (factors[i] * power));
  }
  return frequencies;
}

void scale_as_llama3(const Llama3Scaling& scaling, std::vector<float>* frequencies) {
  const auto original = static_cast<float>(scaling.original_max_position);
  const auto factor = static_cast<float>(scaling.factor);
  const auto low = static_cast<float>(scaling.low), high = static_cast<float>(scaling.high);
  for (float& f : *frequencies) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / f;
    if (wavelength > original / low) {
      f = f / factor;
      continue;
    }
    if (wavelength < original / high) continue;
    const float smooth = (original / wavelength - low) / (high - low);
    f = (1.0F - smooth) * f / factor + smooth * f;
  }
}

RopeTable::RopeTable(std::vector<float> frequencies, double scale)
    : frequencies_(std::move(frequencies)), scale_(scale) {}

Status RopeTable::reserve(Device& device, Position most) {
  device_ = &device;
  positions_ = 0;
  reserved_ = most;
  memory_ = DeviceMemory();
  const std::size_t rows = static_cast<std::size_t>(most) + 1;
  SLUICE_ASSIGN_OR_RETURN(memory_, device.map(rows * width() * sizeof(float), "rotary tables"));
  return {};
}

void RopeTable::write(Position position, float* row) const {
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const auto angle = static_cast<double>(static_cast<float>(position) * frequencies_[i]);
    row[2 * i] = static_cast<float>(std::cos(angle) * scale_);
    row[2 * i + 1] = static_cast<float>(std::sin(angle) * scale_);
  }
}

void RopeTable::ensure(Position positions) {
  if (positions <= positions_) return;
  SLUICE_CHECK(positions <= reserved_, "a position beyond the longest sequence");
  const Position grown = std::min(reserved_, std::max({positions, 2 * positions_, Position{1024}}));
  const Position first = positions_ == 0 ? -1 : positions_;
  std::vector<float> values(static_cast<std::size_t>(grown - first) * width());
  for (Position p = first; p < grown; ++p) {
    write(std::max(p, 0), values.data() + static_cast<std::size_t>(p - first) * width());
  }
  device_->upload({memory_.data() + static_cast<std::size_t>(first + 1) * width() * sizeof(float),
                   reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)});
  positions_ = grown;
}

}  // namespace sluice
