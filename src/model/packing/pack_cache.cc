// Used by pack_key.cc, weight_packer.cc and weight_packer.h.
#include "model/packing/pack_cache.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "base/sha256.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kWhole = ".packed";
constexpr const char* kMaking = ".making";

std::string text_of(std::size_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

std::vector<fs::path> files_ending(const fs::path& folder, const char* ending) {
  std::vector<fs::path> files;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->path().extension() == ending) files.push_back(it->path());
  }
  return files;
}

// The kept forms, the latest used first.
std::vector<fs::path> forms_by_use(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> forms;
  for (fs::path& path : files_ending(folder, kWhole)) {
    std::error_code gone;
    const auto used = fs::last_write_time(path, gone);
    if (!gone) forms.emplace_back(used, std::move(path));
  }
  std::ranges::sort(forms, std::greater{});
  std::vector<fs::path> paths;
  for (auto& [used, path] : forms) paths.push_back(std::move(path));
  return paths;
}

}  // namespace

Result<PackCache> PackCache::open(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return resource_exhausted(fmt::format("{}: cannot be made ({})", folder.string(), error.message()));
  for (const fs::path& path : files_ending(folder, kMaking)) remove_abandoned_packed_file(path.string());
  return PackCache(folder);
}

std::string PackCache::path_of(const PackedKey& key) const {
  return (folder_ / (to_hex(key) + kWhole)).string();
}
std::string PackCache::making_path_of(const PackedKey& key) const {
  return (folder_ / (to_hex(key) + kMaking)).string();
}

Result<PackedFile> PackCache::find(const PackedKey& key, std::size_t bytes, ThreadPool& pool,
                                   const std::function<void(std::size_t, std::size_t)>& progress) const {
  const std::string path = path_of(key);
  std::error_code ignored;
  // Sets the time before the file is opened, as an open file's times are watched.
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  auto found = PackedFile::open(path, key, bytes, pool, progress);
  if (!found.ok() && found.status().code() != StatusCode::kNotFound) {
    log_warning("packed weights: {}; they are packed again", found.status().message());
    fs::remove(path, ignored);
  }
  return found;
}

Status PackCache::make_room(const PackedKey& key, std::size_t bytes) const {
  constexpr std::uintmax_t kSpare = 1'000'000'000;
  std::vector<fs::path> others = forms_by_use(folder_);
  std::erase(others, path_of(key));
  std::error_code error;
  fs::space_info space = fs::space(folder_, error);
  const auto needed = bytes + std::max(kSpare, space.capacity / 20);
  while (!error && !others.empty() && (others.size() >= kForms || space.available < needed)) {
    fs::remove(others.back(), error);
    others.pop_back();
    space = fs::space(folder_, error);
  }
  if (error || space.available >= needed) return {};
  return resource_exhausted(fmt::format("{}: expected {} of free disk for them and {} to spare, found {}",
                                        folder_.string(), text_of(bytes), text_of(needed - bytes),
                                        text_of(space.available)));
}

struct PackKeeper::State {
  PackCache cache;
  PackedKey key;
  std::span<const std::byte> bytes;
  std::function<bool()> still_valid;
  std::atomic<bool> done{false};
  std::atomic<std::int64_t> deadline{INT64_MAX};  // in Clock's ticks
  std::thread thread = {};

  Status write() {
    if (std::error_code unknown; fs::exists(cache.path_of(key), unknown))
      return {};  // another process has packed it meanwhile
    SLUICE_RETURN_IF_ERROR(cache.make_room(key, bytes.size()));
    SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<PackedFileWriter> writer,
                            PackedFileWriter::create(cache.making_path_of(key), key, bytes.size()));
    for (std::size_t at = 0; at < bytes.size(); at += PackedFileWriter::kPart) {
      if (Clock::now().time_since_epoch().count() > deadline.load()) {
        return unavailable(fmt::format("the program ended before all of {} were written", text_of(bytes.size())));
      }
      SLUICE_RETURN_IF_ERROR(writer->write(bytes.subspan(at, std::min(PackedFileWriter::kPart, bytes.size() - at))));
    }
    if (!still_valid()) return unavailable("the model's files have changed meanwhile");
    return writer->finish(cache.path_of(key));
  }

  void run() {
    // A file beyond the process's size limit must give an error, not end the process.
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    constexpr int kLowest = 19;
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLowest);
    const Status status = write();
    if (status.ok()) {
      log_info("packed weights: kept in {}", cache.path_of(key));
    } else {
      log_warning("packed weights: not kept for the next start: {}", status.message());
    }
    done.store(true);
  }
};

PackKeeper::PackKeeper(PackCache cache, const PackedKey& key, std::span<const std::byte> bytes,
                       std::function<bool()> still_valid)
    : state_(new State{.cache = std::move(cache), .key = key, .bytes = bytes, .still_valid = std::move(still_valid)}) {
  state_->thread = std::thread([this] { state_->run(); });
}

PackKeeper::~PackKeeper() {
  if (!state_->done.load()) {
    log_info("packed weights: writing them for the next start, {} s at most", kMostSecondsAtEnd);
    state_->deadline.store((Clock::now() + std::chrono::seconds(kMostSecondsAtEnd)).time_since_epoch().count());
  }
  state_->thread.join();
}

}  // namespace sluice
