// KernelList: the kernels of one file, each with its name and the features that it needs. For each of its entries a
// table (kernels/cpu/kernel_table.h) takes the first kernel that it may use, from all lists in their order
// (kernels/cpu/kernel_lists.h).
// Used by kernels/cpu.
#pragma once

#include <initializer_list>
#include <limits>
#include <span>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/target.h"

namespace sluice {

// A kernel for an entry of a table that is not linear.
struct Kernel {
  const char* name;   // the function's name, in namespace sluice::cpu
  const char* entry;  // the entry of KernelTable: "rms_norm"
  CpuFeatures needs;  // in addition to those of its target
  void (*put)(KernelTable& table);
  const void* (*get)(const KernelTable& table);  // the function that the table calls
};

template <class... T>
constexpr unsigned set_of(T... members) {
  return (0U | ... | (1U << static_cast<unsigned>(members)));
}

// A set of weight formats: those with f32 scales stored apart (`f32_scaled`), and those without (`formats`).
struct WeightSet {
  unsigned formats = 0, f32_scaled = 0;

  constexpr bool has(WeightFormat format, bool with_f32_scales) const {
    return ((with_f32_scales ? f32_scaled : formats) >> static_cast<unsigned>(format) & 1U) != 0;
  }
};
template <class... Format>
constexpr WeightSet weights_of(Format... formats) {
  return {.formats = set_of(formats...)};
}
template <class... Format>
constexpr WeightSet f32_scaled(Format... formats) {
  return {.f32_scaled = set_of(formats...)};
}

// A kernel of linears: for some weight formats, input forms and numbers of rows.
struct LinearKernel {
  const char* name;
  void (*run)(const LinearJob& job, int rows, int begin, int end);
  WeightSet weights;
  unsigned inputs;                                               // set_of(InputForm...)
  int rows_from = 1, rows_to = std::numeric_limits<int>::max();  // rows_from 0: the kernel never runs
  CpuFeatures needs{};
  bool even_blocks = false;                            // the kernel takes blocks of an even number of inputs only
  int block_inputs = std::numeric_limits<int>::max();  // most inputs of a block that the kernel takes
  int block_multiple = 1;                              // a block's inputs must be a multiple of this
  bool any_group = false;  // a piece of one row may begin and end at any multiple of 16 outputs (linear_layout.h)
  bool tiles = false;      // inputs come as tiles (LinearJob::x_tiles); 32 outputs at a time

  constexpr bool takes(int rows, int block) const {
    return rows >= rows_from && rows <= rows_to && block <= block_inputs &&
           (block_multiple == 1 || block % block_multiple == 0) && !(even_blocks && block % 2 != 0);
  }
};

inline constexpr unsigned kFloatInputs = set_of(InputForm::kF32, InputForm::kBf16, InputForm::kFp8);
inline constexpr unsigned kRoundedInputs = set_of(InputForm::kBf16, InputForm::kFp8);
inline constexpr unsigned kTilesInputs = set_of(InputForm::kTiles);
inline constexpr int kTilesFromRows = 2;  // rows from which kernels on tiles pay
inline constexpr unsigned kInt8Inputs = set_of(InputForm::kInt8);

// The kernels of a file for one target: target::file_kernels (kernels/cpu/kernel_lists.h). They are constants, so that
// those of targets that this machine lacks can be read, too.
struct KernelList {
  std::span<const Kernel> kernels;
  std::span<const LinearKernel> linears;
};

}  // namespace sluice

#define SLUICE_NAMED_KERNEL(name, entry, function, ...)                                                             \
  ::sluice::Kernel {                                                                                                \
    name, #entry, ::sluice::CpuFeatures{__VA_ARGS__}, [](::sluice::KernelTable& table) { table.entry = function; }, \
        [](const ::sluice::KernelTable& table) { return reinterpret_cast<const void*>(table.entry); }               \
  }
// Makes an entry of a table of this target's function, and the features that it needs.
#define SLUICE_KERNEL(entry, function, ...) \
  SLUICE_NAMED_KERNEL(SLUICE_KERNEL_NAME(function), entry, function, __VA_ARGS__)

// Makes a kernel of linears of this target's function: the weights `of` and the inputs `with`, then the other fields of
// LinearKernel.
#define SLUICE_LINEAR(function, of, with, ...)                                                                      \
  ::sluice::LinearKernel {                                                                                          \
    .name = SLUICE_KERNEL_NAME(function), .run = function, .weights = of, .inputs = with __VA_OPT__(, ) __VA_ARGS__ \
  }

// Defines the kernels of this file for its target.
#define SLUICE_KERNELS(file, ...)                       \
  extern const ::sluice::KernelList file##_kernels;     \
  constinit const ::sluice::KernelList file##_kernels { \
    __VA_ARGS__                                         \
  }
