// FileEvents: reports events on open files (inotify).
//
// It tells writing from changes of a file's times only (a new mode, a new link, another name). It does not see other
// machines that write to a network's files, nor programs that write through a mapping. If the system has no more room
// for watchers, it sees nothing at all. Thread safety: one thread at a time.
// Used by files/served_files.h.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace sluice {

class FileEvents {
 public:
  FileEvents();
  ~FileEvents();
  FileEvents(const FileEvents&) = delete;
  FileEvents& operator=(const FileEvents&) = delete;

  // From now on events of this open file are reported as those of `number`.
  void watch(int descriptor, std::size_t number);

  struct Event {
    std::size_t number = 0;
    bool written = false;  // false: only attributes or the name changed
  };
  // The events since the last call, each file and kind once. `all`: events were dropped, so that anything may have
  // happened.
  struct Batch {
    std::vector<Event> events;
    bool all = false;
  };
  Batch take();

 private:
  int fd_;                                                     // -1: the system refused
  std::unordered_map<int, std::vector<std::size_t>> numbers_;  // by the system's name of the file
};

}  // namespace sluice
