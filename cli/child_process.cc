#include "cli/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "cli/interrupt.h"

namespace sluice {
namespace {

constexpr int kNoSuchProgram = 127;

// An anonymous file in memory: what a program says must not need the disk that it may complain about.
class Recording {
 public:
  Recording() : file_(::memfd_create("said", MFD_CLOEXEC)) {}
  ~Recording() {
    if (file_ >= 0) ::close(file_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  int file() const { return file_; }
  std::string text() const {
    std::string text;
    std::array<char, 4096> piece;
    for (ssize_t got = 0; (got = ::pread(file_, piece.data(), piece.size(), static_cast<off_t>(text.size()))) > 0;) {
      text.append(piece.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  int file_;
};

[[noreturn]] void become(const ChildCommand& command, pid_t parent, int output) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);  // it died before that
  for (const auto& [name, value] : command.environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  ::_exit(kNoSuchProgram);
}

}  // namespace

Result<ChildEnd> run_child(const ChildCommand& command, const std::function<void()>& tick) {
  const Recording recording;
  const pid_t self = ::getpid(), child = recording.file() < 0 ? -1 : ::fork();
  if (child < 0) {
    return resource_exhausted(fmt::format("{}: cannot be started ({})", command.words[0], std::strerror(errno)));
  }
  if (child == 0) become(command, self, recording.file());
  int state = 0;
  bool interrupted = false;
  while (::waitpid(child, &state, WNOHANG) == 0) {
    if (take_interrupt()) interrupted = ::kill(child, SIGTERM) == 0;
    tick();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (interrupted || take_interrupt()) return Status{StatusCode::kCancelled, "interrupted"};
  const bool ended = WIFEXITED(state);
  return ChildEnd{.found = !(ended && WEXITSTATUS(state) == kNoSuchProgram),
                  .ok = ended && WEXITSTATUS(state) == 0,
                  .said = recording.text()};
}

}  // namespace sluice
