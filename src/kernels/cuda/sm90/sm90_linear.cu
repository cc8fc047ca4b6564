// linear (kernels/ops/linear.h) and project (kernels/ops/project.h) of the profile sm90. Weights in strips have the
// order of kernels/cuda/strip_layout.h, FP8 ones in tiles that of kernels/cuda/fp8_layout.h, and all others that of the
// headers.
// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>
#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/composed/composed_rows.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/sm90/fp8_products.h"
#include "kernels/cuda/sm90/sm90_ops.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

// Stages rows in the form of the kernels of strips: bf16, contiguous, each row followed by zeros. A thread has 8
// values.
struct StageRows {
  static constexpr int kThreads = 1, kMost = kMostStripProducts;
  Staging all[kMost];
  std::int32_t begin[kMost];  // the first team of each entry of `all`
  std::int32_t count = 0;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    int of = 0;
    while (of + 1 < count && team.index >= begin[of + 1]) ++of;
    const StagedRows& rows = all[of].from;
    const int index = team.index - begin[of], pieces = rows.padded() / 8;
    const int row = index / pieces, first = index % pieces * 8;
    const std::ptrdiff_t at = (rows.x_rows != nullptr ? rows.x_rows[row] : row) * rows.ldx;
    std::uint16_t values[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int k = first + i;
      if (k >= rows.in) {
        values[i] = 0;
      } else if (rows.rounds) {
        values[i] = static_cast<std::uint16_t>(rounded_to_fp8(rows, at, k));
      } else if (rows.prepared) {
        values[i] = reinterpret_cast<const std::uint16_t*>(rows.x + at)[k];
      } else {
        values[i] = to_bf16(rows.x[at + k]).bits;
      }
    }
    auto* words = reinterpret_cast<uint4*>(all[of].to) + index;
    const auto pair = [&](int i) {
      return static_cast<std::uint32_t>(values[i]) | static_cast<std::uint32_t>(values[i + 1]) << 16;
    };
    *words = {pair(0), pair(2), pair(4), pair(6)};
  }
};

// A thread has eight values, and sixteen threads have a block.
struct RoundRowsToFp8 {
  static constexpr int kThreads = 16;
  std::uint16_t* x;
  int in, blocks;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int first = team.index % blocks * kFp8Inputs + static_cast<int>(threadIdx.x) % kThreads * 8;
    const bool has = first < in;
    auto* at = reinterpret_cast<uint4*>(x + static_cast<std::ptrdiff_t>(team.index / blocks) * in + first);
    const uint4 pairs = has ? *at : uint4{};
    const std::uint32_t words[4] = {pairs.x, pairs.y, pairs.z, pairs.w};
    float values[8];
    cuda_ops::PerThread<float, kThreads> largest{1e-4F};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      values[i] = std::bit_cast<float>(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xFFFF0000U);
      largest.value = fmaxf(largest.value, std::fabs(values[i]));
    }
    cuda_ops::max16(team, largest);
    const float scale = pow2_ceil(largest.value * (1.0F / 448.0F));
    const auto value = [&](int i) -> std::uint32_t {
      return to_bf16(e4m3_to_float(float_to_e4m3(values[i] / scale)) * scale).bits;
    };
    const auto pair = [&](int i) { return value(i) | value(i + 1) << 16; };
    if (has) *at = {pair(0), pair(2), pair(4), pair(6)};
  }
};

// Where a job's y goes as bf16, too: rows of `ld` values. Null: it is not wanted.
struct Rounded {
  std::uint16_t* to = nullptr;
  std::ptrdiff_t ld = 0;
};
struct StripJob : LinearJob {
  Rounded rounded;
};

// Jobs of strips that read rows as they are or as they were staged.
class StagedJobs {
 public:
  StagedJobs(int rows, std::span<const StripJob> jobs) : rows_(rows) {
    for (const StripJob& job : jobs) {
      Job staged{.job = &job, .rows = staged_rows(job)};
      if (!staged.rows.in_place()) {
        const auto known =
            std::ranges::find_if(jobs_, [&](const Job& j) { return j.place >= 0 && j.rows == staged.rows; });
        staged.place = known != jobs_.end() ? known->place : static_cast<std::ptrdiff_t>(row_values_);
        if (known == jobs_.end()) row_values_ += static_cast<std::size_t>(staged.rows.padded());
      }
      jobs_.push_back(staged);
    }
  }

  void run(const Exec& exec) {
    int piece = rows_;
    const std::size_t row_bytes = row_values_ * sizeof(std::uint16_t);
    while (piece > 1 && static_cast<std::size_t>(piece) * row_bytes > cuda_ops::workspace_bytes(exec))
      piece = (piece + 1) / 2;
    for (int first = 0; first < rows_; first += piece) run(exec, first, std::min(piece, rows_ - first));
  }

 private:
  struct Job {
    const StripJob* job;
    StagedRows rows;
    std::ptrdiff_t place = -1;  // its place in a staged row, in values; -1: not staged
  };

  void run(const Exec& exec, int first, int rows) {
    std::byte* memory =
        row_values_ > 0 ? cuda_ops::workspace(exec, static_cast<std::size_t>(rows) * row_values_ * 2) : nullptr;
    std::vector<StripProduct> products;
    std::vector<Staging> stagings;
    std::ptrdiff_t staged = 0;  // values of a staged row that are already staged
    for (const Job& job : jobs_) {
      const StagedRows from = job.rows.from(first);
      StripProduct product = strip_product(*job.job->weight, job.job->y + first * job.job->ldy, job.job->ldy);
      if (const Rounded& rounded = job.job->rounded; rounded.to != nullptr) {
        product.rounded = rounded.to + first * rounded.ld, product.ld_rounded = rounded.ld;
      }
      if (job.place < 0) {
        product.x = reinterpret_cast<const std::uint16_t*>(from.x);
        product.ldx = 2 * from.ldx;
        product.x_rows = from.x_rows;
      } else {
        auto* to = reinterpret_cast<std::uint16_t*>(memory) + job.place * rows;
        if (job.place >= staged) {
          stagings.push_back({from, to});
          staged = job.place + from.padded();
        }
        product.x = to;
        product.ldx = from.padded();
      }
      products.push_back(product);
    }
    stage_rows(exec, rows, stagings);
    StripRows of_strips = StripRows::of(rows);
    of_strips.workspace_used = (static_cast<std::size_t>(rows) * row_values_ * 2 + 255) / 256 * 256;
    multiply_strips(exec, of_strips, products);
  }

  static StagedRows staged_rows(const LinearJob& job) {
    return {job.x, job.ldx, job.x_rows, job.weight->in(), job.x_prepared,
            !job.x_prepared && job.weight->input_form() == InputForm::kFp8};
  }

  std::vector<Job> jobs_;
  int rows_;
  std::size_t row_values_ = 0;
};

}  // namespace

bool in_strips(const LinearWeight& weight) {
  const InputForm form = weight.input_form();  // in strips MXFP4 multiplies kBf16 or kFp8, others kBf16 only
  const bool rounds = form == InputForm::kFp8 && weight.view().format == WeightFormat::kMxfp4;
  return (form == InputForm::kBf16 || rounds) && StripLinear::takes(weight.view());
}

StripProduct strip_product(const LinearWeight& weight, float* y, std::ptrdiff_t ldy) {
  StripProduct product{.weight = StripLinear(weight.view()), .data = weight.packed(), .y = y, .ldy = ldy};
  SLUICE_CHECK(product.weight.bytes() == weight.packed_bytes(), "a weight packed by sm90_linear_packing()");
  return product;
}

void round_rows_to_fp8(const Exec& exec, std::int64_t rows, int in, std::uint16_t* x) {
  const int blocks = (in + kFp8Inputs - 1) / kFp8Inputs;
  cuda_ops::launch(exec, rows * blocks, RoundRowsToFp8{x, in, blocks});
}

void stage_rows(const Exec& exec, int rows, std::span<const Staging> all) {
  for (; !all.empty(); all = all.subspan(std::min<std::size_t>(all.size(), StageRows::kMost))) {
    StageRows kernel{};
    std::int32_t teams = 0;
    for (const Staging& staging : all.first(std::min<std::size_t>(all.size(), StageRows::kMost))) {
      kernel.all[kernel.count] = staging, kernel.begin[kernel.count++] = teams;
      teams += rows * (staging.from.padded() / 8);
    }
    cuda_ops::launch(exec, teams, kernel);
  }
}

// Multiplies products of few rows of the two kinds that stand next to each other in models in one launch, as a kernel
// costs more than its products. Removes them from the list.
static void multiply_two_kinds(const Exec& exec, const StripRows& rows, std::vector<StripProduct>& products) {
  if (rows.kernel_rows != kFewRows || rows.group_count != 0) return;
  std::vector<StripProduct> fp8, bf16;
  for (const StripProduct& product : products) {
    if (product.weight.kind == StripKind::kFp8) fp8.push_back(product);
    if (product.weight.kind == StripKind::kBf16) bf16.push_back(product);
  }
  if (fp8.empty() || bf16.empty() || std::max(fp8.size(), bf16.size()) > kMostStripProducts) return;
  multiply_few_of_two(exec, rows, fp8, bf16);
  std::erase_if(products, [](const StripProduct& product) {
    return product.weight.kind == StripKind::kFp8 || product.weight.kind == StripKind::kBf16;
  });
}

// True if blocks of many rows would leave most processors idle. Then small teams, which read each weight once for
// sixteen rows, are faster.
static bool few_blocks(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products) {
  constexpr int kStripsOfBlock = 8, kShareOfProcessors = 6;
  int blocks = 0;
  for (const StripProduct& product : products) {
    const int segments = product.weight.segments;
    const int cluster = segments == 2 || segments == 4 || segments == 8 ? segments : 1;
    blocks += (product.weight.strips + kStripsOfBlock - 1) / kStripsOfBlock * cluster;
  }
  return rows.group_count == 0 && rows.cut == StripRows::Cut::kAny && rows.rows <= kManyRows &&
         kShareOfProcessors * blocks <= cuda_ops::processors(exec);
}

void multiply_strips(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products) {
  std::vector<StripProduct> left(products.begin(), products.end());
  multiply_two_kinds(exec, rows, left);
  while (!left.empty()) {
    std::vector<StripProduct> together, others;
    for (const StripProduct& product : left) {
      const bool same = product.weight.kind == left[0].weight.kind && together.size() < kMostStripProducts;
      (same ? together : others).push_back(product);
    }
    if (rows.kernel_rows < kManyRows) {
      multiply_few(exec, rows, together);
    } else if (rows.group_count == 0 &&
               (rows.cut == StripRows::Cut::kAny ? fills_tiles(exec, rows, together) : rows.kernel_rows == kTileRows)) {
      multiply_tiles(exec, rows, together);
    } else if (!multiply_segments(exec, rows, together)) {
      StripRows left_over = rows;
      left_over.kernel_rows = few_blocks(exec, rows, together) ? kSomeRows : kManyRows;
      left_over.kernel_rows == kSomeRows ? multiply_few(exec, left_over, together)
                                         : multiply_many(exec, left_over, together);
    }
    left = std::move(others);
  }
}

namespace {

// rounded: for each job, or for none.
void multiply_jobs(const Exec& exec, const LinearArgs& args, std::span<const Rounded> rounded) {
  if (args.rows == 0) return;
  std::vector<StripJob> strips;
  std::vector<LinearJob> tiles, others;
  for (std::size_t i = 0; i < args.jobs.size(); ++i) {
    const LinearJob& job = args.jobs[i];
    if (in_strips(*job.weight)) {
      strips.push_back({job, rounded.empty() ? Rounded{} : rounded[i]});
    } else {
      (in_fp8_tiles(*job.weight) ? tiles : others).push_back(job);
    }
  }
  if (!others.empty()) cuda_ops::linear(exec, {args.rows, others});
  if (!tiles.empty()) fp8_linear(exec, args.rows, tiles);
  if (!strips.empty()) StagedJobs(args.rows, strips).run(exec);
}

// True if the kernels that multiply it round y to bf16.
bool rounds(int rows, const Product& product) {
  return rows <= kSomeRows && product.y.form(InputForm::kBf16) != nullptr && product.y.parts == 1 &&
         product.bias == nullptr && product.addend == nullptr && product.norm == nullptr &&
         std::ranges::all_of(product.weights, in_strips);
}

}  // namespace

void linear(const Exec& exec, const LinearArgs& args) {
  multiply_jobs(exec, args, {});
}

void project(const Exec& exec, const ProjectArgs& args) {
  std::vector<LinearJob> jobs;
  composed::products_of(args, jobs);
  std::vector<Rounded> rounded;
  ProjectArgs left = args;  // args with only the forms that their kernels do not make
  for (Product& product : std::span(left.products.data(), static_cast<std::size_t>(args.count))) {
    float*& form = product.y.forms[static_cast<std::size_t>(InputForm::kBf16)];
    const bool here = rounds(args.rows, product);
    for (std::size_t i = 0; i < product.weights.size(); ++i) {
      Rounded to;
      if (here) {
        to.to = reinterpret_cast<std::uint16_t*>(form) + static_cast<std::ptrdiff_t>(i) * product.y_step;
        to.ld = 2 * input_floats(InputForm::kBf16, product.y.columns);
      }
      rounded.push_back(to);
    }
    if (here) form = nullptr;
  }
  multiply_jobs(exec, {args.rows, jobs}, rounded);
  for (int i = 0; i < left.count; ++i) {
    composed::finish_product(exec, args.rows, left.products[static_cast<std::size_t>(i)]);
  }
}

}  // namespace sluice::cuda_sm90
