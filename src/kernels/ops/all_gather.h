// all_gather: brings together rows of which each rank of a group computed its own share of the columns.
//
//   to[t][r * from.columns + i] = from[t][i] of rank r       for each rank r, row t and column i
// Every rank calls it with the same rows and columns, in the same order among its ops.
//
// The op also makes the forms of `to` that have memory, bit for bit those of the whole row (kernels/ops/rows.h). It
// makes them from the shares' own forms where `from` has them and a share is whole blocks of 128 columns, else from the
// values. With forms_only and such shares the values need not be brought.
//
// Row contract: moves bytes.
// Shapes: from [rows, columns], to [rows, ranks * columns], both of one part, of the ranks' devices; no overlap.
// Used by model/model_step.cc.
#pragma once

#include "kernels/device/exec.h"
#include "kernels/ops/rows.h"

namespace sluice {

struct AllGatherArgs {
  int rows = 0;
  Rows from = {}, to = {};
  bool forms_only = false;  // the values of `to` are not read, only its forms
};
void all_gather(const Exec& exec, const AllGatherArgs& args);

inline constexpr int kGatheredBlock = 128;  // columns; a share of whole blocks has a part of the whole row's forms

}  // namespace sluice
