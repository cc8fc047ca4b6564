// A checkpoint with another config, for tests: its files as links, and a config.json of its own.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <string>

#include "base/temp_folder_testing.h"

namespace sluice {

using ConfigEdit = std::function<void(boost::json::object& config)>;

class ChangedCheckpoint {
 public:
  // Of the checkpoint in `folder`.
  ChangedCheckpoint(const std::string& folder, const ConfigEdit& edit);
  const std::string& path() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

}  // namespace sluice
