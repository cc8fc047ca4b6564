// The workloads of check_scheduling_law: requests and scheduling options as plain values, made from a seed.
//
// As in law_schedule.h, a workload's number decides what it has for certain (number mod kLawSituations):
//   0  running requests are preempted every few steps, and computed again or swapped in turn; the second one that is
//      swapped out is cancelled while it is out
//   1  one prompt with several sampled choices, again with another salt, and again with its own
//   2  unrelated requests one after the other, in memory that has room for one
//   3  anything; with long prompts, every kLongPromptEvery-th workload has one twice
// Each workload also has bound answers, with a short prompt each. Numbers 0 to 2 have one whose constraint has runs of
// forced text. Number 0 has one with rules, which is scored; number 1 has two choices with a budget of reasoning, which
// export. Number 2 has one that exports, and one whose drafts are wrong; number 3 has one that is scored with part of
// its answer.
// Used by law_alone.h, law_borders.h and law_workload.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/engine_setup.h"
#include "sluice/sampling.h"
#include "verify/law_check.h"
#include "verify/law_constraint.h"

namespace sluice {

struct WorkRequest {
  int prompt = 0, max_tokens = 1, n = 1, priority = 0;
  int arrives = 0, cancelled = -1;  // steps
  bool greedy = true;
  int stops_after = 0;  // tokens: the last one is an end token; 0: it goes on to max_tokens
  std::string salt = {};
  // Its prompt's log-probabilities from this position on are asked for; -1: they are not. With `answered`, this many
  // tokens of its answer are part of that prompt: they are scored, and the answer goes on after them.
  int scored_from = -1, answered = 0;
  std::uint64_t rules = 0;                          // number of its answer's TokenRules (rules_of()); 0: none
  LawConstraint constraint = LawConstraint::kNone;  // the constraint on its answer
  int budget = 0;                                   // tokens of kBudget
  bool exports = false;                             // exports the layers' choices for its positions
  bool stays = false;  // not cancelled, unless it is swapped out for the fourth time; its drafts are forced by its
                       // constraint, or begin with a wrong one
};

// Makes penalties, biases and bans from a number that is not 0. `changes_logits` is false if the host has no logits.
// `bans` off: every token that is otherwise allowed may be drawn.
std::shared_ptr<const TokenRules> rules_of(std::uint64_t number, int vocab_size, bool changes_logits, bool bans);

struct Workload {
  EngineSetup options;
  int threads = 1;
  int pages = 0;  // latent pages left to it; 0: all
  bool caching = true;
  int waits_every = 0;           // steps between waits for tokens on their way; 0: no waits
  bool right_drafts = false;     // most drafts are right, else the stepper's own
  int score_rows = 0;            // rows of a tile of scored rows; 0: as many as there is memory for
  bool cancels_swapped = false;  // the second request that is swapped out is cancelled then
  std::vector<WorkRequest> requests;

  std::string text() const;
};

// `pages`: latent pages that the runner can give to requests.
Workload make_workload(std::span<const std::vector<TokenId>> prompts, const LawOptions& laws, int pages, int number);

// check_scheduling_law() for other workloads: `make` makes the one of a number.
Result<LawReport> check_workloads(Runner& runner, std::span<const std::vector<TokenId>> prompts,
                                  const LawOptions& options, const std::function<Workload(int)>& make);

}  // namespace sluice
