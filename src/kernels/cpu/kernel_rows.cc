// The flat table that `sluice kernels` prints.
// Used by kernels/cpu.
#include <algorithm>
#include <limits>
#include <string>

#include "kernels/cpu/kernel_list.h"
#include "kernels/device/isa.h"

namespace sluice {
namespace {

constexpr const char* kInputNames[kInputForms] = {"f32", "bf16", "int8", "fp8", "tiles", "fp8 blocks"};

std::string rows_text(int from, int to) {
  if (to == std::numeric_limits<int>::max()) return std::to_string(from) + "+";
  return from == to ? std::to_string(from) : std::to_string(from) + "-" + std::to_string(to);
}

// The kernels of a cell for blocks of `block` inputs, in order of rows.
std::vector<KernelRow> rows_of(const LinearKernels::Cell& cell, KernelRow row, int block) {
  constexpr int kMost = 1024;  // more rows than any kernel begins at
  const auto chosen = [&](int count) {
    return *std::ranges::find_if(cell, [&](const LinearKernel* kernel) { return kernel->takes(count, block); });
  };
  std::vector<KernelRow> rows;
  for (int from = 1; from <= kMost;) {
    const LinearKernel* kernel = chosen(from);
    int to = from;
    while (to <= kMost && chosen(to)->run == kernel->run) ++to;
    row.rows = rows_text(from, to > kMost ? std::numeric_limits<int>::max() : to - 1);
    row.kernel = kernel->name;
    rows.push_back(row);
    from = to;
  }
  return rows;
}

// The rows of the usual blocks, then those of blocks for which other kernels run.
std::vector<KernelRow> linear_rows(const LinearKernels::Cell& cell, const std::string& format) {
  const KernelRow row{.entry = "linear", .format = format};
  std::vector<KernelRow> rows = rows_of(cell, row, 32);
  const auto usual = rows;
  const struct {
    int block;
    const char* note;
  } kUnusual[] = {{256, "blocks of more than 128 inputs"}, {33, "blocks of an odd number of inputs"}};
  for (const auto& [block, note] : kUnusual) {
    std::vector<KernelRow> others = rows_of(cell, row, block);
    if (others == usual) continue;
    for (KernelRow& other : others) {
      other.note = note;
      rows.push_back(other);
    }
  }
  return rows;
}

// Lists the rows of a format, with f32 scales apart or without.
void add_linear_rows(const LinearKernels& linear, const WeightFormatInfo& info, bool f32_scales,
                     std::vector<KernelRow>& rows) {
  std::vector<KernelRow> last;
  std::size_t begin = 0;
  for (const InputForm form :
       {InputForm::kF32, InputForm::kBf16, InputForm::kFp8, InputForm::kInt8, InputForm::kTiles}) {
    const auto& cell = linear.cell(info.format, f32_scales, form);
    if (cell.front() == nullptr) continue;
    std::vector<KernelRow> of_form = linear_rows(cell, std::string(info.name) + (f32_scales ? ", f32 scales" : ""));
    if (of_form == last) {  // this form has the same kernels as the form before
      for (std::size_t i = begin; i < rows.size(); ++i)
        rows[i].inputs += std::string(" ") + kInputNames[static_cast<std::size_t>(form)];
      continue;
    }
    last = of_form;
    begin = rows.size();
    for (KernelRow& row : of_form) {
      row.inputs = kInputNames[static_cast<std::size_t>(form)];
      rows.push_back(std::move(row));
    }
  }
}

}  // namespace

std::vector<KernelRow> describe_kernels(const KernelTable& table) {
  std::vector<KernelRow> rows;
  for (const bool f32_scales : {false, true}) {
    for (const WeightFormatInfo& info : weight_formats()) add_linear_rows(table.linear, info, f32_scales, rows);
  }
  for (const Kernel* kernel : table.chosen) rows.push_back({.entry = kernel->entry, .kernel = kernel->name});
  return rows;
}

}  // namespace sluice
