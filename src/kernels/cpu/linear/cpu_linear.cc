// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "base/aligned.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear/linear_split.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::cpu_ops {

void run_outputs(const LinearKernels& kernels, const LinearJob& job, int rows, int begin, int end) {
  if (!job.weight->packed_when_used()) return kernels.run(job, rows, begin, end);
  // With few rows a packed tile stays in L2 until its thread has used it. With many rows a tile has more outputs, which
  // share the copies of inputs that kernels make.
  constexpr int kFewRows = 16, kOutputsForMany = 256;
  const int step = rows <= kFewRows ? kernels.packing.out_tile : std::max(kernels.packing.out_tile, kOutputsForMany);
  thread_local AlignedBytes packed;
  for (int first = begin; first < end; first += step) {
    const int count = std::min(step, end - first);
    const WeightView slice = slice_rows(job.weight->view(), first, count);
    const std::size_t bytes = kernels.packing.packed_bytes(slice);
    if (packed.size() < bytes) packed = AlignedBytes(bytes);
    kernels.packing.pack(slice, 0, count, packed.data());
    const LinearWeight weight =
        LinearWeight::make(slice, job.weight->input_form(), {.packed = packed.data(), .packed_bytes = bytes});
    LinearJob part = job;
    part.weight = &weight;
    part.y += first;
    kernels.run(part, rows, 0, count);
  }
}

namespace {

// Prepares the rows of `job`; row r is job's row r.
void prepare_rows_of(const Exec& exec, const LinearJob& job, InputForm form, int rows, int in, float* to,
                     std::ptrdiff_t ldto) {
  constexpr int kFloatsPerPiece = 8 << 10;  // a few microseconds of work
  const int step = std::max(1, kFloatsPerPiece / std::max(in, 1));
  auto prepare = [&](int piece, int) {
    for (int r = piece * step; r < std::min(rows, (piece + 1) * step); ++r) {
      exec.kernels->prepare_inputs(form, in, job.x_row(r), to + r * ldto);
    }
  };
  exec.pool->run((rows + step - 1) / step, std::ref(prepare));
}

constexpr int kPreparedFloats = 8 << 10;  // floats that one piece makes, in a few microseconds
constexpr int kTileSegment = 512;         // inputs of 16 rows that one piece brings into tiles

// Inputs that are converted to another form, once for all jobs that share them.
struct MadeInput {
  LinearJob original;
  float* to = nullptr;         // where the converted rows go, or null
  std::byte* tiles = nullptr;  // where the inputs go as tiles, or null
};
struct InputPiece {
  int input, row, k;
};

// The jobs of a call and their converted inputs. The fork's first pieces convert inputs, and its products wait for
// them.
class PreparedJobs {
 public:
  void prepare(const Exec& exec, int rows, std::span<const LinearJob> given) {
    exec_ = &exec, rows_ = rows;
    jobs_.assign(given.begin(), given.end());
    input_of_.assign(given.size(), -1);
    inputs_.clear();
    pieces_.clear();
    std::size_t floats = 0;
    for (const LinearJob& job : given) floats += floats_of(job);
    float* next = buffer_.get(floats);
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (floats_of(given[i]) > 0) next += make(given, i, next);
    }
    if (left_.size() < inputs_.size()) left_ = std::vector<std::atomic<int>>(inputs_.size() + kSpare);
    for (auto& left : left_) left.store(0, std::memory_order_relaxed);
    for (const InputPiece& piece : pieces_) left_[static_cast<std::size_t>(piece.input)].fetch_add(1);
  }

  std::span<const LinearJob> jobs() const { return jobs_; }
  int pieces() const { return static_cast<int>(pieces_.size()); }

  void run(int index) {
    const InputPiece& piece = pieces_[static_cast<std::size_t>(index)];
    const MadeInput& input = inputs_[static_cast<std::size_t>(piece.input)];
    input.tiles != nullptr ? put_tiles(input, piece) : put_rows(input, piece);
    left_[static_cast<std::size_t>(piece.input)].fetch_sub(1, std::memory_order_release);
  }
  // Pieces are begun in order, so a thread that waits here waits for pieces that other threads are computing.
  void wait_for(int job) const {
    const int input = input_of_[static_cast<std::size_t>(job)];
    if (input < 0) return;
    constexpr int kSpinsBetweenYields = 1024;
    for (int spin = 1; left_[static_cast<std::size_t>(input)].load(std::memory_order_acquire) != 0; ++spin) {
      __builtin_ia32_pause();
      if (spin % kSpinsBetweenYields == 0) std::this_thread::yield();
    }
  }

 private:
  static constexpr std::size_t kSpare = 16;

  bool wants_tiles(const LinearJob& job) const { return exec_->kernels->linear.wants_tiles(*job.weight, rows_); }
  // Returns the floats of a job's converted inputs, in whole cache lines; 0: they are given in the form that the weight
  // multiplies.
  std::size_t floats_of(const LinearJob& job) const {
    if (wants_tiles(job)) return tile_input_bytes(rows_, job.weight->in()) / sizeof(float);
    const InputForm form = job.weight->input_form();
    if (job.x_prepared || form == InputForm::kF32) return 0;
    return (static_cast<std::size_t>(rows_) * static_cast<std::size_t>(input_floats(form, job.weight->in())) + 15) /
           16 * 16;
  }
  bool share(const LinearJob& a, const LinearJob& b) const {
    return a.x == b.x && a.ldx == b.ldx && a.x_rows == b.x_rows && a.x_prepared == b.x_prepared &&
           a.weight->in() == b.weight->in() && a.weight->input_form() == b.weight->input_form() &&
           wants_tiles(a) == wants_tiles(b);
  }

  // Points job i at its converted inputs, which go to `next` unless an earlier job has the same. Returns the number of
  // floats used.
  std::ptrdiff_t make(std::span<const LinearJob> given, std::size_t i, float* next) {
    LinearJob& job = jobs_[i];
    std::size_t taken = 0;
    const auto same =
        std::ranges::find_if(inputs_, [&](const MadeInput& made) { return share(made.original, given[i]); });
    input_of_[i] = static_cast<int>(same - inputs_.begin());
    if (same == inputs_.end()) {
      MadeInput input{.original = given[i]};
      if (wants_tiles(job)) {
        input.tiles = reinterpret_cast<std::byte*>(next);
      } else {
        input.to = next;
      }
      inputs_.push_back(input);
      add_pieces(input_of_[i]);
      taken = floats_of(job);
    }
    const MadeInput& made = inputs_[static_cast<std::size_t>(input_of_[i])];
    if (made.tiles != nullptr) {
      job.x_tiles = made.tiles;
    } else {
      job.x = made.to, job.ldx = input_floats(job.weight->input_form(), job.weight->in());
      job.x_rows = nullptr, job.x_prepared = true;
    }
    return static_cast<std::ptrdiff_t>(taken);
  }

  void add_pieces(int index) {
    const MadeInput& input = inputs_[static_cast<std::size_t>(index)];
    const int in = input.original.weight->in();
    if (input.tiles == nullptr) {
      for (int row = 0; row < rows_; row += rows_per_piece(in)) pieces_.push_back({index, row, 0});
      return;
    }
    for (int row = 0; row < rows_; row += kTileRows) {
      for (int k = 0; k < in; k += kTileSegment) pieces_.push_back({index, row, k});
    }
  }
  static int rows_per_piece(int in) { return std::max(1, kPreparedFloats / std::max(in, 1)); }

  void put_rows(const MadeInput& input, const InputPiece& piece) const {
    const LinearWeight& weight = *input.original.weight;
    const InputForm form = weight.input_form();
    const std::ptrdiff_t width = input_floats(form, weight.in());
    for (int r = piece.row; r < std::min(rows_, piece.row + rows_per_piece(weight.in())); ++r) {
      exec_->kernels->prepare_inputs(form, weight.in(), input.original.x_row(r), input.to + r * width);
    }
  }

  // Puts inputs of 16 rows, from input piece.k on, into tiles; they may be prepared or floats.
  void put_tiles(const MadeInput& input, const InputPiece& piece) const {
    const LinearJob& job = input.original;
    const int in = job.weight->in(), k = piece.k, count = std::min(kTileSegment, in - k);
    const int end = std::min(rows_, piece.row + kTileRows);
    float prepared[kTileSegment / 2];
    for (int r = piece.row; r < end; ++r) {
      const float* x = inputs_at(job, r, k);
      if (r + 1 < end) ask_for_inputs(job, r + 1, k, count, input.tiles);
      if (!job.x_prepared) {
        exec_->kernels->prepare_inputs(InputForm::kTiles, count, x, prepared);
        x = prepared;
      }
      put_tile_inputs(x, r, k, count, in, input.tiles);
    }
  }
  static const float* inputs_at(const LinearJob& job, int r, int k) {
    return job.x_row(r) + (job.x_prepared ? k / 2 : k);
  }
  // Fetches a row into the caches while the row before is converted: rows lie too far apart for the processor to
  // foresee it.
  static void ask_for_inputs(const LinearJob& job, int r, int k, int count, const std::byte* tiles) {
    constexpr int kLineFloats = 16;
    const float* x = inputs_at(job, r, k);
    for (int i = 0; i < (job.x_prepared ? count / 2 : count); i += kLineFloats) __builtin_prefetch(x + i);
    const std::byte* to = tiles + tile_line_at(r, k, job.weight->in());
    for (int i = 0; i < count; i += kSliceInputs, to += kTileBytes) __builtin_prefetch(to, 1);
  }

  const Exec* exec_ = nullptr;
  int rows_ = 0;
  std::vector<LinearJob> jobs_;
  // By job: its entry in the list of converted inputs; -1: the job reads its inputs as given.
  std::vector<int> input_of_;
  std::vector<MadeInput> inputs_;
  std::vector<InputPiece> pieces_;
  std::vector<std::atomic<int>> left_;  // for each input, the pieces that are not yet converted
  FloatBuffer buffer_;
};

}  // namespace

void prepare_rows(const Exec& exec, const PrepareRowsArgs& args) {
  const LinearJob job{.x = args.x, .ldx = args.ldx};
  prepare_rows_of(exec, job, args.form, args.rows, args.in, args.to, args.ldto);
}

void linear(const Exec& exec, const LinearArgs& args) {
  if (args.rows == 0) return;
  thread_local PreparedJobs of_thread;
  PreparedJobs& prepared = of_thread;  // a reference, since a pool's thread would name its own thread_local
  const int rows = args.rows;
  prepared.prepare(exec, rows, args.jobs);
  const std::span<const LinearJob> jobs = prepared.jobs();
  const LinearKernels& kernels = exec.kernels->linear;
  split_linear(
      *exec.pool, kernels.packing.out_tile, static_cast<int>(jobs.size()),
      [&](int i) {
        const LinearJob& job = jobs[static_cast<std::size_t>(i)];
        const LinearWeight& weight = *job.weight;
        const int unit = exec.pool->threads() > 1 ? kernels.row_unit(weight) : 0;
        return LinearExtent{rows, weight.out(), weight.in(), job.x_tiles != nullptr, unit};
      },
      [&](const LinearPiece& piece) {
        prepared.wait_for(piece.item);
        run_outputs(kernels, rows_from(jobs[static_cast<std::size_t>(piece.item)], piece.row_begin),
                    piece.row_end - piece.row_begin, piece.out_begin, piece.out_end);
      },
      prepared.pieces(), [&](int index) { prepared.run(index); });
}

}  // namespace sluice::cpu_ops
