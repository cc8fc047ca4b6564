// Used by cli/commands/simulate_command.cc.
#include "sim/load_estimate.h"

#include <algorithm>

#include "engine/engine_options.h"

namespace sluice {

double bearable_rate(const Trace& trace, const CostModel& cost, const EngineSetup& engine) {
  // leaders: requests that arrive at a time of their own. The others follow an earlier answer, and no rate counts them.
  double input = 0, output = 0, leaders = 0;
  for (const TraceRequest& request : trace.requests) {
    input += request.input_length;
    output += request.output_length;
    leaders += request.after < 0 ? 1 : 0;
  }
  const auto count = static_cast<double>(trace.requests.size());
  input /= count;
  output /= count;

  // Steady state: each decoding request ends after `output` steps, and its successor brings `input` prompt rows.
  const double prompt_rows_each = input / output;
  const int decodes = std::clamp(static_cast<int>(resolve_step_rows(engine) / (1 + prompt_rows_each)), 1,
                                 engine.scheduler.max_num_seqs);
  const auto prompt_rows = static_cast<int>(decodes * prompt_rows_each);
  StepPlan plan;
  for (int i = 0; i < decodes; ++i)
    plan.spans.push_back({SequenceId(i), static_cast<int>(input + output / 2), 1, true});
  if (prompt_rows > 0) plan.spans.push_back({SequenceId(decodes), static_cast<int>(input / 2), prompt_rows, false});
  plan.rows = decodes + prompt_rows;
  const double requests_per_second = decodes / output / cost.step_seconds(plan);
  return requests_per_second * leaders / count;
}

}  // namespace sluice
