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

// What one thread brings into tiles at a time: 16 rows from `row` on and so many inputs from `k` on.
constexpr int kTileSegment = 512;
struct TilePiece {
  const LinearJob* job;
  std::byte* tiles;
  int row, k;
};

// Row r is that of `job`.
void prepare_rows_of(const Exec& exec, const LinearJob& job, InputForm form, int rows, int in, float* to,
                     std::ptrdiff_t ldto) {
  constexpr int kFloatsPerPiece = 8 << 10;  // a few microseconds
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
        return LinearExtent{rows, weight.out(), weight.in(), jobs[static_cast<std::size_t>(i)].x_tiles != nullptr};
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
  const auto is_made = [&](const LinearJob& job) {  // or will be, as tiles
    return job.x_prepared || exec.kernels->linear.wants_tiles(*job.weight, rows);
  };
  for (const LinearJob& job : jobs)
    if (!is_made(job)) floats += static_cast<std::size_t>(rows) * static_cast<std::size_t>(row_floats(job));
  float* next = buffer.get(floats);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const InputForm form = jobs[i].weight->input_form();
    if (form == InputForm::kF32 || is_made(jobs[i])) continue;
    const LinearJob original = jobs[i];
    const int in = original.weight->in(), width = row_floats(original);
    prepare_rows_of(exec, original, form, rows, in, next, width);
    for (std::size_t j = i; j < jobs.size(); ++j) {
      LinearJob& job = jobs[j];
      if (job.x != original.x || job.ldx != original.ldx || job.x_rows != original.x_rows || is_made(job)) continue;
      if (job.weight->input_form() != form || job.weight->in() != in) continue;
      job.x = next;
      job.ldx = width;
      job.x_rows = nullptr;
      job.x_prepared = true;
    }
    next += static_cast<std::ptrdiff_t>(rows) * width;
  }
}

// Inputs [k, k + count) of rows [begin, end) of a job, prepared or not, as tiles.
void put_inputs(const Exec& exec, const LinearJob& job, int begin, int end, int k, int count, std::byte* tiles) {
  const int in = job.weight->in();
  float prepared[kTileSegment / 2];
  for (int r = begin; r < end; ++r) {
    const float* x = job.x_row(r) + (job.x_prepared ? k / 2 : k);
    if (!job.x_prepared) {
      exec.kernels->prepare_inputs(InputForm::kTiles, count, x, prepared);
      x = prepared;
    }
    put_tile_inputs(x, r, k, count, in, tiles);
  }
}

// Brings the inputs of the jobs whose kernels want them so into tiles, those of several jobs with the same x once, and
// points the jobs at them.
void make_tiles(const Exec& exec, int rows, std::span<LinearJob> jobs) {
  thread_local FloatBuffer buffer;
  thread_local std::vector<TilePiece> of_thread;
  std::vector<TilePiece>& pieces = of_thread;  // the threads of the pool read this one's
  const LinearKernels& kernels = exec.kernels->linear;
  std::size_t bytes = 0;
  for (const LinearJob& job : jobs) {
    if (kernels.wants_tiles(*job.weight, rows)) bytes += tile_input_bytes(rows, job.weight->in());
  }
  if (bytes == 0) return;
  auto* next = reinterpret_cast<std::byte*>(buffer.get(bytes / sizeof(float)));
  pieces.clear();
  for (LinearJob& job : jobs) {
    if (!kernels.wants_tiles(*job.weight, rows)) continue;
    const int in = job.weight->in();
    const auto same = std::find_if(jobs.data(), &job, [&](const LinearJob& other) {
      return other.x_tiles != nullptr && other.x == job.x && other.ldx == job.ldx && other.x_rows == job.x_rows &&
             other.x_prepared == job.x_prepared && other.weight->in() == in;
    });
    job.x_tiles = same != &job ? same->x_tiles : next;
    if (same != &job) continue;
    for (int row = 0; row < rows; row += kTileRows) {
      for (int k = 0; k < in; k += kTileSegment) pieces.push_back({&job, next, row, k});
    }
    next += tile_input_bytes(rows, in);
  }
  auto put = [&](int index, int) {
    const TilePiece& piece = pieces[static_cast<std::size_t>(index)];
    put_inputs(exec, *piece.job, piece.row, std::min(rows, piece.row + kTileRows), piece.k,
               std::min(kTileSegment, piece.job->weight->in() - piece.k), piece.tiles);
  };
  exec.pool->run(static_cast<int>(pieces.size()), std::ref(put));
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
  const auto as_tiles = [&](const LinearJob& job) { return exec.kernels->linear.wants_tiles(*job.weight, rows); };
  if (std::all_of(jobs.begin(), jobs.end(), as_it_is) && std::none_of(jobs.begin(), jobs.end(), as_tiles)) {
    return run_jobs(exec, rows, jobs);
  }
  thread_local FloatBuffer buffer;
  thread_local std::vector<LinearJob> prepared;
  prepared.assign(jobs.begin(), jobs.end());
  prepare_inputs(exec, rows, prepared, buffer);
  make_tiles(exec, rows, prepared);
  run_jobs(exec, rows, prepared);
}

}  // namespace sluice::cpu_ops
