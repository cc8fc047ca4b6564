// Splits the time of a step on a device: the time that each kernel adds, and the time that the stages of the step would
// take at the machine's speed. Thread safety: pure functions.
// Used by rounds.h.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "bench/step_work.h"
#include "kernels/ops/kernel_times.h"

namespace sluice {

// One kernel of a step: the mean over all steps.
struct KernelLine {
  std::string name;
  StepStage stage = StepStage::kRest;
  double count = 0, adds_us = 0;
};
struct StageLine {
  StepStage stage = StepStage::kRest;
  double adds_us = 0, bytes = 0, floor_us = 0;
};
struct StepKernels {
  std::vector<KernelLine> kernels;  // the largest first
  std::vector<StageLine> stages;    // likewise
  double step_us = 0, idle_us = 0;
};

// A kernel adds the time from the end of all kernels before it to its own end; while none runs the device is idle.
// `times` are of `works.size()` steps, in the order of their starts.
StepKernels step_kernels(const std::vector<KernelTime>& times, const std::vector<StepWork>& works,
                         const MachineSpeed& speed);
// Kernels that add less than a thousandth of a step share one line.
std::string to_text(const StepKernels& table, const std::string& test);
// {"step_us", "idle_us", "stages": [{"stage", "us", "bytes", "floor_us"}], "kernels": [{"stage", "us", "count",
// "kernel"}]}
boost::json::object to_json(const StepKernels& table);

}  // namespace sluice
