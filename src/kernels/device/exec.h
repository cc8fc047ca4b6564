// Exec: the place where an op runs: a device, and for the CPU its threads and the kernels of one ISA. It is the first
// argument of every op.
//
// The row contract of every op in this folder: output row i is a function of input row i (and of what the cache holds
// for its own sequence). It is computed in one fixed order that depends on shapes and absolute positions only: not on
// how many rows there are, which row it is, or how many threads run. Each header states the order. ref/ follows it
// literally in scalar code, and every other kernel gives the same bits (kernels/tests/*_test.cc compare them bit by
// bit).
//
// Common orders:
//   lanes16(f, n)   sixteen partial results; lane l takes i = l, l + 16, l + 32, ... in ascending order, one fma each,
//                   from 0 (inputs past n count as 0); then a tree: l += l+8, l += l+4, l += l+2, l += l+1.
//   chain(f, n)     one fma after the other, ascending, from 0.
// The sign and payload of a NaN that an op returns are unspecified, because processors differ. Nothing else depends on
// them: codes (base/formats/number_formats.h) and choices (kernels/common/order_key.h) know only one NaN. Denormals
// count as zero (base/threads/thread_pool.h). exp, log, sigmoid are those of kernels/common/math.h, on every ISA.
// Used by engine, kernels and model.
#pragma once

#include "base/threads/thread_pool.h"
#include "kernels/device/exchange.h"

namespace sluice {

struct KernelTable;  // kernels/cpu/kernel_table.h
struct OpTable;      // kernels/ops/ops.h
class Device;        // kernels/device/device.h

struct Exec {
  ThreadPool* pool = nullptr;
  const KernelTable* kernels = nullptr;
  const OpTable* ops = nullptr;  // the device's ops; null: the CPU's
  Device* device = nullptr;      // its memory holds the arguments, its queue does the ops; null: cpu_device()
  RankGroup group = {};          // the device's place among its ranks
  // A deliberate fault, to see that the tests of the row contract find it. Attention reduces the window keys from
  // before the span separately from the span's own, so its order depends on how the rows were
  // cut (kernels/ops/attention.h).
  bool fault_chunk_anchored_splits = false;
  // Another fault, of the CPU alone: rows of a span of this many rows, or fewer, see all the latent entries that its
  // last row sees; 0: none do.
  int fault_future_entries = 0;
};

}  // namespace sluice
