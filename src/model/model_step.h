// ModelStep: what one forward call works with in every family, to derive from. Values live as long as the call; thread
// safety: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/device.h"
#include "model/batch.h"

namespace sluice {

struct ModelStep {
  const Exec& exec;
  const StepTables& tables;
  const CacheView& cache;
  const Probe* probe;  // may be null

  int rows() const { return tables.rows(); }
  Device& device() const { return exec.device != nullptr ? *exec.device : cpu_device(); }
  // Of a buffer [rows(), columns].
  std::size_t floats(std::int64_t columns) const {
    return static_cast<std::size_t>(rows()) * static_cast<std::size_t>(columns);
  }
  // Gives the probe values [rows, columns] of a layer: "layers.3.NAME".
  void show(int layer, const char* name, const float* values, int shown_rows, std::int64_t columns) const;
  void show(int layer, const char* name, const float* values, std::int64_t columns) const {
    show(layer, name, values, rows(), columns);
  }
  void show(int layer, const char* name, const std::int32_t* values, std::int64_t columns) const;
};

}  // namespace sluice
