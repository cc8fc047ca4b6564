// Used by cache, cli, engine, sim and verify.
#include "cache/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "cache/pages/free_set.h"
#include "cache/pages/page_geometry.h"

namespace sluice {
namespace {

constexpr int kTypicalTokens = 2048;
// Bytes of alignment for the planes' arrays and the mapping, and of the initial state that others are copied from.
std::size_t slack_bytes(const CacheLayout& layout) {
  return layout.planes.size() * 64 + 4096 + layout.open_bytes();
}

struct Sizes {
  std::size_t latent_page, window_page, open;
  int steady, open_states;

  std::size_t fixed(int sequences, int extra) const {
    return (static_cast<std::size_t>(sequences) + 1) * states() + window_pages(sequences, extra) * window_page;
  }
  std::size_t states() const { return static_cast<std::size_t>(open_states) * open; }  // bytes of a sequence's states
  std::size_t window_pages(int sequences, int extra) const {
    return window_page == 0 ? 0
                            : static_cast<std::size_t>(sequences) * static_cast<std::size_t>(steady) +
                                  static_cast<std::size_t>(extra) + 1;
  }
};

// Returns the most sequences that leave `pages(s)` latent pages, one of which is the self-test's.
template <class Pages>
int sequences_within(const Sizes& sizes, int extra, std::size_t budget, int max_seqs, const Pages& pages) {
  int low = 0, high = max_seqs;  // bisects: more sequences need more memory
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    const std::size_t latents = std::max(pages(static_cast<std::size_t>(middle)), std::size_t{2}) * sizes.latent_page;
    const bool fits = sizes.fixed(middle, extra) + latents <= budget;
    (fits ? low : high) = fits ? middle : middle - 1;
  }
  return low;
}

int sequences_within(const Sizes& sizes, int extra, std::size_t budget, const MemoryRequest& request) {
  const auto blocks = static_cast<std::size_t>(blocks_for(request.max_model_len));
  const std::size_t typical = std::min(blocks, static_cast<std::size_t>(blocks_for(kTypicalTokens)));
  const int sure = sequences_within(sizes, extra, budget, request.max_seqs,
                                    [&](std::size_t sequences) { return sequences * typical; });
  if (sure == 0 || sizes.latent_page == 0) return sure;
  const std::size_t longest = std::min(blocks + 1, (budget - sizes.fixed(sure, extra)) / sizes.latent_page);
  const std::size_t each = std::min(blocks, std::size_t{2});
  return std::max(sure, sequences_within(sizes, extra, budget, request.max_seqs, [&](std::size_t sequences) {
                    return std::max(longest, sequences * each + 1);
                  }));
}

}  // namespace

std::string MemoryPlan::text() const {
  return fmt::format(
      "{:.1f} MiB for {} sequences: {} latent pages {:.1f} MiB, {} window pages {:.1f} MiB, open {:.1f} MiB",
      static_cast<double>(total_bytes()) / 1048576, sequences, latent_pages,
      static_cast<double>(latent_bytes) / 1048576, window_pages, static_cast<double>(window_bytes) / 1048576,
      static_cast<double>(open_bytes) / 1048576);
}

Result<MemoryPlan> plan_memory(const CacheLayout& layout, const MemoryRequest& request) {
  const PageGeometry geometry = PageGeometry::of(layout);
  const Sizes sizes{layout.latent_page_bytes(), layout.window_page_bytes(), layout.open_bytes(),
                    geometry.steady_window_pages(), 2 + request.draft_tokens};
  const std::size_t slack = slack_bytes(layout);
  const std::size_t least = sizes.fixed(1, 0) + 2 * sizes.latent_page + slack;
  if (request.budget_bytes < least) {
    return invalid_argument(fmt::format(
        "--kv-cache-memory: expected at least {} bytes, what one sequence of {} tokens needs with this model, found {}",
        least, kBlockTokens, request.budget_bytes));
  }
  const std::size_t budget = request.budget_bytes - slack;
  int extra = geometry.extra_window_pages(request.max_batched_tokens);
  int sequences = sequences_within(sizes, extra, budget, request);
  if (sequences == 0) {
    sequences = 1;
    const std::size_t least_fixed = sizes.fixed(1, 0);
    const std::size_t half = std::max(budget / 2, least_fixed) - least_fixed;
    const std::size_t spare = std::min(half, budget - least_fixed - 2 * sizes.latent_page);
    if (sizes.window_page > 0) {
      extra = static_cast<int>(std::min(static_cast<std::size_t>(extra), spare / sizes.window_page));
    }
  }

  MemoryPlan plan;
  plan.sequences = sequences;
  plan.window_pages = static_cast<int>(sizes.window_pages(sequences, extra));
  plan.open_states = sizes.open_states;
  plan.open_bytes = (static_cast<std::size_t>(sequences) + 1) * sizes.states();
  std::size_t rest = budget - static_cast<std::size_t>(plan.window_pages) * sizes.window_page - plan.open_bytes;
  if (request.prefix_caching && sizes.window_page > 0) {
    const std::size_t group = MemoryRequest::kLatentsPerCachedWindow * sizes.latent_page + sizes.window_page;
    const auto cached = static_cast<int>(std::min<std::size_t>(rest / group, FreeSet::kMaxSize / 2));
    plan.window_pages += cached;
    rest -= static_cast<std::size_t>(cached) * sizes.window_page;
  }
  plan.window_bytes = static_cast<std::size_t>(plan.window_pages) * sizes.window_page;
  if (sizes.latent_page > 0) {
    const std::size_t fillable =
        static_cast<std::size_t>(sequences) * static_cast<std::size_t>(blocks_for(request.max_model_len)) + 1;
    const std::size_t most =
        request.prefix_caching ? FreeSet::kMaxSize : std::min<std::size_t>(fillable, FreeSet::kMaxSize);
    plan.latent_pages = static_cast<int>(std::min(most, rest / sizes.latent_page));
    plan.latent_bytes = static_cast<std::size_t>(plan.latent_pages) * sizes.latent_page;
  }
  return plan;
}

}  // namespace sluice
