// Used by bench, kernels/cpu, kernels/cpu/attention and kernels/cpu/linear.
#include "kernels/cpu/kernel_table.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/check.h"
#include "base/threads/mutex.h"
#include "kernels/cpu/kernel_lists.h"
#include "kernels/cpu/linear/linear_layout.h"
#include "kernels/device/isa.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice {
namespace {

// The vectors that a target's kernels, and so the layout of packed weights, are made for.
enum class Vectors { kNone, kAvx2, kAvx512 };

struct Target {
  std::string_view name;
  Vectors vectors;
  CpuFeatures needs;
};

using enum CpuFeature;
constexpr Target kTargets[] = {
    {"scalar", Vectors::kNone, {}},
    {"avx2", Vectors::kAvx2, {kAvx2}},
    {"avx2_vnni", Vectors::kAvx2, {kAvxVnni}},
    {"avx512", Vectors::kAvx512, {kAvx512}},
    {"avx512_vnni", Vectors::kAvx512, {kVnni}},
    {"avx512vbmi", Vectors::kAvx512, {kAvx512Vbmi}},
    {"avx512vbmi_vnni", Vectors::kAvx512, {kAvx512Vbmi, kVnni}},
    {"avx512_bf16", Vectors::kAvx512, {kBf16Dot}},
    {"avx512_amx", Vectors::kAvx512, {kAmx}},
};

constexpr const Target& target(std::string_view name) {
  return *std::ranges::find(kTargets, name, &Target::name);
}

const struct {
  const Target& target;
  const KernelList& list;
} kLists[] = {
#define SLUICE_LISTED(name, file) {target(#name), cpu::name::file##_kernels},
    SLUICE_KERNEL_LISTS(SLUICE_LISTED)
#undef SLUICE_LISTED
};

template <int kTileGroups, Fp8Order kOrder>
constexpr LinearPacking kPacking{[](const WeightView& view) { return LinearLayout(view, kTileGroups).bytes(); },
                                 [](const WeightView& view, int begin, int end, std::byte* packed) {
                                   pack_linear(view, kTileGroups, kOrder, begin, end, packed);
                                 },
                                 kTileGroups* kGroupOutputs};

LinearPacking packing_of(CpuFeatures features) {
  if (features.has(kAvx512Vbmi)) return kPacking<kAvx512TileGroups, Fp8Order::kPairs>;
  if (features.has(kAvx512)) return kPacking<kAvx512TileGroups, Fp8Order::kPlanes>;
  if (features.has(kAvx2)) return kPacking<kAvx2TileGroups, Fp8Order::kNibbles>;
  return {[](const WeightView&) { return std::size_t{0}; }, [](const WeightView&, int, int, std::byte*) {}, 32};
}

// Kernels that ask for the weights of few rows ahead gain a third of the time from memory and lose a tenth from a
// cache. Models with weights as small as this lie in the cache, with few exceptions. So these kernels run for weights
// of more values only.
constexpr std::int64_t kSmallWeight = 1 << 17;
bool asks_ahead(const LinearKernel& kernel) {
  return kernel.needs.has(kReadsAhead) && kernel.rows_from == 1;
}

// Appends `kernel` to those of the cell, unless one of them runs in all cases for which it would.
void add_to(LinearKernels::Cell& cell, const LinearKernel& kernel) {
  for (const LinearKernel*& before : cell) {
    if (before == nullptr) {
      before = &kernel;
      return;
    }
    if (before->rows_from <= kernel.rows_from && before->rows_to >= kernel.rows_to &&
        before->block_inputs >= kernel.block_inputs && kernel.block_multiple % before->block_multiple == 0 &&
        (!before->even_blocks || kernel.even_blocks) && (!asks_ahead(*before) || asks_ahead(kernel))) {
      return;
    }
  }
  SLUICE_CHECK(false, "a cell has room for all kernels of a weight");
}

void add_linears(LinearKernels& linear, CpuFeatures features, std::span<const LinearKernel> kernels) {
  for (const LinearKernel& kernel : kernels) {
    if (kernel.rows_from == 0 || !features.has_all(kernel.needs)) continue;
    for (const WeightFormatInfo& info : weight_formats()) {
      for (const bool f32_scales : {false, true}) {
        if (!kernel.weights.has(info.format, f32_scales) || (f32_scales && !info.f32_scales)) continue;
        for (int form = 0; form < kInputForms; ++form) {
          if ((kernel.inputs >> form & 1U) == 0) continue;
          add_to(linear.cell(info.format, f32_scales, static_cast<InputForm>(form)), kernel);
        }
      }
    }
  }
}

// The changes of the machine's features beyond the level: " -amx +reads_ahead".
std::string changes(CpuFeatures features) {
  std::string text;
  CpuFeatures level = cpu_features();
  for (const CpuFeature step : {kAvx512Vbmi, kAvx512, kAvx2}) {
    if (!features.has(step)) level = level.without(step);
  }
  for (int i = 0; i < kCpuFeatures; ++i) {
    const auto feature = static_cast<CpuFeature>(i);
    if (level.has(feature) != features.has(feature)) {
      text += (level.has(feature) ? " -" : " +") + std::string(name(feature));
    }
  }
  return text;
}

KernelTable resolve(CpuFeatures features) {
  KernelTable table;
  table.isa = features.level();
  table.name = table.isa + changes(features);
  table.features = features;
  table.linear.packing = packing_of(features);
  const Vectors vectors = features.has(kAvx512) ? Vectors::kAvx512
                          : features.has(kAvx2) ? Vectors::kAvx2
                                                : Vectors::kNone;
  for (const auto& [target, list] : kLists) {
    if (target.vectors != vectors || !features.has_all(target.needs)) continue;
    add_linears(table.linear, features, list.linears);
    for (const Kernel& kernel : list.kernels) {
      if (!features.has_all(kernel.needs) || kernel.get(table) != nullptr) continue;
      kernel.put(table);
      table.chosen.push_back(&kernel);
    }
  }
  return table;
}

// True if a kernel that needs these features can run on this machine, perhaps only after --kernels corrects a
// judgement.
bool can_run(CpuFeatures needs) {
  for (int i = 0; i < kCpuFeatures; ++i) {
    const auto feature = static_cast<CpuFeature>(i);
    if (!needs.has(feature) || cpu_features().has(feature)) continue;
    if (!changed_features(cpu_features(), std::string("+") + name(feature)).ok()) return false;
  }
  return true;
}

}  // namespace

std::vector<AbsentKernels> absent_kernels() {
  std::map<std::string, int> counts;
  for (const auto& [target, list] : kLists) {
    const auto absent = [&target](const auto& kernel) { return !can_run(target.needs) || !can_run(kernel.needs); };
    const auto count = std::ranges::count_if(list.kernels, absent) + std::ranges::count_if(list.linears, absent);
    if (count > 0) counts[std::string(target.name)] += static_cast<int>(count);
  }
  std::vector<AbsentKernels> absent;
  for (const auto& [name, count] : counts) absent.push_back({name, count});
  return absent;
}

const LinearKernel& LinearKernels::kernel(const WeightView& view, InputForm inputs, int rows) const {
  const int block = view.block_inputs();
  const bool small = std::int64_t{1} * view.out * view.in <= kSmallWeight;
  for (const LinearKernel* kernel : cell(view, inputs)) {
    SLUICE_CHECK(kernel != nullptr, "a weight that multiplies inputs that its format cannot");
    if (kernel->takes(rows, block) && !(small && asks_ahead(*kernel))) return *kernel;
  }
  SLUICE_CHECK(false, "the last kernel of a cell takes all");
  return *cell(view, inputs).front();
}

bool LinearKernels::wants_tiles(const LinearWeight& weight, int rows) const {
  return weight.input_form() == InputForm::kTiles && kernel(weight.view(), InputForm::kTiles, rows).tiles;
}

int LinearKernels::row_unit(const LinearWeight& weight) const {
  const bool any = !weight.packed_when_used() && kernel(weight.view(), weight.input_form(), 1).any_group;
  return any ? std::min(2 * kGroupOutputs, packing.out_tile) : packing.out_tile;
}

void LinearKernels::run(const LinearJob& job, int rows, int begin, int end) const {
  // Inputs as tiles were made for a kernel on tiles, which then also runs for a piece of one row.
  const int least = job.x_tiles != nullptr ? kTilesFromRows : 1;
  kernel(job.weight->view(), job.weight->input_form(), std::max(rows, least)).run(job, rows, begin, end);
}

const KernelTable& kernels_with(CpuFeatures features) {
  static Mutex mutex;
  static std::map<CpuFeatures, KernelTable> tables;
  const MutexLock lock(mutex);
  const auto found = tables.find(features);
  return found != tables.end() ? found->second : tables.emplace(features, resolve(features)).first->second;
}

}  // namespace sluice
