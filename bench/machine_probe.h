// What the machine can do, measured in the same run as the kernels: the figures that their percentages refer to.
#pragma once

#include <cstddef>
#include <functional>

#include "base/thread_pool.h"

namespace sluice {

// Of one call, in seconds. Processor time is that of the calling thread alone: for one thread on a machine that is busy
// with something else.
enum class TimeKind { kWall, kProcessor };
void measure_with(TimeKind kind);

// The median time of one call, in seconds: repeated for about `budget` seconds after one call that warms up.
double median_seconds(double budget, const std::function<void()>& call);

// f32 multiply-adds of register operands, all threads of the pool, in GFLOP/s (two a multiply-add), with the widest
// vectors of the machine.
double fma_gflops(ThreadPool& pool);

// Reading `bytes` over and over, each thread its part, in GB/s.
double read_gbytes(ThreadPool& pool, std::size_t bytes);

}  // namespace sluice
