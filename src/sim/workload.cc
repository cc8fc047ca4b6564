#include "sim/workload.h"

#include <fmt/format.h>

#include <utility>

#include "cache/page_geometry.h"
#include "sim/draws.h"

namespace sluice {
namespace {

constexpr int kMaxRequests = 100'000'000;

// Poisson arrivals.
class Arrivals {
 public:
  explicit Arrivals(double rate) : mean_ms_(1000 / rate) {}
  double next_ms(Draws& draws) { return now_ms_ += draws.exponential(mean_ms_); }

 private:
  double mean_ms_, now_ms_ = 0;
};

TraceRequest plain_request(double arrival_ms, int input, int output) {
  TraceRequest request;
  request.arrival_ms = arrival_ms;
  request.input_length = input;
  request.output_length = output;
  return request;
}

void make_default(const WorkloadOptions& options, Draws& draws, Trace& trace) {
  const int input = options.mean_input > 0 ? options.mean_input : 512;
  const int output = options.mean_output > 0 ? options.mean_output : 128;
  Arrivals arrivals(options.rate);
  for (int i = 0; i < options.requests; ++i) {
    const double at = arrivals.next_ms(draws);
    const int tokens = draws.length(input);
    trace.requests.push_back(plain_request(at, tokens, draws.length(output)));
  }
}

void make_mixed(const WorkloadOptions& options, Draws& draws, Trace& trace) {
  Arrivals arrivals(options.rate);
  for (int i = 0; i < options.requests; ++i) {
    const double at = arrivals.next_ms(draws);
    const bool is_long = draws.uniform() < 0.05;
    const int tokens = is_long ? 8000 + draws.length(16000) : draws.length(128);
    trace.requests.push_back(plain_request(at, tokens, draws.length(is_long ? 256 : 64)));
  }
}

void make_bulk(const WorkloadOptions& options, Draws&, Trace& trace) {
  const int input = options.mean_input > 0 ? options.mean_input : 8192;
  const int output = options.mean_output > 0 ? options.mean_output : 1024;
  for (int i = 0; i < options.requests; ++i) trace.requests.push_back(plain_request(0, input, output));
}

void make_behind_long(const WorkloadOptions& options, Draws& draws, Trace& trace) {
  constexpr double kEveryMs = 240'000;
  constexpr int kLong = 600'000;
  Arrivals arrivals(options.rate);
  double next_long_ms = 10'000;
  while (static_cast<int>(trace.requests.size()) < options.requests) {
    const double at = arrivals.next_ms(draws);
    if (at >= next_long_ms) {
      trace.requests.push_back(plain_request(next_long_ms, kLong, 64));
      next_long_ms += kEveryMs;
    }
    trace.requests.push_back(plain_request(at, 101, 32));
  }
  trace.requests.resize(static_cast<std::size_t>(options.requests));
}

// Conversations. Blocks within a system prompt have the ids of that prompt, all others of the conversation.
class Chat {
 public:
  Chat(const WorkloadOptions& options, Draws& draws, Trace& trace) : options_(options), draws_(draws), trace_(trace) {
    for (int& tokens : system_tokens_) tokens = 300 + draws_.below(4001);
  }

  void make() {
    Arrivals arrivals(options_.rate);
    for (std::int64_t conversation = 0; left() > 0; ++conversation) {
      add_conversation(conversation, arrivals.next_ms(draws_));
    }
  }

 private:
  static constexpr int kSystems = 24, kMostTurns = 40, kMessage = 90, kAnswer = 220;
  static constexpr double kContinues = 5.0 / 6, kThinkMs = 15'000;

  int left() const { return options_.requests - static_cast<int>(trace_.requests.size()); }

  void add_conversation(std::int64_t conversation, double at_ms) {
    const double popular = draws_.uniform();
    const auto system = static_cast<std::size_t>(popular * popular * kSystems);  // the first ones more often
    std::vector<Position> starts;
    int history = system_tokens_[system];
    int after = -1;
    for (int turn = 0; turn < kMostTurns && left() > 0; ++turn) {
      if (turn > 0 && draws_.uniform() >= kContinues) break;
      starts.push_back(history);
      TraceRequest request = plain_request(turn == 0 ? at_ms : draws_.exponential(kThinkMs),
                                           history + draws_.length(kMessage), draws_.length(kAnswer));
      request.after = after;
      request.message_starts = starts;
      history = request.input_length + request.output_length;
      request.hash_ids = block_ids(system, conversation, history);
      starts.push_back(request.input_length);
      after = static_cast<int>(trace_.requests.size());
      trace_.requests.push_back(std::move(request));
    }
  }

  std::vector<std::int64_t> block_ids(std::size_t system, std::int64_t conversation, int tokens) const {
    constexpr int kOwnerShift = 20;
    std::vector<std::int64_t> ids;
    const int shared = system_tokens_[system] / kBlockTokens;
    for (int block = 0; block < blocks_for(tokens); ++block) {
      const std::int64_t owner = block < shared ? static_cast<std::int64_t>(system) : kSystems + conversation;
      ids.push_back((owner << kOwnerShift) + block);
    }
    return ids;
  }

  const WorkloadOptions& options_;
  Draws& draws_;
  Trace& trace_;
  int system_tokens_[kSystems] = {};
};

void make_chat(const WorkloadOptions& options, Draws& draws, Trace& trace) {
  trace.hash_block_tokens = kBlockTokens;
  Chat(options, draws, trace).make();
}

struct Workload {
  const char* name;
  void (*make)(const WorkloadOptions&, Draws&, Trace&);
};

constexpr Workload kWorkloads[] = {
    {"default", make_default},         {"chat", make_chat}, {"mixed", make_mixed}, {"bulk", make_bulk},
    {"behind-long", make_behind_long},
};

Status check(const WorkloadOptions& options) {
  constexpr int kMostTokens = 1 << 22;  // of a mean: 16 times that still fits
  if (options.requests < 1 || options.requests > kMaxRequests) {
    return invalid_argument(fmt::format("--requests: expected 1 to {}, found {}", kMaxRequests, options.requests));
  }
  if (!(options.rate > 0 && options.rate <= 1e9)) {
    return invalid_argument(fmt::format("--rate: expected a number above 0, found {}", options.rate));
  }
  for (const auto& [flag, tokens] : {std::pair{"--input", options.mean_input}, {"--output", options.mean_output}}) {
    if (tokens < 0 || tokens > kMostTokens) {
      return invalid_argument(fmt::format("{}: expected 0 to {}, found {}", flag, kMostTokens, tokens));
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const Workload& workload : kWorkloads) names.emplace_back(workload.name);
  return names;
}

Result<Trace> make_workload(const WorkloadOptions& options) {
  SLUICE_RETURN_IF_ERROR(check(options));
  for (const Workload& workload : kWorkloads) {
    if (workload.name != options.name) continue;
    Trace trace;
    trace.requests.reserve(static_cast<std::size_t>(options.requests));
    Draws draws(options.seed);
    workload.make(options, draws, trace);
    return trace;
  }
  return invalid_argument(
      fmt::format("--workload: expected one of {}, found '{}'", fmt::join(workload_names(), ", "), options.name));
}

}  // namespace sluice
