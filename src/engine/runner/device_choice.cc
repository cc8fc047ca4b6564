#include "engine/runner/device_choice.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "kernels/device/backend.h"
#include "kernels/ops/linear.h"

namespace sluice {

namespace {

struct Chosen {
  const Backend* backend;
  std::unique_ptr<Device> device;
};

Result<Chosen> open(const Backend& backend, const MachineOptions& options, int number) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                          backend.open({.number = number, .graphs = options.cuda_graphs}));
  return Chosen{&backend, std::move(device)};
}

Chosen choose_automatically(const MachineOptions& options) {
  for (const Backend* backend : kBackends) {
    if (backend->is_present == nullptr || !backend->is_present()) continue;
    auto chosen = open(*backend, options, 0);
    if (chosen.ok()) return std::move(*chosen);
    log_warning("--device auto: the CPU, as {}", chosen.status().message());
  }
  return {&cpu_backend, nullptr};
}

std::string all_names() {
  std::string names = "auto", last;
  for (const Backend* backend : kBackends) {
    if (!last.empty()) names += ", " + last;
    last = backend->name;
    if (backend->numbered) last += ", " + last + ":N";
  }
  return names + " or " + last;
}

Result<Chosen> choose_backend(const MachineOptions& options) {
  const std::string_view name = options.device;
  if (name == "auto") return choose_automatically(options);
  for (const Backend* backend : kBackends) {
    if (name == backend->name) return open(*backend, options, 0);
    if (!backend->numbered || !name.starts_with(std::string(backend->name) + ":")) continue;
    const std::string_view digits = name.substr(backend->name.size() + 1);
    int number = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size() && number >= 0) {
      return open(*backend, options, number);
    }
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
    const bool needs_device = other->is_present != nullptr, is_auto_cpu = options.device == "auto" && !chosen.device;
    return invalid_argument(
        fmt::format("--profile {}: its kernels are those of {}, found --device {}{}; give --device {}{}, or choose "
                    "another profile",
                    name, other->machines, options.device, is_auto_cpu ? ", which is the CPU here" : "", other->name,
                    needs_device ? " on a machine with such a device" : ""));
  }
  return find_profile(*chosen.backend, {}, numerics.compute_dtype);
}

}  // namespace

Result<DeviceChoice> choose_device(const MachineOptions& options, const NumericsOptions& numerics) {
  SLUICE_ASSIGN_OR_RETURN(Chosen chosen, choose_backend(options));
  SLUICE_ASSIGN_OR_RETURN(const BackendProfile* profile, choose_profile(chosen, options, numerics));
  if (profile == nullptr) {
    return invalid_argument(fmt::format("--profile {}: --device {} does not have it; choose another profile",
                                        numerics.profile, chosen.backend->name));
  }
  if (profile->self_test != nullptr) SLUICE_RETURN_IF_ERROR(profile->self_test(*chosen.device));
  DeviceChoice choice{.owned = std::move(chosen.device)};
  if (profile->ops != nullptr) choice.ops = &profile->ops();
  if (profile->packing != nullptr) choice.kernels = &kernels_that_pack(profile->packing_name, profile->packing());
  return choice;
}

}  // namespace sluice
