#include "kernels/device/isa.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/threads/mutex.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/device/bare_loops.h"

namespace sluice {

using enum CpuFeature;

const KernelTable& scalar_kernels() {
  static const KernelTable& table = kernels_with({});
  return table;
}

std::vector<const KernelTable*> present_kernels() {
  std::vector<const KernelTable*> tables{&kernels_with(cpu_features())};
  for (const CpuFeature level : {kAvx512Vbmi, kAvx512, kAvx2}) {
    const CpuFeatures features = tables.back()->features;
    if (features.has(level)) tables.push_back(&kernels_with(features.without(level)));
  }
  return tables;
}

namespace {

std::vector<const KernelTable*> find_every_path() {
  std::vector<const KernelTable*> tables;
  std::set<KernelRow> rows;
  const auto add = [&](CpuFeatures features) {
    const KernelTable& table = kernels_with(features);
    const std::size_t known = rows.size();
    for (KernelRow& row : describe_kernels(table)) rows.insert(std::move(row));
    if (rows.size() > known) tables.push_back(&table);
  };
  for (const KernelTable* level : present_kernels()) {
    add(level->features);
    for (int i = 0; i < kCpuFeatures; ++i) {
      const auto feature = static_cast<CpuFeature>(i);
      if (level->features.has(feature)) {
        add(level->features.without(feature));
      } else if (const auto changed = changed_features(level->features, std::string("+") + name(feature));
                 changed.ok()) {
        add(*changed);
      }
    }
  }
  std::ranges::reverse(tables);
  std::ranges::stable_partition(tables, [](const KernelTable* table) { return table == &scalar_kernels(); });
  return tables;
}

}  // namespace

const std::vector<const KernelTable*>& every_path() {
  static const std::vector<const KernelTable*> tables = find_every_path();
  return tables;
}

const char* isa_name(const KernelTable& table) {
  return table.isa;
}

const char* kernels_name(const KernelTable& table) {
  return table.name.c_str();
}

const CpuFeatures& features_of(const KernelTable& table) {
  return table.features;
}

const LinearPacking& linear_packing(const KernelTable& table) {
  return table.linear.packing;
}

const KernelTable& kernels_that_pack(const char* device, const LinearPacking& packing) {
  static Mutex mutex;
  static std::map<const LinearPacking*, KernelTable> tables;
  const MutexLock lock(mutex);
  const auto [found, is_new] = tables.try_emplace(&packing, scalar_kernels());
  if (is_new) found->second.isa = device, found->second.name = device, found->second.linear.packing = packing;
  return found->second;
}

Result<const KernelTable*> select_kernels(const std::string& isa, const std::string& changes) {
  constexpr std::string_view kLevels[] = {"scalar", "avx2", "avx512", "avx512vbmi"};
  CpuFeatures features = cpu_features();
  if (isa != "auto") {
    const auto* const wanted = std::ranges::find(kLevels, isa);
    if (wanted == std::end(kLevels)) {
      return invalid_argument("--isa " + isa +
                              ": expected auto, scalar, avx2, avx512 or avx512vbmi; this machine has " + cpu_isas());
    }
    constexpr CpuFeature kAbove[] = {kAvx2, kAvx512, kAvx512Vbmi};
    for (const CpuFeature above : std::span(kAbove).subspan(static_cast<std::size_t>(wanted - kLevels))) {
      features = features.without(above);
    }
    if (isa != features.level()) {
      return invalid_argument("--isa " + isa + ": this machine lacks it; it has " + cpu_isas());
    }
  }
  SLUICE_ASSIGN_OR_RETURN(features, changed_features(features, changes));
  return &kernels_with(features);
}

}  // namespace sluice
