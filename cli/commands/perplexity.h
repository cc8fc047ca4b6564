// sluice eval --perplexity: how well a model predicts a text; with --against, how far two numerics profiles are apart
// on it.
//
// The file's tokens (without BOS) are cut into disjoint windows of W; an incomplete last one is dropped. Each window is
// a sequence of its own. Its targets at indices W / 2 + 1 .. W - 1 (255 of 512) are scored; the result is exp of the
// mean of their negative log-likelihoods over all windows. With `against` the model is loaded a second time, and both
// predict each scored target from the same tokens. The report then has the mean and the 99th percentile (nearest rank)
// of KL(against || this) over the targets, in nats, and the share of targets with the same likeliest token. Only the
// logits of one step are held at a time.
#pragma once

#include <string>

#include "model/engine_setup.h"
#include "sluice/status.h"

namespace sluice {

struct PerplexityOptions {
  EngineSetup engine;
  std::string text;  // a file
  int window = 512;
  std::string
      against;  // a profile's name, otherwise as it is by itself: no other flag of the numerics counts; "": none
  // "": no file. {"profile", "windows", "window", "scored", "nll", "perplexity"}, and with `against`
  // "against": {"profile", "nll", "perplexity", "kl_mean", "kl_p99", "same_best"}.
  std::string json;
};

// Prints the result.
Status measure_perplexity(const PerplexityOptions& options);

}  // namespace sluice
