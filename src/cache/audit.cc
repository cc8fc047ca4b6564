// Used by engine/runner/open_sequences.cc and engine/step/stepper_audit.cc.
#include "cache/audit.h"

#include <fmt/format.h>

#include <boost/unordered/unordered_flat_map.hpp>
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
  for (int i = 0; i < pool.total(); ++i) {
    const int held = counts[static_cast<std::size_t>(i)];
    if (pool.owners(Page(i)) != held) {
      return internal_error(
          fmt::format("audit: {} page {} has {} owners but its count says {}", what, i, held, pool.owners(Page(i))));
    }
  }
  return pool.check().with_context(fmt::format("audit: {} pool", what));
}

Status check_counts(const PageGeometry& geometry, const SequenceState& sequence) {
  const Position p = sequence.position();
  const int rows = sequence.reserved_rows();
  const int latents = geometry.latent_pages(std::max(p + rows, sequence.shared())) + sequence.occupied();
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
                  "pages from block {}, found {} and {} from block {}",
                  sequence.slot().value, p, rows, latents, windows, geometry.first_window_block(p), found_latents,
                  found_windows, sequence.first_window_block()));
}

// A block of which a sequence holds an inserted page is computed, or came from the prefix cache.
template <class Page>
Status check_inserted(const Pool<Page>& pool, const SequenceState& sequence, const std::vector<Page>& pages, int first,
                      Position computed, const char* what) {
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const int block = first + static_cast<int>(i);
    if (!pool.inserted(pages[i]) || (block + 1) * kBlockTokens <= computed) continue;
    return internal_error(
        fmt::format("audit: {} page {}, block {} of the sequence in state slot {}, is inserted, but only {} of its "
                    "tokens are computed",
                    what, pages[i].value, block, sequence.slot().value, computed));
  }
  return {};
}

template <class Page>
Status check_digests(const PrefixCache& cache, const Pool<Page>& pool, int sample, std::uint64_t turn,
                     const char* what) {
  const int total = pool.total();
  for (int i = 0, found = 0; i < total && found < sample; ++i) {
    const auto start = static_cast<int>(turn * static_cast<std::uint64_t>(sample) % static_cast<std::uint64_t>(total));
    const Page page((start + i) % total);
    if (!pool.inserted(page)) continue;
    ++found;
    if (cache.digest_now(page) != cache.digest_at_publication(page)) {
      return internal_error(
          fmt::format("audit: {} page {} no longer has the bytes that were inserted", what, page.value));
    }
  }
  return {};
}

}  // namespace

Status audit(const CachePools& pools, std::span<const SequenceState> sequences, const PrefixCache* cache, int sample,
             std::uint64_t turn) {
  std::vector<int> latents(static_cast<std::size_t>(pools.latents().total()));
  std::vector<int> windows(static_cast<std::size_t>(pools.windows().total()));
  std::vector<int> slots(static_cast<std::size_t>(pools.slots().total()));
  for (const SequenceState& s : sequences) {
    if (!s.is_open()) continue;
    const StateSlot slot = s.slot();
    SLUICE_RETURN_IF_ERROR(count(pools.slots(), std::span(&slot, 1), "state", &slots));
    SLUICE_RETURN_IF_ERROR(count<LatentPage>(pools.latents(), s.latent_pages(), "latent", &latents));
    SLUICE_RETURN_IF_ERROR(count<WindowPage>(pools.windows(), s.window_pages(), "window", &windows));
    SLUICE_RETURN_IF_ERROR(check_counts(pools.geometry(), s));
    SLUICE_RETURN_IF_ERROR(check_inserted(pools.latents(), s, s.latent_pages(), 0, s.latents_end(), "latent"));
    SLUICE_RETURN_IF_ERROR(
        check_inserted(pools.windows(), s, s.window_pages(), s.first_window_block(), s.position(), "window"));
  }
  SLUICE_RETURN_IF_ERROR(compare(pools.latents(), latents, "latent"));
  SLUICE_RETURN_IF_ERROR(compare(pools.windows(), windows, "window"));
  SLUICE_RETURN_IF_ERROR(compare(pools.slots(), slots, "state"));
  if (cache == nullptr || !cache->has_digests()) return {};
  SLUICE_RETURN_IF_ERROR(check_digests(*cache, pools.latents(), sample, turn, "latent"));
  SLUICE_RETURN_IF_ERROR(check_digests(*cache, pools.windows(), sample, turn, "window"));
  if (!cache->other_bytes().empty()) return internal_error("audit: " + cache->other_bytes());
  return {};
}

Status audit_expected(const PrefixCache& cache, std::span<const ExpectedBlocks> computing) {
  boost::unordered_flat_map<BlockHash, int, BlockHashWord> counts;
  for (const ExpectedBlocks& blocks : computing) {
    for (int b = blocks.begin; b < blocks.end; ++b) ++counts[(*blocks.chain)[b]];
  }
  for (const ExpectedBlocks& blocks : computing) {
    for (int b = blocks.begin; b < blocks.end; ++b) {
      const int will = counts.at((*blocks.chain)[b]), expected = cache.expected((*blocks.chain)[b]);
      if (will == expected) continue;
      return internal_error(fmt::format(
          "audit: {} sequences will compute a block that the prefix cache expects from {} of them", will, expected));
    }
  }
  if (counts.size() == cache.expected_blocks()) return {};
  return internal_error(fmt::format("audit: the prefix cache expects {} blocks, and sequences will compute {}",
                                    cache.expected_blocks(), counts.size()));
}

}  // namespace sluice
