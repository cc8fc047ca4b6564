// sluice eval --perplexity: how well a model predicts a text.
//
// The file's tokens (without BOS) in disjoint windows of W, an incomplete last one dropped, each a sequence of its own.
// Scored are the targets at indices W / 2 + 1 .. W - 1 of a window (255 of 512); the result is exp of the mean of their
// negative log-likelihoods over all windows.
#pragma once

#include <string>

#include "sluice/engine.h"
#include "sluice/status.h"

namespace sluice {

// Prints the result; `json`: a file for {"windows", "window", "scored", "nll", "perplexity"}, or "".
Status measure_perplexity(const EngineOptions& options, const std::string& file, int window, const std::string& json);

}  // namespace sluice
