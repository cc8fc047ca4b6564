// Used by rounds.h.
#include "bench/step_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <map>

namespace sluice {
namespace {

// The bytes that a step reads for a stage; null where nothing counts them.
const StageWork* work_of(const StepWork& work, StepStage stage) {
  switch (stage) {
    case StepStage::kDense:
      return &work.dense;
    case StepStage::kExperts:
      return &work.experts;
    case StepStage::kHead:
      return &work.head;
    case StepStage::kAttention:
      return &work.cache;
    case StepStage::kRest:
      break;
  }
  return nullptr;
}

const char* name_of(StepStage stage) {
  return kStageNames[static_cast<std::size_t>(stage)];
}

}  // namespace

StepKernels step_kernels(const std::vector<KernelTime>& times, const std::vector<StepWork>& works,
                         const MachineSpeed& speed) {
  StepKernels table;
  if (times.empty() || works.empty()) return table;
  const double steps = static_cast<double>(works.size()), us = 1e-3 / steps;
  std::map<std::pair<std::string, StepStage>, KernelLine> rows;
  std::map<StepStage, StageLine> stages;
  std::uint64_t ended = times.front().start_ns;
  for (const KernelTime& time : times) {
    if (time.start_ns > ended) table.idle_us += static_cast<double>(time.start_ns - ended) * us;
    const std::uint64_t from = std::max(ended, time.start_ns);
    const double adds = time.end_ns > from ? static_cast<double>(time.end_ns - from) * us : 0;
    ended = std::max(ended, time.end_ns);
    KernelLine& row = rows[{short_kernel_name(time.name), time.stage}];
    row.count += 1 / steps, row.adds_us += adds;
    StageLine& stage = stages[time.stage];
    stage.stage = time.stage, stage.adds_us += adds;
  }
  table.step_us = static_cast<double>(ended - times.front().start_ns) * us;
  for (auto& [key, row] : rows) {
    row.name = key.first, row.stage = key.second;
    table.kernels.push_back(row);
  }
  for (auto& [key, stage] : stages) {
    for (const StepWork& work : works) {
      if (const StageWork* of = work_of(work, key); of != nullptr) {
        stage.bytes += of->bytes / steps;
        stage.floor_us += 1e6 * floor_seconds(*of, speed) / steps;
      }
    }
    table.stages.push_back(stage);
  }
  const auto more = [](const auto& a, const auto& b) { return a.adds_us > b.adds_us; };
  std::ranges::stable_sort(table.kernels, more);
  std::ranges::stable_sort(table.stages, more);
  return table;
}

boost::json::object to_json(const StepKernels& table) {
  boost::json::array stages, kernels;
  for (const StageLine& row : table.stages) {
    stages.push_back(
        {{"stage", name_of(row.stage)}, {"us", row.adds_us}, {"bytes", row.bytes}, {"floor_us", row.floor_us}});
  }
  for (const KernelLine& row : table.kernels) {
    kernels.push_back({{"stage", name_of(row.stage)}, {"us", row.adds_us}, {"count", row.count}, {"kernel", row.name}});
  }
  return {{"step_us", table.step_us},
          {"idle_us", table.idle_us},
          {"stages", std::move(stages)},
          {"kernels", std::move(kernels)}};
}

std::string to_text(const StepKernels& table, const std::string& test) {
  if (table.kernels.empty()) return {};
  const double percent = 100 / table.step_us;
  std::string text = fmt::format("kernels of a step of {}: {:.1f} us, of which the device is idle {:.1f}\n", test,
                                 table.step_us, table.idle_us);
  text += fmt::format("{:<12}{:>12}{:>8}{:>12}{:>12}{:>10}\n", "stage", "us a step", "%", "MB", "floor us", "x floor");
  for (const StageLine& stage : table.stages) {
    text += fmt::format("{:<12}{:>12.1f}{:>8.1f}", name_of(stage.stage), stage.adds_us, stage.adds_us * percent);
    text += stage.floor_us > 0 ? fmt::format("{:>12.1f}{:>12.1f}{:>10.2f}\n", stage.bytes * 1e-6, stage.floor_us,
                                             stage.adds_us / stage.floor_us)
                               : "\n";
  }
  text += fmt::format("{:<12}{:>12}{:>8}{:>12}{:>12}  {}\n", "stage", "us a step", "%", "count", "us each", "kernel");
  KernelLine others{.name = "others"};
  for (const KernelLine& row : table.kernels) {
    if (row.adds_us * percent < 0.1) {
      others.count += row.count, others.adds_us += row.adds_us;
      continue;
    }
    text += fmt::format("{:<12}{:>12.1f}{:>8.1f}{:>12.1f}{:>12.2f}  {}\n", name_of(row.stage), row.adds_us,
                        row.adds_us * percent, row.count, row.adds_us / row.count, row.name);
  }
  if (others.count > 0) {
    text += fmt::format("{:<12}{:>12.1f}{:>8.1f}{:>12.1f}{:>12.2f}  {}\n", "", others.adds_us, others.adds_us * percent,
                        others.count, others.adds_us / others.count, others.name);
  }
  return text;
}

}  // namespace sluice
