// Used by files/served_files.h.
#include "base/storage/file_events.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace sluice {
namespace {

constexpr std::uint32_t kMask = IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF;  // a rename also changes a file's times

}  // namespace

FileEvents::FileEvents() : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {}

FileEvents::~FileEvents() {
  if (fd_ >= 0) ::close(fd_);
}

void FileEvents::watch(int descriptor, std::size_t number) {
  if (fd_ < 0) return;
  // This path leads to the open file, whatever its name is by now.
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const int name = ::inotify_add_watch(fd_, path.c_str(), kMask);
  if (name >= 0) numbers_[name].push_back(number);
}

FileEvents::Batch FileEvents::take() {
  Batch batch;
  alignas(inotify_event) char buffer[16384];
  for (ssize_t got = 0; fd_ >= 0 && (got = ::read(fd_, buffer, sizeof(buffer))) > 0;) {
    for (std::size_t at = 0; at + sizeof(inotify_event) <= static_cast<std::size_t>(got);) {
      inotify_event event{};
      std::memcpy(&event, buffer + at, sizeof(event));
      at += sizeof(event) + event.len;
      batch.all = batch.all || (event.mask & IN_Q_OVERFLOW) != 0;
      const auto found = numbers_.find(event.wd);
      if (found == numbers_.end() || (event.mask & kMask) == 0) continue;
      for (const std::size_t number : found->second) {
        const bool written = (event.mask & IN_MODIFY) != 0;
        const bool known = std::ranges::any_of(
            batch.events, [&](const Event& e) { return e.number == number && e.written == written; });
        if (!known) batch.events.push_back({number, written});
      }
    }
  }
  return batch;
}

}  // namespace sluice
