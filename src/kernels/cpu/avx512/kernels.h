// The kernels of this ISA. Callable only where the machine has it (kernels/cpu_features.h).
#pragma once

#include "kernels/kernel_table.h"

namespace sluice::avx512 {

const KernelTable& kernels();

// Defined in files of their own, to compile beside the rest.
void attend(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end);
// AttendArgs::bf16 by the bf16 dot instruction, for values from a multiple of 32 on; where has_dot()
// (linear_kernels.h).
void attend_dot(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end);
void attend_expanded(const AttendExpandedArgs& args, int head, int begin, int end);
void merge_attention(const MergeAttentionArgs& args, int begin, int end);
void index_scores(const IndexTile& tile);
// By the bf16 dot instruction, for FP8 keys; where has_dot() (linear_kernels.h).
void index_scores_dot(const IndexTile& tile);

}  // namespace sluice::avx512
