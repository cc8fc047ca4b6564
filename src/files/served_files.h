// ServedFiles: the files that a model computes from while it is served, and whether they are still what they were.
//
// A file stays mapped, so that a program that writes into it changes the results. Each look compares the system's facts
// of the open file with those from when it was opened. These are inode, size, and the times of the last write and of
// the last change of any kind, which programs cannot set back. Where they differ, the bytes decide:
//   - another size, or bytes that cannot be read any more: it has changed;
//   - the bytes can be compared (files of kComparedBytes together at most): they tell, so a new mode, a new link, a
//   touch, or the
//     same bytes written again change nothing; they are compared once more some seconds later, as a write may still be
//     under way;
//   - else the system's events tell (base/storage/file_events.h): attributes that changed are fine, and a write, or
//   times that no event
//     explains, are a change.
// Replacing a file by another of its name, or deleting it, changes nothing: the open one is served on. Once a file has
// changed it stays so, whatever its bytes become: what was computed in between may be kept somewhere.
// Thread safety: after the last add() every method may be called from any thread.
// Used by checkpoint.h, engine/files_watch.cc and model/packing/packed_file.cc.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/storage/file_events.h"
#include "base/storage/mapped_file.h"
#include "base/threads/mutex.h"
#include "sluice/status.h"

namespace sluice {

class ServedFiles {
 public:
  static constexpr std::size_t kComparedBytes = std::size_t{4} << 30;

  ServedFiles() = default;

  // `same`: whether its bytes are what they were; empty: by its checksum, where that is known (FileMapping::content()),
  // else they cannot be compared.
  void add(std::shared_ptr<const FileMapping> file, std::function<bool()> same = {});

  // ok, or which file has changed, and how; the first time it is also logged. One fstat for each file, so that it may
  // be asked after every step.
  Status check();
  // The same, and what takes longer or is said once only: events, second comparisons, names that now mean other files.
  // It is to be called a few times a second.
  Status look();

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::shared_ptr<const FileMapping> file;
    std::function<bool()> same;
    FileIdentity identity;                  // the last one that was found to be of the same bytes
    bool written = false, touched = false;  // by events that no comparison has judged yet
    Clock::time_point compare_at{};         // a second comparison; unset: none
    bool renamed = false;                   // it was logged that its name means another file
  };

  Status check_all(bool compares) SLUICE_REQUIRES(mutex_);
  void take_events() SLUICE_REQUIRES(mutex_);
  Status judge(Entry& entry, bool compares) SLUICE_REQUIRES(mutex_);
  Status judge_bytes(Entry& entry, const FileIdentity& now) SLUICE_REQUIRES(mutex_);
  static Status changed(const Entry& entry, std::string_view how);
  static void tell_renamed(Entry& entry);

  Mutex mutex_;
  std::vector<Entry> entries_ SLUICE_GUARDED_BY(mutex_);
  FileEvents events_ SLUICE_GUARDED_BY(mutex_);
  Status changed_ SLUICE_GUARDED_BY(mutex_);  // ok: none
  int looks_ SLUICE_GUARDED_BY(mutex_) = 0;
};

}  // namespace sluice
