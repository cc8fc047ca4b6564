// Used by cli/bench/bench_serve_command.cc.
#include "loadgen/determinism.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {
namespace {

constexpr std::size_t kMostExamples = 10;

// The prompts of another plan, in the other order.
class ReversedPrompts : public LoadPrompts {
 public:
  explicit ReversedPrompts(const LoadPlan& plan) : plan_(plan) {}
  void add_prompt(std::size_t request, boost::json::object& body) const override {
    plan_.prompts->add_prompt(plan_.trace.requests.size() - 1 - request, body);
  }

 private:
  const LoadPlan& plan_;
};

using Answers = std::vector<AnswerRecord>;  // answers by request

Answers by_request(LoadRun run, std::size_t count, bool reversed) {
  Answers answers(count);
  for (AnswerRecord& answer : answers) answer.failure = Failure::kGivenUp;
  for (SentRequest& sent : run.requests)
    answers[reversed ? count - 1 - sent.request : sent.request] = std::move(sent.answer);
  return answers;
}

}  // namespace

DeterminismReport check_determinism(HttpClient& client, LoadPlan& plan, BodyOptions body, LoadRunOptions options,
                                    int concurrency) {
  DeterminismReport report;
  const std::size_t count = plan.trace.requests.size();
  options.keep_text = true;
  body.logprobs = true;

  LoadPlan reversed;
  reversed.trace = plan.trace;
  std::reverse(reversed.trace.requests.begin(), reversed.trace.requests.end());
  for (TraceRequest& request : reversed.trace.requests) request.after = -1;  // the earlier turns were answered above
  reversed.prompts = std::make_unique<ReversedPrompts>(plan);

  const auto ask = [&](LoadPlan& asked, bool stream, int at_a_time) {
    if (report.interrupted) return Answers(count);
    body.stream = stream;
    options.concurrency = at_a_time;
    LoadRun run = run_load(client, asked, body, options);
    report.interrupted = run.interrupted;
    return by_request(std::move(run), count, &asked == &reversed);
  };
  const Answers alone = ask(plan, false, 1);
  const Answers together = ask(plan, true, concurrency);
  const Answers again = ask(reversed, true, concurrency);

  for (std::size_t i = 0; i < count; ++i) {
    const AnswerRecord* answers[] = {&alone[i], &together[i], &again[i]};
    const auto bad = std::find_if(std::begin(answers), std::end(answers),
                                  [](const AnswerRecord* a) { return a->failure != Failure::kNone; });
    if (bad != std::end(answers)) {
      ++report.failed;
      if (report.failure.empty()) report.failure = fmt::format("{}: {}", failure_name((*bad)->failure), (*bad)->reason);
      continue;
    }
    ++report.requests;
    const bool text = alone[i].text == together[i].text && alone[i].text == again[i].text;
    const bool logprobs = alone[i].logprobs == together[i].logprobs && alone[i].logprobs == again[i].logprobs;
    report.logprobs_known |= !alone[i].logprobs.empty();
    report.different_answers += text ? 0 : 1;
    report.different_logprobs += logprobs ? 0 : 1;
    if (!(text && logprobs) && report.examples.size() < kMostExamples) report.examples.push_back(i);
    for (const Answers* streamed : {&together, &again}) {
      if ((*streamed)[i].text != alone[i].text)
        report.faults += find_stream_faults(alone[i].text, (*streamed)[i].pieces);
    }
  }
  return report;
}

std::string to_text(const DeterminismReport& report) {
  std::string text = fmt::format("{} requests alone, together and together again: {} answers differ, ", report.requests,
                                 report.different_answers);
  text += report.logprobs_known ? fmt::format("{} sets of log-probabilities differ\n", report.different_logprobs)
                                : std::string("the server gave no log-probabilities\n");
  if (report.failed > 0) text += fmt::format("  {} requests failed, one with {}\n", report.failed, report.failure);
  const StreamFaults& faults = report.faults;
  if (faults.all() > 0) {
    text += fmt::format(
        "  pieces of streams beside the answers alone: {} lost, {} twice, {} in another order, {} foreign\n",
        faults.lost, faults.duplicated, faults.reordered, faults.foreign);
  }
  if (!report.examples.empty()) text += fmt::format("  requests that differ: {}\n", fmt::join(report.examples, ", "));
  if (report.interrupted) text += "  interrupted: not all were asked\n";
  return text;
}

boost::json::object to_json(const DeterminismReport& report) {
  return {{"requests", report.requests},
          {"failed", report.failed},
          {"different_answers", report.different_answers},
          {"different_logprobs", report.different_logprobs},
          {"logprobs_known", report.logprobs_known},
          {"lost", report.faults.lost},
          {"duplicated", report.faults.duplicated},
          {"reordered", report.faults.reordered},
          {"foreign", report.faults.foreign}};
}

}  // namespace sluice
