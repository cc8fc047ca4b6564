// op_times MODEL [DEVICE [TOKENS [PROFILE [SEQUENCES [ROWS]]]]]: measures each op of a step by itself, and the step as
// a whole. The step has SEQUENCES (1) sequences of ROWS (1) rows each. For every call in the step it takes the median
// of some steps, with a wait before and after the call, less that of a call that does nothing. Each step makes the
// sequences longer: the last line says how many tokens are before the median step. A folder without a checkpoint has
// random weights, of 64 experts a layer. It prints a line for each op and one of JSON, and exits 1 if a call takes 100
// us or more.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/runner/runner.h"
#include "kernels/device/device.h"
#include "kernels/device/isa.h"
#include "kernels/ops/ops.h"

namespace sluice {
namespace {

constexpr double kMost = 100;  // most us of a call

// The calls of one step: op and times, by their place in it.
struct Times {
  struct Call {
    const char* op;
    std::vector<double> us;
  };
  const OpTable* inner = nullptr;
  bool measuring = false;
  std::size_t next = 0;
  std::vector<Call> calls;
};
Times& times() {
  static Times all;
  return all;
}

double now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

template <class Call>
void measure(const char* op, const Exec& exec, const Call& call) {
  Times& t = times();
  Exec inner = exec;
  inner.ops = t.inner;
  if (!t.measuring) return call(inner);
  exec.device->wait();
  const double begin = now();
  call(inner);
  exec.device->wait();
  if (t.next == t.calls.size()) t.calls.push_back({op, {}});
  t.calls[t.next++].us.push_back(now() - begin);
}

namespace timed {
#define SLUICE_OP(op, Args)                                                         \
  void op(const Exec& exec, const Args& args) {                                     \
    measure(#op, exec, [&](const Exec& inner) { times().inner->op(inner, args); }); \
  }
SLUICE_OPS(SLUICE_OP)
#undef SLUICE_OP
}  // namespace timed

OpTable timed_table() {
  OpTable table = *times().inner;
#define SLUICE_OP(op, Args) table.op = timed::op;
  SLUICE_OPS(SLUICE_OP)
#undef SLUICE_OP
  return table;
}

struct Arguments {
  std::string folder, device = "cuda", profile = "default";
  int tokens = 700, sequences = 1, rows = 1;
  int steps() const { return rows <= 64 ? 41 : 3; }  // few where the sequences would become long
};

bool has_checkpoint(const std::string& folder) {
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (file.path().extension() == ".safetensors") return true;
  }
  return folder.ends_with(".gguf");
}

Result<std::unique_ptr<Runner>> load(const Arguments& args) {
  const std::string& folder = args.folder;
  const int tokens = args.tokens;
  EngineSetup options;
  options.model.folder = folder;
  options.machine.device = args.device;
  options.numerics.profile = args.profile;
  if (!has_checkpoint(folder)) {
    options.model.load_format = LoadFormat::kDummy;
    options.model.dummy_experts = 64;
  }
  options.cache.kv_cache_memory = (std::int64_t{256} << 20) * args.sequences * (1 + args.rows / 64);
  options.scheduler.max_num_seqs = args.sequences + 1;
  options.model.max_model_len = tokens + 4 * args.steps() * args.rows;
  options.scheduler.max_num_batched_tokens = std::max(512, args.sequences * args.rows);
  SLUICE_ASSIGN_OR_RETURN(DeviceChoice device, choose_device(options.machine, options.numerics));
  times().inner = device.ops != nullptr ? device.ops : &cpu_op_table();
  static OpTable table;
  table = timed_table();
  device.ops = &table;
  SLUICE_ASSIGN_OR_RETURN(const KernelTable* kernels, select_kernels(options.machine.isa));
  if (device.kernels != nullptr) kernels = device.kernels;
  ThreadPool pool(4);
  const Exec exec{.pool = &pool, .kernels = kernels, .ops = device.ops, .device = &device.device()};
  LoadReport report;
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                          load_model(exec, folder, options, [](std::size_t, std::size_t) {}, &report));
  return Runner::create(std::move(model), kernels, options, std::move(device));
}

// Computes `rows` more tokens of each sequence; a token is drawn from the last one.
Status step(Runner& runner, std::span<const StateSlot> sequences, int rows) {
  static std::mt19937 random(1);
  const auto count = static_cast<std::size_t>(rows);
  std::vector<TokenId> ids(sequences.size() * count);
  for (TokenId& id : ids) id = static_cast<TokenId>(random() % runner.limits().vocab_size);
  const int last = rows - 1;
  std::vector<StepSpan> spans;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    spans.push_back(
        {.sequence = sequences[i], .ids = std::span(ids).subspan(i * count, count), .logit_rows = {&last, 1}});
  }
  SLUICE_RETURN_IF_ERROR(runner.run_step(spans));
  std::vector<SampleRow> draws;
  for (const StateSlot sequence : sequences) {
    const int slot = static_cast<int>(draws.size());
    draws.push_back(
        {.top_k = 50, .top_p = 0.95F, .seed = 7, .position = runner.sequences().position(sequence), .slot = slot});
  }
  runner.logits().draw(draws);
  runner.logits().finish();
  return runner.exec().device->status();
}

Status run(const Arguments& args, bool* fast) {
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Runner> runner, load(args));
  std::vector<StateSlot> sequences;
  for (int i = 0; i < args.sequences; ++i) {
    SLUICE_ASSIGN_OR_RETURN(const StateSlot sequence, runner->sequences().open());
    for (int done = 0; done < args.tokens; done += 512) {
      SLUICE_RETURN_IF_ERROR(step(*runner, {&sequence, 1}, std::min(512, args.tokens - done)));
    }
    sequences.push_back(sequence);
  }
  std::vector<double> whole, nothing;
  const int steps = args.steps(), warm = steps > 5 ? 5 : 1;
  for (int i = 0; i < 2 * steps; ++i) {  // the step as it is, then op by op
    times().measuring = i >= steps;
    times().next = 0;
    runner->exec().device->wait();
    const double begin = now();
    SLUICE_RETURN_IF_ERROR(step(*runner, sequences, args.rows));
    if (i >= warm && i < steps) whole.push_back(now() - begin);
    const double empty = now();
    runner->exec().device->wait();
    nothing.push_back(now() - empty);
  }
  std::map<std::string, std::vector<double>> ops;
  for (const Times::Call& call : times().calls) {
    if (static_cast<int>(call.us.size()) >= steps / 2)
      ops[call.op].push_back(std::max(0.0, median(call.us) - median(nothing)));
  }
  double sum = 0, most = 0;
  std::string json;
  for (const auto& [op, calls] : ops) {
    double of_op = 0;
    for (const double us : calls) of_op += us;
    const double slowest = *std::max_element(calls.begin(), calls.end());
    fmt::print("{:<20} {:>4} calls {:>9.1f} us, the slowest {:>7.1f} us\n", op, calls.size(), of_op, slowest);
    json += fmt::format("{}\"{}\": {{\"calls\": {}, \"us\": {:.1f}, \"slowest_us\": {:.1f}}}", json.empty() ? "" : ", ",
                        op, calls.size(), of_op, slowest);
    sum += of_op, most = std::max(most, slowest);
  }
  fmt::print(
      "{{\"device\": \"{}\", \"tokens\": {}, \"sequences\": {}, \"rows\": {}, \"step_us\": {:.1f}, \"sum_us\": {:.1f}, "
      "\"slowest_us\": {:.1f}, "
      "\"wait_us\": {:.2f}, \"ops\": {{{}}}}}\n",
      args.device, args.tokens + (steps + steps / 2) * args.rows, args.sequences, args.rows, median(whole), sum, most,
      median(nothing), json);
  *fast = most < kMost;
  return {};
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print("op_times MODEL [DEVICE [TOKENS [PROFILE [SEQUENCES [ROWS]]]]]\n");
    return 2;
  }
  sluice::Arguments args{.folder = argv[1]};
  if (argc > 2) args.device = argv[2];
  if (argc > 3) args.tokens = std::atoi(argv[3]);
  if (argc > 4) args.profile = argv[4];
  if (argc > 5) args.sequences = std::atoi(argv[5]);
  if (argc > 6) args.rows = std::atoi(argv[6]);
  bool fast = false;
  const sluice::Status status = sluice::run(args, &fast);
  if (!status.ok()) fmt::print("{}\n", status.message());
  return status.ok() && fast ? 0 : 1;
}
