// DeviceTables: a step's tables in a device's memory, at addresses that are the same in every step.
// Used by engine/runner/runner.h, engine/step/drafts/model_drafts.h and model/drafter.h.
#pragma once

#include <vector>

#include "kernels/device/device.h"
#include "kernels/step/step_builder.h"
#include "kernels/step/step_tables.h"
#include "sluice/status.h"

namespace sluice {

class DeviceTables {
 public:
  struct Capacity {
    int rows = 0;                                    // most rows of a step, and so most spans
    std::size_t latent_pages = 0, window_pages = 0;  // most pages in all lists of a step together
  };
  // Fails with kResourceExhausted if the device lacks the memory.
  Status reserve(Device& device, const TableShape& shape, const Capacity& capacity);
  // Enqueues the upload of the host's tables. Ops enqueued from then on until the next call may use the result. The
  // host's tables, except for host_spans, may change as soon as the call returns.
  const StepTables& upload(const StepTables& host);

 private:
  template <class T>
  const T* put(std::size_t place, const T* values, std::size_t count);

  Device* device_ = nullptr;
  std::vector<std::size_t> offsets_;  // offsets of the arrays, in the order of upload()
  DeviceMemory memory_;
  std::vector<ByteMove> moves_;
  StepTables tables_;
};

}  // namespace sluice
