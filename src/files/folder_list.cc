// Used by files and hub.
#include "files/folder_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

namespace sluice {

namespace fs = std::filesystem;

Result<FolderList> list_folder(const std::string& folder) {
  std::error_code error;
  FolderList list;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code unknown;
    const fs::file_status status = it->status(unknown);
    if (status.type() == fs::file_type::directory) {
      if (!name.starts_with('.')) list.folders.push_back(name);
    } else {
      (status.type() == fs::file_type::not_found ? list.broken : list.files).push_back(name);
    }
  }
  if (error) return invalid_argument(fmt::format("{}: the folder cannot be read: {}", folder, error.message()));
  for (auto* names : {&list.files, &list.folders, &list.broken}) std::ranges::sort(*names);
  return list;
}

bool has_ending(std::string_view name, std::string_view lower_case) {
  return name.size() >= lower_case.size() &&
         std::ranges::equal(name.substr(name.size() - lower_case.size()), lower_case, {},
                            [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
}

namespace {

// Weights in forms that are not read, and the way out. The first that fits is reported.
struct OtherForm {
  std::string_view begins, ends, is, do_what;
};
constexpr std::string_view kSaveAsSafetensors =
    "convert it: python3 -c \"from transformers import AutoModelForCausalLM as M; "
    "M.from_pretrained('{0}', dtype='auto').save_pretrained('{0}')\"";
constexpr std::string_view kTakeOther = "take the model's safetensors or GGUF files";
constexpr std::string_view kOnlyAdapter = "only an adapter (LoRA), which is no model by itself";
constexpr std::string_view kMerge =
    "merge it into its base model (peft: merge_and_unload(), then save_pretrained()) and name the merged folder";
constexpr std::string_view kUnfinished = "a download that is not finished", kFinish = "download it to its end";
constexpr OtherForm kOtherForms[] = {
    {"", ".incomplete", kUnfinished, kFinish},
    {"", ".part", kUnfinished, kFinish},
    {"", ".aria2", kUnfinished, kFinish},
    {"", ".crdownload", kUnfinished, kFinish},
    {"pytorch_model", ".bin", "only PyTorch's weights, which are not read", kSaveAsSafetensors},
    {"pytorch_model", ".bin.index.json", "only PyTorch's weights, which are not read", kSaveAsSafetensors},
    {"adapter_model", "", kOnlyAdapter, kMerge},
    {"adapter_config", ".json", kOnlyAdapter, kMerge},
    {"adapters", ".safetensors", kOnlyAdapter, kMerge},
    {"consolidated", ".pth", "only the weights of the original Llama release, which are not read", kTakeOther},
    {"", ".bin", "only PyTorch's weights, which are not read", kSaveAsSafetensors},
    {"", ".pth", "only PyTorch's weights, which are not read", kSaveAsSafetensors},
    {"", ".pt", "only PyTorch's weights, which are not read", kSaveAsSafetensors},
    {"", ".ckpt", "only a training's checkpoint, which is not read", kTakeOther},
    {"", ".distcp", "only a training's checkpoint, which is not read", kTakeOther},
    {"", ".h5", "only TensorFlow's weights, which are not read", kTakeOther},
    {"", ".msgpack", "only Flax's weights, which are not read", kTakeOther},
    {"", ".npz", "only NumPy's weights, which are not read", kTakeOther},
    {"", ".onnx", "only ONNX files, which are not read", kTakeOther},
    {"", ".zip", "an archive", "unpack it"},
    {"", ".tar", "an archive", "unpack it"},
    {"", ".tar.gz", "an archive", "unpack it"},
    {"", ".safetensors.gz", "an archive", "unpack it"},
};

std::string with_folder(std::string_view text, const std::string& folder) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = text.find("{0}", at);
    out += text.substr(at, next == std::string_view::npos ? next : next - at);
    if (next == std::string_view::npos) break;
    out += folder;
    at = next + 3;
  }
  return out;
}

// Returns whether a file is one that a training leaves next to its weights.
bool is_of_training(std::string_view name) {
  return name == "training_args.bin" || name.starts_with("optimizer") || name.starts_with("scheduler") ||
         name.starts_with("rng_state");
}

// Returns a folder in it that looks like a model; "" if there is none.
std::string model_below(const std::string& folder, const FolderList& list) {
  for (const std::string& below : list.folders) {
    std::error_code error;
    if (fs::exists(fs::path(folder) / below / "config.json", error)) return below;
  }
  return "";
}

}  // namespace

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  const std::size_t shown = std::min(kShown, names.size());
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     names.size() > shown ? fmt::format(", ... ({} in all)", names.size()) : "");
}

std::string explain_folder(const std::string& folder) {
  const Result<FolderList> listed = list_folder(folder);
  if (!listed.ok()) return listed.status().message();
  const FolderList& list = *listed;
  if (!list.broken.empty()) {
    return fmt::format("found links to files that do not exist ({}); was it downloaded whole?", some_of(list.broken));
  }
  for (const OtherForm& form : kOtherForms) {
    std::vector<std::string> found;
    std::ranges::copy_if(list.files, std::back_inserter(found), [&](const std::string& name) {
      return name.starts_with(form.begins) && has_ending(name, form.ends) && !is_of_training(name);
    });
    if (!found.empty()) {
      return fmt::format("found {} ({}); {}", form.is, some_of(found), with_folder(form.do_what, folder));
    }
  }
  if (const std::string below = model_below(folder, list); !below.empty()) {
    return fmt::format("found a model in its folder {}; name {}/{}", below, folder, below);
  }
  if (list.files.empty() && list.folders.empty()) return "found an empty folder";
  std::vector<std::string> names = list.files;
  for (const std::string& below : list.folders) names.push_back(below + "/");
  return fmt::format("found only {}", some_of(names));
}

}  // namespace sluice
