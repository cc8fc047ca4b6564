// Used by verify.
#include "verify/law_runner.h"

#include <fmt/format.h>

namespace sluice {

Status check_at_rest(const Runner& runner) {
  SLUICE_RETURN_IF_ERROR(runner.audit());
  const CachePools& pools = runner.pools();
  if (pools.latents().used() + pools.windows().used() + pools.slots().used() > 0) {
    return internal_error(fmt::format("with no sequence left {} latent and {} window pages and {} places are in use",
                                      pools.latents().used(), pools.windows().used(), pools.slots().used()));
  }
  if (runner.swap_space().bytes_used() > 0) {
    return internal_error(
        fmt::format("with no sequence left {} bytes of swap space are in use", runner.swap_space().bytes_used()));
  }
  return {};
}

Status use_threads(Runner& runner, int threads) {
  if (runner.threads() != threads) runner.set_threads(threads);
  if (runner.threads() == threads) return {};
  return internal_error(fmt::format("asked for {} threads, the runner has {}", threads, runner.threads()));
}

std::uint64_t evictions(const Runner& runner) {
  return runner.pools().latents().evicted_count() + runner.pools().windows().evicted_count();
}

}  // namespace sluice
