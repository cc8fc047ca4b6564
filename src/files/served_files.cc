// Used by checkpoint.h, engine/files_watch.cc and model/packing/packed_file.cc.
#include "files/served_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "base/checksum.h"
#include "base/log.h"
#include "base/threads/mutex.h"
#include "base/utf8.h"

namespace sluice {
namespace {

// Within this time of a change another one may leave the times as they are, or a write may still go on.
constexpr std::chrono::seconds kSettles{2};
constexpr int kLooksPerName = 4;
// An event comes a moment later than the times that it explains.
constexpr int kEventLooks = 20;
constexpr std::chrono::milliseconds kEventPause{5};

std::string shown_name(const std::string& path) {
  std::string name;
  append_lossy_utf8(std::string_view(path).substr(path.rfind('/') + 1), name);
  return name;
}

bool is_recent(const FileIdentity& identity) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() - identity.changed <
         std::chrono::nanoseconds(kSettles).count();
}

}  // namespace

void ServedFiles::add(std::shared_ptr<const FileMapping> file, std::function<bool()> same) {
  const MutexLock lock(mutex_);
  events_.watch(file->descriptor(), entries_.size());
  Entry entry{.file = std::move(file), .same = std::move(same), .identity = {}};
  entry.identity = entry.file->identity();
  if (is_recent(entry.identity)) entry.compare_at = Clock::now() + kSettles;
  entries_.push_back(std::move(entry));
}

Status ServedFiles::check() {
  const MutexLock lock(mutex_);
  return check_all(/*compares=*/false);
}

Status ServedFiles::look() {
  const MutexLock lock(mutex_);
  if (!changed_.ok()) return changed_;
  take_events();
  if (looks_++ % kLooksPerName == 0) std::ranges::for_each(entries_, tell_renamed);
  return check_all(/*compares=*/true);
}

Status ServedFiles::check_all(bool compares) {
  for (auto entry = entries_.begin(); changed_.ok() && entry != entries_.end(); ++entry) {
    changed_ = judge(*entry, compares);
  }
  return changed_;
}

void ServedFiles::take_events() {
  const FileEvents::Batch batch = events_.take();
  for (const FileEvents::Event& event : batch.events) {
    (event.written ? entries_[event.number].written : entries_[event.number].touched) = true;
  }
  if (!batch.all) return;
  for (Entry& entry : entries_) entry.written = true;
}

Status ServedFiles::judge(Entry& entry, bool compares) {
  const FileMapping& file = *entry.file;
  const auto now = file.identity_now();
  if (!now.ok()) return changed(entry, now.status().message());
  const std::size_t bytes = file.identity().bytes;
  if (now->bytes != bytes) return changed(entry, fmt::format("expected {} bytes, found {}", bytes, now->bytes));
  if (file.lost()) {
    return changed(entry, "a part of it could not be read: it was cut for a while, or the disk has failed");
  }
  const bool is_other = !(*now == entry.identity);
  if (is_other || (compares && entry.written)) return judge_bytes(entry, *now);
  if (!compares || entry.compare_at == Clock::time_point() || Clock::now() < entry.compare_at) return {};
  entry.compare_at = {};
  const bool compared = entry.same || file.known_content();
  return compared ? judge_bytes(entry, *now) : Status();
}

Status ServedFiles::judge_bytes(Entry& entry, const FileIdentity& now) {
  const FileMapping& file = *entry.file;
  const auto sum = file.known_content();
  if (entry.same || sum) {
    if (!(entry.same ? entry.same() : checksum(file.bytes()) == *sum) || file.lost()) {
      return changed(entry, "its bytes are others");
    }
    if (now == entry.identity && !entry.written) return {};  // the second comparison of identities
    log_info("weights: {}: its times, its links or its mode have changed, its bytes have not", file.path());
    entry.compare_at = Clock::now() + kSettles;
  } else {
    for (int i = 0; i < kEventLooks && !entry.written && !entry.touched; ++i) {
      if (i > 0) std::this_thread::sleep_for(kEventPause);
      take_events();
    }
    if (entry.written) return changed(entry, "it was written to");
    if (!entry.touched) return changed(entry, "its times are others, and the system does not say why");
    log_info("weights: {}: its times, its links or its mode have changed; nobody wrote to it", file.path());
  }
  entry.identity = now;
  entry.written = entry.touched = false;
  return {};
}

Status ServedFiles::changed(const Entry& entry, std::string_view how) {
  log_error("weights: {}: they have changed since they were opened: {}", entry.file->path(), how);
  return unavailable(fmt::format(
      "the weights in {} have changed since they were opened ({}): restore the file, then reload the weights "
      "(POST /v1/weights/reload) or start again",
      shown_name(entry.file->path()), how));
}

void ServedFiles::tell_renamed(Entry& entry) {
  if (entry.renamed) return;
  const std::string& path = entry.file->path();
  struct stat named{}, open{};
  const bool exists = ::stat(path.c_str(), &named) == 0;
  if (!exists && errno != ENOENT && errno != ENOTDIR) return;
  if (::fstat(entry.file->descriptor(), &open) != 0) return;
  if (exists && named.st_ino == open.st_ino && named.st_dev == open.st_dev) return;
  entry.renamed = true;
  log_info("weights: {}: {}; the one that was opened is served on until the weights are reloaded or the program ends",
           path, exists ? "another file has this name now" : "no file has this name any more");
}

}  // namespace sluice
