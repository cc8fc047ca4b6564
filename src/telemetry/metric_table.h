// The table of all metrics: what each counts, in which unit, and what counts of a request that does not simply run to
// its end. A metric that is missing here cannot be made (metrics.h), its HELP line is what the table says, and so is
// the page that `sluice api --metrics` prints.
//
// Units: a request is one call of a client, a prompt one of its texts, an answer one of the choices for a prompt, and a
// token one of a prompt or an answer. A request ends once (Fate of served_request.h), in GenerationJob::end(), and its
// exchange with the client in ServerMetrics::on_exchange(); nothing else counts ends.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice {

struct MetricInfo {
  // "sluice_...", or "vllm:..." for what is shown in its place under that prefix, where vLLM's meaning is another.
  std::string_view name;
  std::string_view type;    // "counter", "gauge" or "histogram"
  std::string_view labels;  // names of those that it has beside model_name, with commas
  std::string_view unit;    // of a counter or gauge: what it counts; of a histogram: what is observed once
  std::string_view text;    // whole sentences
  std::string_view partly;  // of requests that were cut, preempted or swapped, left, were late or failed
};

std::span<const MetricInfo> metric_table();
// Null: there is none of this name.
const MetricInfo* find_metric(std::string_view name);
// The text of its HELP line.
std::string metric_help(const MetricInfo& metric);
// The page that `sluice api --metrics` prints.
std::string metrics_markdown();

}  // namespace sluice
