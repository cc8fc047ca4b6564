// Commands on models of the Hugging Face hub and its cache: the options of each, and what runs it. The result is the
// exit code.
#pragma once

#include <string>

namespace sluice {

// sluice pull: fetches a model, and prints where it lies.

struct PullOptions {
  std::string name;  // ORG/MODEL, ORG/MODEL@REVISION or ORG/MODEL:QUANTISATION
};

int run_pull(const PullOptions& options);

// sluice list: the models of the cache, a line each.

struct ListOptions {};

int run_list(const ListOptions& options);

// sluice rm: removes a model, or one revision of it, from the cache.

struct RemoveOptions {
  std::string name;  // ORG/MODEL or ORG/MODEL@REVISION
};

int run_remove(const RemoveOptions& options);

}  // namespace sluice
