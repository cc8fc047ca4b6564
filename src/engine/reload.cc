// Replaces the engine's weights while it runs. The caller's thread loads them while the old ones are in use. The
// engine's thread then swaps them in between two steps, when nothing runs. Requests that arrive in the meantime are
// held.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <filesystem>
#include <set>

#include "base/log.h"
#include "base/storage/mapped_file.h"
#include "base/storage/mapping_guard.h"
#include "engine/engine_impl.h"
#include "engine/engine_options.h"
#include "files/json.h"
#include "files/model_path.h"
#include "kernels/device/isa.h"

namespace sluice {
namespace {

namespace json = boost::json;

Result<json::object> config_of(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  SLUICE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  SLUICE_ASSIGN_OR_RETURN(json::value value,
                          parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path));
  if (!value.is_object()) return invalid_argument(fmt::format("{}: expected an object", path));
  return std::move(value.get_object());
}

// All keys of config.json must be equal, except those that only describe where it comes from.
Status same_geometry(const std::string& served, const std::string& folder) {
  static const std::set<std::string_view> kDescriptive = {"_name_or_path", "transformers_version", "use_cache"};
  SLUICE_ASSIGN_OR_RETURN(const json::object old, config_of(served));
  SLUICE_ASSIGN_OR_RETURN(const json::object given, config_of(folder));
  std::set<std::string_view> keys;
  for (const auto& [key, value] : old) keys.insert(std::string_view(key.data(), key.size()));
  for (const auto& [key, value] : given) keys.insert(std::string_view(key.data(), key.size()));
  for (const std::string_view key : keys) {
    const json::value *a = old.if_contains(key), *b = given.if_contains(key);
    if (kDescriptive.contains(key) || (a != nullptr && b != nullptr && *a == *b)) continue;
    return invalid_argument(fmt::format(
        "{}/config.json: expected the geometry of the model that is served, \"{}\": {}, found {}; start another server "
        "for it",
        folder, key, describe_json(a), describe_json(b)));
  }
  return {};
}

}  // namespace

std::string EngineImpl::weights_version() const {
  const MutexLock lock(mutex_);
  return *version_;
}

Result<std::string> EngineImpl::reload_weights(const std::string& given, ReloadMode mode) {
  const std::unique_lock one(reloading_, std::try_to_lock);
  if (!one.owns_lock()) return unavailable("weights: others are being loaded; ask again when they are");
  if (computes_later(runner_->exec()))
    return invalid_argument("weights: they are reloaded on the CPU only (--device cpu)");
  SLUICE_ASSIGN_OR_RETURN(const std::string folder, find_model(given, ModelUse::kWeights));
  EngineSetup options = runner_->options();
  SLUICE_RETURN_IF_ERROR(same_geometry(options.model.folder, folder));
  options.model.folder = folder;
  options.model.load_format = LoadFormat::kAuto;
  options.model.dummy_experts = 0;
  options.model.balanced_experts = false;
  ThreadPool pool(resolve_threads(options));
  Exec exec = runner_->exec();
  exec.pool = &pool;
  LoadReport report;
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, load_model(exec, folder, options, nullptr, &report));
  if (model->profile().text() != profile_) {
    return invalid_argument(
        fmt::format("{}: expected weights of the profile {}, found {}", folder, profile_, model->profile().text()));
  }
  const auto swap = std::make_shared<Swap>();
  swap->model = std::move(model);
  swap->version = report.weights_version;
  swap->aborts = mode == ReloadMode::kAbort;
  MutexLock lock(mutex_);
  if (!broken_.ok() && changed_.ok()) return broken_;  // if only a file has changed, the swap mends that
  swap_ = swap;
  wake_.notify_one();
  task_done_.wait(lock, [&]() SLUICE_REQUIRES(mutex_) { return swap->done || stop_; });
  if (!swap->done) return unavailable("the engine is shutting down");
  log_info("weights of {}: version {}, loaded in {:.2f} s", folder, swap->version, report.seconds);
  return swap->version;
}

// Engine thread. Arrivals are held from the moment that a model waits until it is there.
void EngineImpl::arrive_all() {
  std::shared_ptr<Swap> swap;
  {
    const MutexLock lock(mutex_);
    swap = swap_;
  }
  std::move(taken_arrivals_.begin(), taken_arrivals_.end(), std::back_inserter(held_));
  taken_arrivals_.clear();
  if (swap != nullptr) return;
  for (Arrival& arrival : held_) arrive(std::move(arrival));
  held_.clear();
}

void EngineImpl::swap_model() {
  std::shared_ptr<Swap> swap;
  {
    const MutexLock lock(mutex_);
    swap = swap_;
  }
  if (swap == nullptr) return;
  if (swap->aborts) {
    while (!pending_.empty()) cancel_now({pending_.begin()->first, kAllChoices});
  }
  if (!pending_.empty() || !stepper_.idle() || stepper_.outstanding()) return;
  // If a file was changed, pages computed since may hold wrong values. A reload of the same bytes has the same version
  // and would find them.
  if (!health().ok()) runner_->cache().prefix_cache().reset();
  swap->model = runner_->replace_model(std::move(swap->model), swap->version);  // the caller gets the old model
  {
    const MutexLock lock(mutex_);
    version_ = std::make_shared<std::string>(swap->version);
    files_ = runner_->files();
    changed_ = broken_ = Status();
    forget_lost_ranges();
    swap->done = true;
    swap_ = nullptr;
  }
  task_done_.notify_all();
  arrive_all();
}

}  // namespace sluice
