#include "kernels/cpu/kernel_table.h"

#include <map>
#include <mutex>

#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512vbmi/kernels.h"
#include "kernels/cpu_features.h"

namespace sluice {
namespace {

// Where an entry of `table` comes from: the lowest of its ISA and those below that has the same kernel.
template <class GetEntry>
KernelRow describe(const char* op, const KernelTable& table, const GetEntry& entry) {
  const KernelTable* source = &table;
  for (const KernelTable* lower : present_kernels()) {
    if (entry(*lower) == entry(table)) source = lower;
  }
  if (source == &table) return {op, table.isa, "written for the chosen ISA"};
  return {op, source->isa, std::string("has no form of its own for ") + table.isa + ", the next lower one serves"};
}

}  // namespace

std::vector<const KernelTable*> present_kernels() {
  std::vector<const KernelTable*> tables{avx512vbmi_kernels(), avx512_kernels(), avx2_kernels(), &scalar_kernels()};
  std::erase(tables, nullptr);
  return tables;
}

const char* isa_name(const KernelTable& table) {
  return table.isa;
}

const LinearPacking& linear_packing(const KernelTable& table) {
  return table.linear.packing;
}

const KernelTable& kernels_that_pack(const char* device, const LinearPacking& packing) {
  static std::mutex mutex;
  static std::map<const LinearPacking*, KernelTable> tables;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = tables.try_emplace(&packing, scalar_kernels());
  if (is_new) found->second.isa = device, found->second.linear.packing = packing;
  return found->second;
}

const KernelTable* avx2_kernels() {
  return cpu_has_avx2() ? &avx2::kernels() : nullptr;
}
const KernelTable* avx512_kernels() {
  return cpu_has_avx512() ? &avx512::kernels() : nullptr;
}

const KernelTable* avx512vbmi_kernels() {
  return cpu_has_avx512vbmi() ? &avx512vbmi::kernels() : nullptr;
}

Result<const KernelTable*> select_kernels(const std::string& isa) {
  const auto present = present_kernels();
  if (isa == "auto") return present.front();
  for (const KernelTable* table : present) {
    if (isa == table->isa) return table;
  }
  for (const char* known : {"avx2", "avx512", "avx512vbmi"}) {
    if (isa == known) return invalid_argument("--isa " + isa + ": this machine lacks it; it has " + cpu_isas());
  }
  return invalid_argument("--isa " + isa + ": expected auto, scalar, avx2, avx512 or avx512vbmi; this machine has " +
                          cpu_isas());
}

std::vector<KernelRow> describe_kernels(const KernelTable& table) {
#define SLUICE_DESCRIBE(op, entry) describe(op, table, [](const KernelTable& t) { return t.entry; })
  return {
      SLUICE_DESCRIBE("linear", linear.run),
      SLUICE_DESCRIBE("swiglu", swiglu),
      SLUICE_DESCRIBE("rms_norm", rms_norm),
      SLUICE_DESCRIBE("layer_norm", layer_norm),
      SLUICE_DESCRIBE("rope_heads", rope_heads),
      SLUICE_DESCRIBE("hadamard", hadamard),
      SLUICE_DESCRIBE("hc_finish", hc_finish),
      SLUICE_DESCRIBE("hc_collapse", hc_collapse),
      SLUICE_DESCRIBE("hc_expand", hc_expand),
      SLUICE_DESCRIBE("route", route),
      SLUICE_DESCRIBE("attend", attend),
      SLUICE_DESCRIBE("attend_expanded", attend_expanded),
      SLUICE_DESCRIBE("merge_attention", merge_attention),
      SLUICE_DESCRIBE("index_scores", index_scores),
      SLUICE_DESCRIBE("keep_best", keep_best),
      SLUICE_DESCRIBE("compress", compress),
      SLUICE_DESCRIBE("encode_rows", encode_rows),
      SLUICE_DESCRIBE("decode_rows", decode_rows),
      SLUICE_DESCRIBE("simulate_rows", simulate_rows),
      SLUICE_DESCRIBE("sample_weights", sample_weights),
  };
#undef SLUICE_DESCRIBE
}

}  // namespace sluice
