// The target of a file (cmake/layers.cmake): SLUICE_ISA is one of the folders next to this file, and SLUICE_VECTORS the
// folder whose vectors it has (avx2, avx512).
//
// A source that begins with "// Compiled for A and B." is compiled for each of them, and one in a target's folder for
// that target. All code over vectors that such a file sees, templates included, lies in namespace
// sluice::cpu::SLUICE_ISA. So the linker never takes code made for one target for that of
// another (tools/check_isa_symbols.sh).
// Used by kernel_list.h, kernels/cpu/avx512vbmi/amx_tiles.h, kernels/cpu/linear/linear_isa.h and vec.h.
#pragma once

#define SLUICE_QUOTED(path) #path
#define SLUICE_EXPANDED(path) SLUICE_QUOTED(path)

// A header of the target, and one of its vectors: #include SLUICE_VECTOR_HEADER(vec.h).
// clang-format off: a path, no division.
#define SLUICE_ISA_HEADER(file) SLUICE_EXPANDED(kernels/cpu/SLUICE_ISA/file)
#define SLUICE_VECTOR_HEADER(file) SLUICE_EXPANDED(kernels/cpu/SLUICE_VECTORS/file)
// clang-format on

// The name of a function of this target: "avx2::rms_norm", in namespace sluice::cpu.
#define SLUICE_KERNEL_NAME(function) SLUICE_EXPANDED(SLUICE_ISA) "::" #function
