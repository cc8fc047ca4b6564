// linear (kernels/linear.h): the products of a call that share a weight format and a cut are one launch.
#include <algorithm>
#include <vector>

#include "kernels/cuda/shared/linear_variants.h"
#include "kernels/linear.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct PackedJob {
  CudaLinear weight;
  const float* x;
  const std::int32_t* x_rows;
  float* y;
  std::ptrdiff_t ldx, ldy;
  int first_team, out_tiles;
};

constexpr int kMostJobs = 24;  // of a launch

template <class Weights, int kRows>
struct Linear {
  static constexpr int kThreads = kLinearThreads;
  PackedJob jobs[kMostJobs];
  LinearCut cut;
  InputForm form;
  int count, rows;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    int i = 0;
    while (i + 1 < count && team.index >= jobs[i + 1].first_team) ++i;
    const PackedJob& job = jobs[i];
    const int tile = team.index - job.first_team, first = tile / job.out_tiles * kRows;
    const auto x_row = [&](int r) {
      return job.x + (job.x_rows != nullptr ? job.x_rows[first + r] : first + r) * job.ldx;
    };
    const auto y_row = [&](int r) { return job.y + (first + r) * job.ldy; };
    LinearTile<Weights, kRows, decltype(x_row), decltype(y_row)>(team, job.weight, cut, form, x_row, y_row)
        .run(tile % job.out_tiles * cut.outputs, rows - first < kRows ? rows - first : kRows);
  }
};

template <class Weights, int kRows>
void launch_jobs(const Exec& exec, int rows, const std::vector<CudaLinear>& weights, const std::vector<LinearJob>& jobs,
                 const LinearCut& cut) {
  for (std::size_t from = 0; from < jobs.size(); from += kMostJobs) {
    Linear<Weights, kRows> kernel{};
    kernel.cut = cut;
    kernel.form = jobs[from].weight->input_form();
    kernel.rows = rows;
    kernel.count = static_cast<int>(std::min<std::size_t>(kMostJobs, jobs.size() - from));
    int teams = 0;
    for (int i = 0; i < kernel.count; ++i) {
      const LinearJob& job = jobs[from + static_cast<std::size_t>(i)];
      const CudaLinear& weight = weights[from + static_cast<std::size_t>(i)];
      const int out_tiles = (weight.out + cut.outputs - 1) / cut.outputs;
      kernel.jobs[i] = {weight, job.x, job.x_rows, job.y, job.ldx, job.ldy, teams, out_tiles};
      teams += out_tiles * ((rows + kRows - 1) / kRows);
    }
    launch(exec, teams, kernel, cut.shared_bytes(kernel.jobs[0].weight.block));
  }
}

}  // namespace

void linear(const Exec& exec, const LinearArgs& args) {
  std::vector<LinearJob> left(args.jobs.begin(), args.jobs.end());
  if (args.rows == 0) return;
  while (!left.empty()) {
    const CudaLinear first = packed_linear(*left[0].weight);
    const InputForm form = left[0].weight->input_form();
    const LinearCut cut = linear_cut(first, form, args.rows);
    std::vector<LinearJob> jobs, others;
    std::vector<CudaLinear> weights;
    for (const LinearJob& job : left) {
      SLUICE_CHECK(!job.x_prepared, "inputs of CUDA kernels are floats");
      const CudaLinear weight = packed_linear(*job.weight);
      const bool together = job.weight->input_form() == form && same_variant(weight, first) &&
                            weight.block == first.block && linear_cut(weight, form, args.rows) == cut;
      (together ? jobs : others).push_back(job);
      if (together) weights.push_back(weight);
    }
    with_variant(first, form, [&]<class Weights>(Weights) {
      if (args.rows == 1) {
        launch_jobs<Weights, 1>(exec, args.rows, weights, jobs, cut);
      } else {
        launch_jobs<Weights, kManyRows>(exec, args.rows, weights, jobs, cut);
      }
    });
    left = std::move(others);
  }
}

}  // namespace sluice::SLUICE_CUDA_OPS
