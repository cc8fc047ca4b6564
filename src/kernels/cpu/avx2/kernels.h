// The kernels of this ISA. Callable only where the machine has it (kernels/cpu_features.h).
#pragma once

#include "kernels/cpu/kernel_table.h"

namespace sluice::avx2 {

const KernelTable& kernels();

// Defined in files of their own, to compile beside the rest.
void attend(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end);
void attend_expanded(const AttendExpandedArgs& args, int head, int begin, int end);
void merge_attention(const MergeAttentionArgs& args, int begin, int end);
void index_scores(const IndexTile& tile);

}  // namespace sluice::avx2
