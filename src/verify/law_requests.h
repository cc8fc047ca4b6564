// The workloads of check_scheduling_law: requests and scheduling options as plain values, made from a seed.
//
// As in law_schedule.h, a workload's number says what it has for certain (number mod kLawSituations):
//   0  running requests are preempted every few steps, and computed again or swapped in turn; the second one that is
//      swapped out is cancelled while it is out
//   1  one prompt with several sampled choices, again with another salt, and again with its own
//   2  unrelated requests one after the other, in memory that has room for one
//   3  anything; with long prompts, every kLongPromptEvery-th workload has one twice
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/engine_setup.h"
#include "sluice/sampling.h"
#include "verify/law_check.h"

namespace sluice {

struct WorkRequest {
  int prompt = 0, max_tokens = 1, n = 1, priority = 0;
  int arrives = 0, cancelled = -1;  // steps
  bool greedy = true;
  int stops_after = 0;  // tokens: the last one is an end token; 0: it goes on to max_tokens
  std::string salt = {};
  std::uint64_t rules = 0;  // whose TokenRules (rules_of()) its answer has; 0: none
};

// Penalties, biases and bans, made from a number that is not 0. `changes_logits`: false where the host has none.
std::shared_ptr<const TokenRules> rules_of(std::uint64_t number, int vocab_size, bool changes_logits);

struct Workload {
  EngineSetup options;
  int threads = 1;
  int pages = 0;  // latent pages that are there; 0: all
  bool caching = true;
  bool right_drafts = false;     // most drafts are right, else the stepper's own
  bool cancels_swapped = false;  // the second request that is swapped out is cancelled then
  std::vector<WorkRequest> requests;

  std::string text() const;
};

// `pages`: latent pages that the runner can give to requests.
Workload make_workload(std::span<const std::vector<TokenId>> prompts, const LawOptions& laws, int pages, int number);

}  // namespace sluice
