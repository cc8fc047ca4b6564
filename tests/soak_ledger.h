// The soak's books: what was submitted, what each choice got, in which step, and that each ended once. Steps are
// counted by the model, on the engine's thread, where the outputs arrive too, so waits are exact.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sluice/engine.h"
#include "soak_requests.h"

namespace sluice {

// The promises of the scheduler (sched/scheduler.h), as far as they can be stated for a phase; 0: none.
struct SoakPromises {
  int token_gap = 0;      // steps from one token of a choice to the next
  int rows_per_step = 0;  // h: of the oldest prompt; with it, steps to the first token
  int most_share_waits = 0;
};

struct SoakNumbers {
  std::uint64_t requests = 0, refused = 0, choices = 0, tokens = 0, steps = 0;
  std::array<std::uint64_t, 4> ended{};  // choices, by FinishReason
  std::uint64_t cancelled_before_a_token = 0;
  int longest_gap = 0, longest_wait = 0;  // steps
  double nearest_to_bound = 0;            // the largest wait over its bound
  std::uint64_t late = 0, late_gaps = 0, bad_outputs = 0;
};

class SoakLedger {
 public:
  struct Choice {
    std::vector<std::int32_t> tokens;
    bool ended = false;
    FinishReason reason = FinishReason::kStop;
    std::int64_t last_step = -1;
  };
  struct Entry {
    SoakRequest request;
    RequestId id = 0;
    std::vector<Choice> choices;
    int unfinished = 0;
    bool begun = false;  // its first choice has a token, or has ended
    std::int64_t submitted_at = 0, bound = 0;
  };

  SoakLedger(const SoakPromises& promises, int keep_every) : promises_(promises), keep_every_(keep_every) {}

  // Any thread. Waits while `most_choices` would be exceeded.
  void submit(Engine& engine, SoakRequest request, int most_choices);
  // The engine's thread, before a step is computed.
  void step(Engine* engine);
  // True when nothing is in flight any more, within that time.
  bool wait_for_all(std::chrono::seconds patience);

  SoakNumbers numbers() const;
  // Some of those that were not cancelled, to be compared.
  const std::deque<std::shared_ptr<Entry>>& kept() const { return kept_; }

 private:
  void receive(Engine& engine, Entry& entry, const Output& output);
  void receive_token(Engine& engine, Entry& entry, int choice);
  void check_wait(Entry& entry);
  void end(Entry& entry, Choice& choice, const Output& output);

  SoakPromises promises_;
  int keep_every_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::map<RequestId, std::shared_ptr<Entry>> live_;
  std::multimap<std::int64_t, std::pair<RequestId, int>> aborts_;  // by step
  std::deque<std::shared_ptr<Entry>> kept_;
  // By the first token of a prompt: what the next one with that token is predicted to answer, right or wrong.
  std::map<std::int32_t, std::vector<std::int32_t>> answers_;
  SoakNumbers numbers_;
  int choices_in_flight_ = 0;
};

}  // namespace sluice
