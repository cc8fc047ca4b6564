// compress (kernels/ops/compressor.h): each thread has a channel of a window.
// Used by store_kv.cu.
#include "kernels/cuda/shared/window_pool.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct Compress {
  static constexpr int kThreads = 1;
  WindowPool pool;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int dim = pool.args.dim, channel = team.index % dim;
    const WindowPool::Ended ended = pool.ended_by(team.index / dim);
    if (!ended.any) return;
    pool.add_channel(ended, channel, [&](float value) {
      pool.args.pooled[static_cast<std::ptrdiff_t>(ended.closed) * dim + channel] = value;
    });
  }
};

}  // namespace

void compress(const Exec& exec, const CompressArgs& args) {
  launch(exec, std::int64_t{args.step->rows()} * args.dim, Compress{window_pool(args)});
}

}  // namespace sluice::SLUICE_CUDA_OPS
