// AVX-512 with VBMI and VNNI, and the bf16 dot and AMX where they are there: what these instructions speed up, all else
// is avx512's. Callable only where the machine has it (kernels/cpu_features.h).
#pragma once

#include "kernels/cpu/kernel_table.h"

namespace sluice::avx512vbmi {

const KernelTable& kernels();

// Defined in files of their own, to compile beside the rest.
void attend(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end);
// AttendArgs::bf16 by the bf16 dot instruction, for values from a multiple of 32 on; where avx512::has_dot().
void attend_dot(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end);
void index_scores(const IndexTile& tile);
// By the bf16 dot instruction, for FP8 keys; where avx512::has_dot().
void index_scores_dot(const IndexTile& tile);

}  // namespace sluice::avx512vbmi
