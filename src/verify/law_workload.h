// WorkloadChecker: runs a workload through the Stepper, and compares all results of its sequences with those of each
// alone. Thread safety: a local object.
// Used by law_compare.cc.
#pragma once

#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/step/stepper.h"
#include "verify/law_alone.h"
#include "verify/law_check.h"
#include "verify/law_requests.h"
#include "verify/law_schedule.h"

namespace sluice {

// The first value that differs, and its place.
struct Violation {
  std::string first_value, text;
};

class WorkloadChecker {
 public:
  WorkloadChecker(Runner& runner, std::span<const std::vector<TokenId>> prompts, const LawOptions& options,
                  LawReport* report)
      : runner_(runner), prompts_(prompts), options_(options), report_(*report), alone_(runner, prompts, options) {}

  // Runs the workload and returns the first difference, if any.
  std::optional<Violation> run(const Workload& work);
  void add_digest(const Workload& work);

 private:
  struct Choice {
    int request = 0, choice = 0;
    const Generated* expected = nullptr;
    bool forked = false;
    std::size_t number = 0;                       // index in begun_
    std::size_t generated = 0;                    // including answer tokens in its prompt
    std::shared_ptr<PromptLogprobs> scores = {};  // to be compared
    std::shared_ptr<TokenConstraint> constraint = {};
    std::size_t exported = 0;  // positions whose exports were compared
  };

  static constexpr int kTop = AloneAnswers::kTop;
  static SamplingParams sampling_of(const WorkRequest& r, int choice) { return AloneAnswers::sampling_of(r, choice); }
  static bool is_processed(const WorkRequest& r) { return AloneAnswers::is_processed(r); }
  const std::vector<TokenId>& prompt_of(const WorkRequest& r) const {
    return prompts_[static_cast<std::size_t>(r.prompt)];
  }
  Generated& expected(const WorkRequest& r, int choice) { return alone_.of(r, choice); }
  SequenceAnswer answer_of(const WorkRequest& r, int choice);
  std::optional<Violation> check_scores(const WorkRequest& r, Choice& c);
  std::optional<Violation> check_exports(Stepper& stepper, const WorkRequest& r, Choice& c, SequenceId id);
  Result<std::optional<Violation>> run_stepper(const Workload& work);
  Result<std::optional<Violation>> drive(Stepper& stepper, const Workload& work);
  Status arrive(Stepper& stepper, const Workload& work, int step);
  void begin(Stepper& stepper, const Workload& work, int request, int choice);
  void fork(Stepper& stepper, const Workload& work, SequenceId parent, std::vector<SequenceId>* children);
  void draw(Stepper& stepper, const Workload& work, ComputedStep& step);
  int draft(SequenceId id, std::span<TokenId> to);
  std::optional<Violation> check_drafts(Stepper& stepper, const ComputedStep& step);
  std::optional<Violation> take_all(Stepper& stepper, const Workload& work, SentStep sent);
  std::optional<Violation> take(Stepper& stepper, const Workload& work, const DrawnToken& drawn,
                                std::span<const float> row);
  std::optional<Violation> check_hit(Stepper& stepper, const WorkRequest& r, const Choice& c, SequenceId id);
  void cancel(Stepper& stepper, int request);
  void cancel_swapped(Stepper& stepper);

  Runner& runner_;
  std::span<const std::vector<TokenId>> prompts_;
  const LawOptions& options_;
  LawReport& report_;
  AloneAnswers alone_;
  std::map<std::int32_t, Choice> live_;    // by SequenceId
  std::vector<const WorkRequest*> begun_;  // requests of all sequences that have begun
  const Workload* work_ = nullptr;         // the running one
  int swapped_ = 0, stayed_ = 0;           // swapped sequences so far; swaps of the one with rules that stays
  std::vector<float> logits_;              // logits of the step whose tokens are on their way
  std::vector<std::size_t> rows_;          // row of logits_ for each token
  std::mt19937 drafts_;                    // decides how right they are
};

}  // namespace sluice
