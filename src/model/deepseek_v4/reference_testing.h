// The stages of DeepSeek-V4's default profile in f64, from what a model showed, for a sample of the positions: written
// from docs/models/deepseek_v4.md §3-§9, §11, §12 and docs/dev/numerics.md, independently of the model's own code and
// config reader.
#pragma once

#include <string>
#include <vector>

#include "model/checks/recording_testing.h"

namespace sluice {

// `folder` has the weights of the recorded model under the official names. `positions` ascend. Compressed entries are
// computed if they close at one of the positions, or if they are of blocks of 128.
StageErrors v4_default_stages(const std::string& folder, const Recording& run, const std::vector<int>& positions);

}  // namespace sluice
