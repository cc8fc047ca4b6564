#include <array>
#include <utility>

#include "cache/pages/page_geometry.h"
#include "sim/workload.h"

namespace sluice {
namespace {

constexpr int kSystems = 24, kMostTurns = 40, kMessage = 90, kAnswer = 220;
constexpr double kContinues = 5.0 / 6, kThinkMs = 15'000;

// Blocks with the same owner and number are equal; so an owner is a text that several prompts begin with.
class Owners {
 public:
  std::int64_t next() { return next_++; }
  static std::int64_t block_id(std::int64_t owner, int block) { return (owner << kBlockBits) + block; }

 private:
  static constexpr int kBlockBits = 20;
  std::int64_t next_ = 0;
};

// Texts that many prompts begin with, the first ones more often than the last.
template <std::size_t N>
class SharedTexts {
 public:
  SharedTexts(Owners& owners, Draws& draws, int shortest, int longest, int step) {
    for (auto& [owner, tokens] : texts_) {
      owner = owners.next();
      tokens = shortest + draws.below((longest - shortest) / step + 1) * step;
    }
  }
  std::size_t draw(Draws& draws) const {
    const double popular = draws.uniform();
    return static_cast<std::size_t>(popular * popular * static_cast<double>(N));
  }
  int tokens(std::size_t text) const { return texts_[text].second; }
  // The ids of its full blocks.
  std::vector<std::int64_t> ids(std::size_t text) const {
    std::vector<std::int64_t> ids;
    for (int block = 0; block < tokens(text) / kBlockTokens; ++block) {
      ids.push_back(Owners::block_id(texts_[text].first, block));
    }
    return ids;
  }

 private:
  std::array<std::pair<std::int64_t, int>, N> texts_;  // texts as (owner, tokens)
};

struct Habits {  // chances of what follows a turn
  double another_answer = 0, changed_message = 0;
};

class Writer {
 public:
  Writer(const WorkloadOptions& options, Draws& draws, Trace& trace)
      : options_(options),
        draws_(draws),
        trace_(trace),
        systems_(owners_, draws, 300, 4300, 1),
        documents_(owners_, draws, 6'000, 40'000, 1),
        templates_(owners_, draws, 1024, 4096, kBlockTokens) {
    trace.hash_block_tokens = kBlockTokens;
  }

  bool full() const { return static_cast<int>(trace_.requests.size()) >= options_.requests; }

  void add_conversation(double at_ms, const Habits& habits) {
    const std::size_t system = systems_.draw(draws_);
    std::vector<std::int64_t> ids = systems_.ids(system);
    std::vector<Position> starts = {systems_.tokens(system)};
    TraceRequest turn = plain_request(at_ms, starts.back() + draws_.length(kMessage), draws_.length(kAnswer));
    branch(ids, static_cast<int>(ids.size()), turn);
    for (int turns = 1;; ++turns) {
      turn.hash_ids = ids;
      turn.message_starts = starts;
      const int before_message = starts.back();
      turn.after = add(turn);
      if (full()) return;
      const double next = draws_.uniform();
      turn.arrival_ms = draws_.exponential(kThinkMs);
      if (next < habits.another_answer) {
        turn.output_length = draws_.length(kAnswer);
        branch(ids, blocks_for(turn.input_length), turn);
        continue;
      }
      if (next < habits.another_answer + habits.changed_message) {
        turn.input_length = before_message + draws_.length(kMessage);
        turn.output_length = draws_.length(kAnswer);
        branch(ids, before_message / kBlockTokens, turn);
        continue;
      }
      if (turns == kMostTurns || draws_.uniform() >= kContinues) return;
      starts.push_back(turn.input_length);                       // where the answer begins
      starts.push_back(turn.input_length + turn.output_length);  // where the next message begins
      turn.input_length = starts.back() + draws_.length(kMessage);
      turn.output_length = draws_.length(kAnswer);
      branch(ids, static_cast<int>(ids.size()), turn);
    }
  }

  void add_questions(double at_ms) {
    const std::size_t document = documents_.draw(draws_);
    int after = -1;
    do {
      TraceRequest question = plain_request(after < 0 ? at_ms : draws_.exponential(kThinkMs),
                                            documents_.tokens(document) + draws_.length(60), draws_.length(150));
      question.after = after;
      question.hash_ids = documents_.ids(document);
      after = add(std::move(question));
    } while (!full() && draws_.uniform() < 2.0 / 3);
  }

  void add_continuation(double at_ms) {
    const std::size_t text = templates_.draw(draws_);
    if (!std::exchange(template_used_[text], true)) {
      TraceRequest alone = plain_request(at_ms, templates_.tokens(text), 1);
      alone.hash_ids = templates_.ids(text);
      add(std::move(alone));
      if (full()) return;
    }
    TraceRequest request = plain_request(at_ms, templates_.tokens(text) + draws_.length(100), draws_.length(100));
    request.hash_ids = templates_.ids(text);
    add(std::move(request));
  }

 private:
  int add(TraceRequest request) {
    trace_.requests.push_back(std::move(request));
    return static_cast<int>(trace_.requests.size()) - 1;
  }

  // The blocks from `first` on are new, as many as the turn needs.
  void branch(std::vector<std::int64_t>& ids, int first, const TraceRequest& turn) {
    const std::int64_t owner = owners_.next();
    ids.resize(static_cast<std::size_t>(first));
    for (int block = first; block < blocks_for(turn.input_length + turn.output_length); ++block) {
      ids.push_back(Owners::block_id(owner, block));
    }
  }

  const WorkloadOptions& options_;
  Draws& draws_;
  Trace& trace_;
  Owners owners_;
  SharedTexts<kSystems> systems_;
  SharedTexts<16> documents_;
  SharedTexts<32> templates_;
  std::array<bool, 32> template_used_{};
};

}  // namespace

void make_chat_workload(const WorkloadOptions& options, Draws& draws, Trace& trace) {
  Writer writer(options, draws, trace);
  PoissonTimes times(options.rate);
  while (!writer.full()) writer.add_conversation(times.next_ms(draws), {});
}

void make_reuse_workload(const WorkloadOptions& options, Draws& draws, Trace& trace) {
  Writer writer(options, draws, trace);
  PoissonTimes times(options.rate);
  while (!writer.full()) {
    const double at_ms = times.next_ms(draws), kind = draws.uniform();
    if (kind < 0.6) {
      writer.add_conversation(at_ms, {.another_answer = 0.12, .changed_message = 0.08});
    } else if (kind < 0.85) {
      writer.add_questions(at_ms);
    } else {
      writer.add_continuation(at_ms);
    }
  }
}

}  // namespace sluice
