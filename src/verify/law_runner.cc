// Used by verify.
#include "verify/law_runner.h"

#include <fmt/format.h>

namespace sluice {

Status check_at_rest(const Runner& runner) {
  SLUICE_RETURN_IF_ERROR(runner.sequences().audit());
  const CachePools& pools = runner.cache().pools();
  if (pools.latents().used() + pools.windows().used() + pools.slots().used() > 0) {
    return internal_error(fmt::format("with no sequence left {} latent and {} window pages and {} places are in use",
                                      pools.latents().used(), pools.windows().used(), pools.slots().used()));
  }
  if (runner.cache().swap_space().bytes_used() > 0) {
    return internal_error(fmt::format("with no sequence left {} bytes of swap space are in use",
                                      runner.cache().swap_space().bytes_used()));
  }
  return {};
}

Status use_threads(Runner& runner, int threads) {
  if (runner.threads().count() != threads) runner.threads().set(threads);
  if (runner.threads().count() == threads) return {};
  return internal_error(fmt::format("asked for {} threads, the runner has {}", threads, runner.threads().count()));
}

std::uint64_t evictions(const Runner& runner) {
  return runner.cache().pools().latents().evicted_count() + runner.cache().pools().windows().evicted_count();
}

}  // namespace sluice
