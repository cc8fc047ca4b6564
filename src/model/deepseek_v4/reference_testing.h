// The stages of DeepSeek-V4's default profile in f64, from what a model showed, for a sample of the positions: written
// from docs/models/deepseek_v4.md §3-§9, §11, §12 and docs/dev/numerics.md, independently of the model's own code and
// config reader.
#pragma once

#include <string>
#include <vector>

#include "model/checks/recording_testing.h"

namespace sluice {

// `folder`: weights under the official names, of the model that was recorded. `positions` ascend. Of the compressed
// entries those are computed that close at one of them, and all of blocks of 128.
StageErrors v4_default_stages(const std::string& folder, const Recording& run, const std::vector<int>& positions);

}  // namespace sluice
