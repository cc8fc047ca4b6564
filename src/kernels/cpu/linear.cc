#include <algorithm>
#include <functional>
#include <vector>

#include "base/aligned.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear_split.h"
#include "kernels/cpu/ops.h"
#include "kernels/linear_inputs.h"

namespace sluice::cpu_ops {

void run_outputs(const LinearKernels& kernels, const LinearJob& job, int rows, int begin, int end) {
  if (!job.weight->packed_when_used()) return kernels.run(job, rows, begin, end);
  // Few rows are through with a tile while it is in L2; many share the copies of inputs that kernels make for more.
  constexpr int kFewRows = 16, kOutputsForMany = 256;
  const int step = rows <= kFewRows ? kernels.packing.out_tile : std::max(kernels.packing.out_tile, kOutputsForMany);
  thread_local AlignedBytes packed;
  for (int first = begin; first < end; first += step) {
    const int count = std::min(step, end - first);
    const WeightView slice = slice_rows(job.weight->view(), first, count);
    const std::size_t bytes = kernels.packing.packed_bytes(slice);
    if (packed.size() < bytes) packed = AlignedBytes(bytes);
    kernels.packing.pack(slice, 0, count, packed.data());
    const LinearWeight weight = LinearWeight::packed_at(slice, job.weight->input_form(), packed.data(), bytes);
    LinearJob part = job;
    part.weight = &weight;
    part.y += first;
    kernels.run(part, rows, 0, count);
  }
}

namespace {

// Row r is that of `job`.
void prepare_rows_of(const Exec& exec, const LinearJob& job, InputForm form, int rows, int in, float* to,
                     std::ptrdiff_t ldto) {
  constexpr int kFloatsPerPiece = 64 << 10;
  const int step = std::max(1, kFloatsPerPiece / std::max(in, 1));
  auto prepare = [&](int piece, int) {
    for (int r = piece * step; r < std::min(rows, (piece + 1) * step); ++r) {
      exec.kernels->prepare_inputs(form, in, job.x_row(r), to + r * ldto);
    }
  };
  exec.pool->run((rows + step - 1) / step, std::ref(prepare));
}

void run_jobs(const Exec& exec, int rows, std::span<const LinearJob> jobs) {
  const LinearKernels& kernels = exec.kernels->linear;
  split_linear(
      *exec.pool, kernels.packing.out_tile, static_cast<int>(jobs.size()),
      [&](int i) {
        const LinearWeight& weight = *jobs[static_cast<std::size_t>(i)].weight;
        return LinearExtent{rows, weight.out(), weight.in()};
      },
      [&](const LinearPiece& piece) {
        run_outputs(kernels, rows_from(jobs[static_cast<std::size_t>(piece.item)], piece.row_begin),
                    piece.row_end - piece.row_begin, piece.out_begin, piece.out_end);
      });
}

// Brings the inputs of the jobs into the forms that their weights multiply, those of several jobs with the same x once,
// and points the jobs at them.
void prepare_inputs(const Exec& exec, int rows, std::span<LinearJob> jobs, FloatBuffer& buffer) {
  const auto row_floats = [](const LinearJob& job) { return input_floats(job.weight->input_form(), job.weight->in()); };
  std::size_t floats = 0;
  for (const LinearJob& job : jobs)
    if (!job.x_prepared) floats += static_cast<std::size_t>(rows) * static_cast<std::size_t>(row_floats(job));
  float* next = buffer.get(floats);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const InputForm form = jobs[i].weight->input_form();
    if (form == InputForm::kF32 || jobs[i].x_prepared) continue;
    const LinearJob original = jobs[i];
    const int in = original.weight->in(), width = row_floats(original);
    prepare_rows_of(exec, original, form, rows, in, next, width);
    for (std::size_t j = i; j < jobs.size(); ++j) {
      LinearJob& job = jobs[j];
      if (job.x != original.x || job.ldx != original.ldx || job.x_rows != original.x_rows || job.x_prepared) continue;
      if (job.weight->input_form() != form || job.weight->in() != in) continue;
      job.x = next;
      job.ldx = width;
      job.x_rows = nullptr;
      job.x_prepared = true;
    }
    next += static_cast<std::ptrdiff_t>(rows) * width;
  }
}

}  // namespace

void prepare_rows(const Exec& exec, const PrepareRowsArgs& args) {
  const LinearJob job{.x = args.x, .ldx = args.ldx};
  prepare_rows_of(exec, job, args.form, args.rows, args.in, args.to, args.ldto);
}

void linear(const Exec& exec, const LinearArgs& args) {
  const auto& [rows, jobs] = args;
  if (rows == 0) return;
  const auto as_it_is = [](const LinearJob& job) {
    return job.x_prepared || job.weight->input_form() == InputForm::kF32;
  };
  if (std::all_of(jobs.begin(), jobs.end(), as_it_is)) return run_jobs(exec, rows, jobs);
  thread_local FloatBuffer buffer;
  thread_local std::vector<LinearJob> prepared;
  prepared.assign(jobs.begin(), jobs.end());
  prepare_inputs(exec, rows, prepared, buffer);
  run_jobs(exec, rows, prepared);
}

}  // namespace sluice::cpu_ops
