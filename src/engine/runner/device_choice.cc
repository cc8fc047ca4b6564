// Used by cli/commands and engine/runner.
#include "engine/runner/device_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "kernels/device/backend.h"
#include "kernels/ops/linear.h"

namespace sluice {

namespace {

struct Chosen {
  const Backend* backend;
  std::vector<std::unique_ptr<Device>> devices;  // by rank; one, null, is the CPU
};

// Opens the devices of all ranks: `numbers`, or the first ones where that is empty.
Result<Chosen> open(const Backend& backend, const MachineOptions& options, std::vector<int> numbers = {}) {
  const auto ranks = static_cast<std::size_t>(options.tensor_parallel_size);
  if (ranks > 1 && backend.connect == nullptr) {
    return invalid_argument(
        fmt::format("--tensor-parallel-size: expected 1 with --device {}, found {}; several need "
                    "--device cuda",
                    backend.name, ranks));
  }
  if (!numbers.empty() && numbers.size() != ranks) {
    return invalid_argument(fmt::format("--device {}: expected as many numbers as --tensor-parallel-size, {}, found {}",
                                        options.device, ranks, numbers.size()));
  }
  for (const int number : numbers) {
    if (std::ranges::count(numbers, number) == 1) continue;
    return invalid_argument(
        fmt::format("--device {}: expected a device of its own for each rank, found {} twice", options.device, number));
  }
  Chosen chosen{&backend, {}};
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const int number = numbers.empty() ? static_cast<int>(rank) : numbers[rank];
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                            backend.open({.number = number, .graphs = options.cuda_graphs, .of_group = ranks > 1}));
    chosen.devices.push_back(std::move(device));
  }
  return chosen;
}

// "0,1" as numbers; empty: it is not a list of them.
std::vector<int> read_numbers(std::string_view text) {
  std::vector<int> numbers;
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    int number = -1;
    const auto [next, error] = std::from_chars(at, end, number);
    const bool goes_on = next != end && *next == ',' && next + 1 != end;
    if (error != std::errc() || number < 0 || (next != end && !goes_on)) return {};
    numbers.push_back(number);
    at = next + (goes_on ? 1 : 0);
  }
  return numbers;
}

Result<Chosen> choose_automatically(const MachineOptions& options) {
  for (const Backend* backend : kBackends) {
    if (backend->is_present == nullptr || !backend->is_present()) continue;
    auto chosen = open(*backend, options);
    if (chosen.ok() || options.tensor_parallel_size > 1) return chosen;
    log_warning("--device auto: the CPU, as {}", chosen.status().message());
  }
  return open(cpu_backend, options);
}

std::string all_names() {
  std::string names = "auto", last;
  for (const Backend* backend : kBackends) {
    if (!last.empty()) names += ", " + last;
    last = backend->name;
    if (backend->numbered) last += ", " + last + ":N, " + last + ":N,M";
  }
  return names + " or " + last;
}

Result<Chosen> choose_backend(const MachineOptions& options) {
  const std::string_view name = options.device;
  if (name == "auto") return choose_automatically(options);
  for (const Backend* backend : kBackends) {
    if (name == backend->name) return open(*backend, options);
    if (!backend->numbered || !name.starts_with(std::string(backend->name) + ":")) continue;
    std::vector<int> numbers = read_numbers(name.substr(backend->name.size() + 1));
    if (!numbers.empty()) return open(*backend, options, std::move(numbers));
  }
  return invalid_argument(fmt::format("--device: expected {}, found '{}'", all_names(), name));
}

// The first line of `backend` for the profile; null: it has none.
const BackendProfile* find_profile(const Backend& backend, std::string_view name, std::string_view compute_dtype) {
  for (const BackendProfile& profile : backend.profiles) {
    const bool any_type = profile.compute_dtype.empty();
    if (profile.name == name && (any_type || profile.compute_dtype == compute_dtype)) return &profile;
  }
  return nullptr;
}

// The profile's line of the chosen backend: its own, or that of portable profiles if no backend has one of its own.
Result<const BackendProfile*> choose_profile(const Chosen& chosen, const MachineOptions& options,
                                             const NumericsOptions& numerics) {
  const std::string_view name = numerics.profile;
  if (const BackendProfile* own = find_profile(*chosen.backend, name, numerics.compute_dtype)) return own;
  for (const Backend* other : kBackends) {
    if (find_profile(*other, name, numerics.compute_dtype) == nullptr) continue;
    const bool needs_device = other->is_present != nullptr,
               is_auto_cpu = options.device == "auto" && !chosen.devices.front();
    return invalid_argument(
        fmt::format("--profile {}: its kernels are those of {}, found --device {}{}; give --device {}{}, or choose "
                    "another profile",
                    name, other->machines, options.device, is_auto_cpu ? ", which is the CPU here" : "", other->name,
                    needs_device ? " on a machine with such a device" : ""));
  }
  return find_profile(*chosen.backend, {}, numerics.compute_dtype);
}

}  // namespace

bool computes_later(const Exec& exec) {
  return exec.device != nullptr && exec.device != &cpu_device();
}

const char* isa_name(const Exec& exec) {
  return exec.kernels != nullptr ? isa_name(*exec.kernels) : "none";
}

Result<DeviceChoice> choose_device(const MachineOptions& options, const NumericsOptions& numerics) {
  SLUICE_ASSIGN_OR_RETURN(Chosen chosen, choose_backend(options));
  SLUICE_ASSIGN_OR_RETURN(const BackendProfile* profile, choose_profile(chosen, options, numerics));
  if (profile == nullptr) {
    return invalid_argument(fmt::format("--profile {}: --device {} does not have it; choose another profile",
                                        numerics.profile, chosen.backend->name));
  }
  for (const auto& device : chosen.devices) {
    if (profile->self_test != nullptr) SLUICE_RETURN_IF_ERROR(profile->self_test(*device));
  }
  DeviceChoice choice;
  if (profile->ops != nullptr) choice.ops = &profile->ops();
  if (profile->packing != nullptr) choice.kernels = &kernels_that_pack(profile->packing_name, profile->packing());
  if (chosen.devices.size() == 1) {
    choice.owned = std::move(chosen.devices.front());
    return choice;
  }
  if (chosen.backend->numbered) {
    log_warning(
        "--tensor-parallel-size {}: steps of 1,000 kernels and more, as those of models with 40 layers, may not "
        "finish yet; they end with an error after --collective-timeout (docs/several_gpus.md)",
        chosen.devices.size());
  }
  std::vector<Device*> ranks;
  for (const auto& device : chosen.devices) ranks.push_back(device.get());
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Exchange> exchange,
                          chosen.backend->connect(ranks, std::chrono::seconds(options.collective_timeout)));
  auto group = std::make_unique<DeviceGroup>(std::move(chosen.devices), std::move(exchange), choice.ops);
  choice.ops = &DeviceGroup::ops(), choice.group = group.get(), choice.owned = std::move(group);
  return choice;
}

}  // namespace sluice
