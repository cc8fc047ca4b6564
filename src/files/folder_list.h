// FolderList: the names of what lies in a model's folder, to find weights by, and to say what lies there instead.
// Thread safety: pure functions of the file system.
// Used by files and hub.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice {

struct FolderList {
  std::vector<std::string> files;    // sorted; links that lead nowhere are not among them
  std::vector<std::string> folders;  // sorted, without those whose name begins with a dot
  std::vector<std::string> broken;   // links that lead nowhere
};

// Fails if the folder cannot be read; the message has the system's reason ("Permission denied").
Result<FolderList> list_folder(const std::string& folder);

// Returns whether the name ends so, in whatever case.
bool has_ending(std::string_view name, std::string_view lower_case);

// "a, b, c, d, e, ... (9 in all)": the first five of the names.
std::string some_of(const std::vector<std::string>& names);

// Why the folder is not a model that can be loaded, by what lies in it: "only PyTorch's pytorch_model.bin, ...; convert
// it ..." or what its names are. Never empty.
std::string explain_folder(const std::string& folder);

}  // namespace sluice
