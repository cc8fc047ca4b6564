// Used by checkpoint.cc, hub/pull.cc and model_path.cc.
#include "files/weight_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/storage/mapped_file.h"
#include "files/folder_list.h"
#include "files/json.h"

namespace sluice {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kEnding = ".safetensors";

std::string in_folder(const std::string& folder, std::string_view name) {
  return fmt::format("{}/{}", folder, name);
}

// A shard lies in the folder or below it: any other path could read any file of the machine.
Status check_shard_name(std::string_view name) {
  bool ok = !name.empty() && name.find('\\') == std::string_view::npos && name.find('\0') == std::string_view::npos;
  for (std::size_t at = 0; ok && at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    ok = !part.empty() && part != "." && part != "..";
    at = end + 1;
  }
  if (ok) return {};
  std::string quoted;
  append_json_string(quoted, name);
  return invalid_argument(
      fmt::format("weight_map: expected the name of a file in the model's folder, found {}", quoted));
}

using WeightMap = std::map<std::string, std::string>;

Result<WeightMap> read_weight_map(const std::string& index_path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(index_path));
  SLUICE_ASSIGN_OR_RETURN(const json::value index, parse_json(text, index_path));
  const json::value* map = index.is_object() ? index.get_object().if_contains("weight_map") : nullptr;
  if (map == nullptr || !map->is_object()) {
    return invalid_argument(fmt::format("{}: key 'weight_map': expected an object of tensor names and files, found {}",
                                        index_path, describe_json(map)));
  }
  WeightMap weight_map;
  for (const auto& [tensor, shard] : map->get_object()) {
    if (!shard.is_string()) {
      return invalid_argument(fmt::format("{}: weight_map: tensor {}: expected a file name, found {}", index_path,
                                          std::string_view(tensor), describe_json(&shard)));
    }
    SLUICE_RETURN_IF_ERROR(check_shard_name(shard.get_string()).with_context(index_path));
    weight_map.emplace(tensor, shard.get_string());
  }
  if (weight_map.empty()) return invalid_argument(fmt::format("{}: weight_map: it names no tensor", index_path));
  return weight_map;
}

Result<WeightFiles> files_of_index(const std::string& folder) {
  WeightFiles found{.names = {}, .index = in_folder(folder, kIndexFile)};
  SLUICE_ASSIGN_OR_RETURN(found.weight_map, read_weight_map(found.index));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : found.weight_map) shards.insert(shard);
  std::vector<std::string> missing;
  for (const std::string& shard : shards) {
    SLUICE_ASSIGN_OR_RETURN(const bool exists, path_exists(in_folder(folder, shard)));
    if (!exists) missing.push_back(shard);
  }
  if (!missing.empty()) {
    return not_found(fmt::format("{}: names {} file{}, and {} missing: {}; download the model whole", found.index,
                                 shards.size(), shards.size() == 1 ? "" : "s",
                                 missing.size() == 1 ? "one is" : fmt::format("{} are", missing.size()),
                                 some_of(missing)));
  }
  found.names.assign(shards.begin(), shards.end());
  return found;
}

// A file's name, read as that of a shard: NAME-00002-of-00005.safetensors is part 2 of 5.
struct Shard {
  std::string stem;  // for shards the name without part and ending, else the whole name
  int part = 0, parts = 0;
};

std::optional<int> number_of(std::string_view text) {
  const bool digits =
      !text.empty() && text.size() <= 6 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  return digits ? std::optional(std::stoi(std::string(text))) : std::nullopt;
}

Shard shard_of(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::string_view stem = name.substr(0, name.size() - kEnding.size());
  const std::size_t of = stem.rfind("-of-");
  const std::size_t dash = of == std::string_view::npos || of == 0 ? of : stem.rfind('-', of - 1);
  if (of == std::string_view::npos || dash == std::string_view::npos) return {.stem = std::string(name)};
  const std::optional<int> part = number_of(stem.substr(dash + 1, of - dash - 1)),
                           parts = number_of(stem.substr(of + 4));
  if (!part || !parts || *parts == 0) return {.stem = std::string(name)};
  return {.stem = std::string(stem.substr(0, dash)), .part = *part, .parts = *parts};
}

// The files of one model: all its shards, or one file.
struct Set {
  int parts = 0;  // 0: the model is one file
  std::map<int, std::string> files;

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [part, name] : files) all.push_back(name);
    return all;
  }
  // Shards count from 1, and those of some programs from 0.
  int first() const { return files.contains(0) && !files.contains(parts) ? 0 : 1; }
  std::vector<std::string> missing() const {
    std::vector<std::string> numbers;
    for (int part = first(); part < first() + parts; ++part) {
      if (!files.contains(part)) numbers.push_back(std::to_string(part));
    }
    return numbers;
  }
};
using Sets = std::map<std::pair<std::string, int>, Set>;  // by stem and number of parts

bool is_adapter(std::string_view name) {
  return name.starts_with("adapter_model") || name == "adapters.safetensors";
}

void add_files(const std::vector<std::string>& names, const std::string& below, Sets& sets) {
  for (const std::string& name : names) {
    if (!has_ending(name, kEnding) || is_adapter(name)) continue;
    const Shard shard = shard_of(name);
    Set& set = sets[{shard.parts == 0 ? below + shard.stem : shard.stem, shard.parts}];
    set.parts = shard.parts;
    set.files.emplace(shard.part, below + name);
  }
}

// Mistral's own form next to that of transformers is a second copy.
void drop_second_copies(Sets& sets) {
  const auto is_copy = [](const auto& set) { return set.first.first.starts_with("consolidated"); };
  if (!std::ranges::all_of(sets, is_copy)) std::erase_if(sets, is_copy);
  const auto is_model = [](const auto& set) { return set.first.first == "model" && set.second.missing().empty(); };
  if (std::ranges::count_if(sets, is_model) == 1) std::erase_if(sets, [&](const auto& set) { return !is_model(set); });
}

Status too_many(const std::string& folder, const Sets& sets) {
  std::vector<std::string> names;
  for (const auto& [key, set] : sets) {
    names.push_back(set.parts == 0 ? set.files.begin()->second
                                   : fmt::format("{} of {}", set.names().front(), set.parts));
  }
  return invalid_argument(fmt::format(
      "{}: expected the weights of one model, {} or {}, found several without either: {}; leave one in the folder",
      folder, kSingleFile, kIndexFile, some_of(names)));
}

// Finds the files of a folder without index and model.safetensors.
Result<WeightFiles> loose_files(const std::string& folder) {
  SLUICE_ASSIGN_OR_RETURN(const FolderList list, list_folder(folder));
  Sets sets;
  add_files(list.files, "", sets);
  drop_second_copies(sets);
  const auto is_whole = [](const Sets& some) { return some.size() == 1 && some.begin()->second.missing().empty(); };
  if (sets.empty() || (sets.size() == 1 && !is_whole(sets))) {
    for (const std::string& below : list.folders) {
      const Result<FolderList> deeper = list_folder(in_folder(folder, below));
      // A folder with a config of its own is another model.
      if (deeper.ok() && !std::ranges::binary_search(deeper->files, "config.json")) {
        add_files(deeper->files, below + "/", sets);
      }
    }
    drop_second_copies(sets);
  }
  if (sets.empty()) {
    return not_found(
        fmt::format("{}: expected its weights in *.safetensors files, {} (--load-format dummy makes random weights)",
                    folder, explain_folder(folder)));
  }
  if (sets.size() > 1) return too_many(folder, sets);
  const Set& set = sets.begin()->second;
  if (const std::vector<std::string> missing = set.missing(); !missing.empty()) {
    return not_found(fmt::format(
        "{}: expected {} shards, as their names say ({}), found number {} missing; download the model whole", folder,
        set.parts, set.names().front(), some_of(missing)));
  }
  return WeightFiles{.names = set.names()};
}

// An adapter next to the weights changes what the model says, and is not applied here. Returns a note for its config
// alone.
Result<std::string> check_adapter(const std::string& folder) {
  for (const char* name : {"adapter_model.safetensors", "adapter_model.bin", "adapters.safetensors"}) {
    SLUICE_ASSIGN_OR_RETURN(const bool exists, path_exists(in_folder(folder, name)));
    if (exists) {
      return invalid_argument(fmt::format(
          "{}: found an adapter (LoRA) beside the weights, and adapters are not applied; merge it into them (peft: "
          "merge_and_unload()), or move it to another folder to use the weights without it",
          in_folder(folder, name)));
    }
  }
  SLUICE_ASSIGN_OR_RETURN(const bool configured, path_exists(in_folder(folder, "adapter_config.json")));
  return configured ? std::string(
                          "adapter_config.json describes an adapter (LoRA) that does not lie beside it: the weights "
                          "are used without one")
                    : std::string();
}

}  // namespace

Result<WeightFiles> find_weight_files(const std::string& folder) {
  SLUICE_ASSIGN_OR_RETURN(const bool exists, path_exists(folder));
  if (!exists) return not_found(fmt::format("{}: there is no such folder", folder));
  const auto there = [](const std::string& path) -> Result<bool> {  // also true for a broken link
    std::error_code error;
    if (fs::is_symlink(path, error)) return true;
    return path_exists(path);
  };
  SLUICE_ASSIGN_OR_RETURN(const bool single, there(in_folder(folder, kSingleFile)));
  SLUICE_ASSIGN_OR_RETURN(const bool indexed, there(in_folder(folder, kIndexFile)));
  WeightFiles found;
  if (single) {
    found.names = {std::string(kSingleFile)};
  } else {
    SLUICE_ASSIGN_OR_RETURN(found, indexed ? files_of_index(folder) : loose_files(folder));
  }
  SLUICE_ASSIGN_OR_RETURN(found.note, check_adapter(folder));
  return found;
}

bool has_safetensors(const std::string& folder) {
  const Result<FolderList> list = list_folder(folder);
  if (!list.ok()) return false;
  const auto is_weights = [](const std::string& name) {
    return (has_ending(name, kEnding) && !is_adapter(name)) || name == kIndexFile;
  };
  return std::ranges::any_of(list->files, is_weights) || std::ranges::any_of(list->broken, is_weights);
}

}  // namespace sluice
