// A checkpoint with another config, for tests: its files as links, and a config.json of its own; and what it computes.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/storage/temp_folder_testing.h"

namespace sluice {

using ConfigEdit = std::function<void(boost::json::object& config)>;

class ChangedCheckpoint {
 public:
  // Copies the checkpoint in `folder` and edits its config.
  ChangedCheckpoint(const std::string& folder, const ConfigEdit& edit);
  const std::string& path() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

// The plain logits of some positions of a prompt of 150 tokens. If it does not load, they are empty and the test fails.
std::vector<float> plain_logits(const std::string& folder);

}  // namespace sluice
