#include "cache/audit.h"

#include <fmt/format.h>

#include <vector>

namespace sluice {
namespace {

template <class Page>
Status count(const Pool<Page>& pool, std::span<const Page> pages, const char* what, std::vector<int>* counts) {
  for (const Page page : pages) {
    if (page.value < 0 || page.value >= pool.total()) {
      return internal_error(fmt::format("audit: {} page {} is outside its pool of {}", what, page.value, pool.total()));
    }
    ++(*counts)[static_cast<std::size_t>(page.value)];
  }
  return {};
}

template <class Page>
Status compare(const Pool<Page>& pool, const std::vector<int>& counts, const char* what) {
  int used = 0;
  for (int i = 0; i < pool.total(); ++i) {
    const Page page(i);
    const int held = counts[static_cast<std::size_t>(i)];
    used += held > 0;
    if (pool.owners(page) != held) {
      return internal_error(
          fmt::format("audit: {} page {} has {} owners but its count says {}", what, i, held, pool.owners(page)));
    }
    if (pool.is_free(page) != (held == 0)) {
      return internal_error(fmt::format("audit: {} page {} with {} owners is{} in the free set", what, i, held,
                                        pool.is_free(page) ? "" : " not"));
    }
  }
  if (pool.free() + used != pool.total()) {
    return internal_error(
        fmt::format("audit: {} pages: {} free + {} used, expected {} in all", what, pool.free(), used, pool.total()));
  }
  return {};
}

Status check_sequence(const PageGeometry& geometry, const SequenceState& sequence) {
  const Position p = sequence.position();
  const int rows = sequence.reserved_rows();
  const int latents = geometry.latent_pages(p + rows);
  const int windows = !geometry.has_windows ? 0
                      : rows > 0            ? geometry.window_pages(p, rows)
                                            : std::max(0, blocks_for(p) - geometry.first_window_block(p));
  const auto found_latents = static_cast<int>(sequence.latent_pages().size());
  const auto found_windows = static_cast<int>(sequence.window_pages().size());
  if (found_latents == latents && found_windows == windows &&
      sequence.first_window_block() == geometry.first_window_block(p)) {
    return {};
  }
  return internal_error(
      fmt::format("audit: the sequence in state slot {} at position {} (+{} rows): expected {} latent and {} window "
                  "pages from block {}, found "
                  "{} and {} from block {}",
                  sequence.slot().value, p, rows, latents, windows, geometry.first_window_block(p), found_latents,
                  found_windows, sequence.first_window_block()));
}

}  // namespace

Status audit(const CachePools& pools, std::span<const SequenceState> sequences) {
  std::vector<int> latents(static_cast<std::size_t>(pools.latents().total()), 0);
  std::vector<int> windows(static_cast<std::size_t>(pools.windows().total()), 0);
  std::vector<int> slots(static_cast<std::size_t>(pools.slots().total()), 0);
  for (const SequenceState& sequence : sequences) {
    if (!sequence.is_open()) continue;
    SLUICE_RETURN_IF_ERROR(check_sequence(pools.geometry(), sequence));
    SLUICE_RETURN_IF_ERROR(count<LatentPage>(pools.latents(), sequence.latent_pages(), "latent", &latents));
    SLUICE_RETURN_IF_ERROR(count<WindowPage>(pools.windows(), sequence.window_pages(), "window", &windows));
    const StateSlot slot = sequence.slot();
    SLUICE_RETURN_IF_ERROR(count<StateSlot>(pools.slots(), {&slot, 1}, "state", &slots));
  }
  SLUICE_RETURN_IF_ERROR(compare(pools.latents(), latents, "latent"));
  SLUICE_RETURN_IF_ERROR(compare(pools.windows(), windows, "window"));
  return compare(pools.slots(), slots, "state");
}

}  // namespace sluice
