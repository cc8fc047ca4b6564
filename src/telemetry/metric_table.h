// The table of all metrics: the meaning and the unit of each, and how it counts a request that does not simply run to
// its end. A metric that is missing here cannot be made (metrics.h). The HELP lines and the page that `sluice api
// --metrics` prints come from the table.
//
// Units: a request is one call of a client, a prompt one of its texts, an answer one of the choices for a prompt, and a
// token one of a prompt or an answer. A request ends once (Fate of served_request.h), in GenerationJob::end(), and its
// exchange with the client in ServerMetrics::on_exchange(); nothing else counts ends.
// Used by cli/manual/manual_commands.cc and metrics.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice {

struct MetricInfo {
  // "sluice_...", or "vllm:..." for a metric that is shown in its place under that prefix, if vLLM's meaning is
  // different.
  std::string_view name;
  std::string_view type;    // "counter", "gauge" or "histogram"
  std::string_view labels;  // names of its labels other than model_name, with commas
  std::string_view unit;    // counter, gauge: what it counts; histogram: what it observes once
  std::string_view text;    // whole sentences
  std::string_view partly;  // the way that cut, preempted, swapped, left, late or failed requests count
};

std::span<const MetricInfo> metric_table();
// Returns null if there is none of this name.
const MetricInfo* find_metric(std::string_view name);
// The text of its HELP line.
std::string metric_help(const MetricInfo& metric);
// The page that `sluice api --metrics` prints.
std::string metrics_markdown();

}  // namespace sluice
