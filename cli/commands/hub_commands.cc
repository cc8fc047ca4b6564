#include "cli/commands/hub_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "base/progress.h"
#include "cli/exit_code.h"
#include "files/hub_cache.h"
#include "hub/cached_models.h"
#include "hub/hub_name.h"
#include "hub/pull.h"

namespace sluice {
namespace {

Status pull(const PullOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const HubName name, parse_hub_name(options.name));
  SLUICE_ASSIGN_OR_RETURN(const HubSettings settings, read_hub_settings());
  SLUICE_ASSIGN_OR_RETURN(const std::string path, pull_model(name, settings));
  fmt::print("{}\n", path);
  return {};
}

Status remove(const RemoveOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const HubName name, parse_hub_name(options.name));
  if (!name.quantisation.empty()) {
    return invalid_argument(
        fmt::format("{}: expected ORG/MODEL or ORG/MODEL@REVISION; one quantisation by itself is "
                    "not removed",
                    options.name));
  }
  const bool whole = options.name.find('@') == std::string::npos;
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t bytes, remove_cached_model(name, whole));
  log_info("{}: removed, {} are free again", options.name, format_bytes(static_cast<double>(bytes)));
  return {};
}

}  // namespace

int run_pull(const PullOptions& options) {
  return report(pull(options));
}

int run_list(const ListOptions& /*options*/) {
  const std::vector<CachedModel> models = list_cached_models();
  if (models.empty()) {
    log_info("the Hugging Face cache ({}) has no models; `sluice pull ORG/MODEL` fetches one", hub_cache_folder());
    return kExitOk;
  }
  std::size_t name_width = 5, revision_width = 8;
  for (const CachedModel& model : models) {
    name_width = std::max(name_width, model.id.size());
    revision_width = std::max(revision_width, model.revision.size());
  }
  fmt::print("{:<{}}  {:<{}}  {:<12}  {:>10}  {}\n", "model", name_width, "revision", revision_width, "commit", "size",
             "kind");
  for (const CachedModel& model : models) {
    fmt::print("{:<{}}  {:<{}}  {:<12}  {:>10}  {}\n", model.id, name_width, model.revision, revision_width,
               model.commit.substr(0, 12), format_bytes(static_cast<double>(model.bytes)),
               model.kind.empty() ? "no weights" : model.kind);
  }
  return kExitOk;
}

int run_remove(const RemoveOptions& options) {
  return report(remove(options));
}

}  // namespace sluice
