// MemoryPlan: how a budget of bytes is split between the latent pool, the window pool and the sequences' open states.
//
// Each running sequence has open states and steady_window_pages() window pages. The open states are the committed one,
// one that the next row writes, and one more for each token that may be drafted. The window pool also has the extra
// pages that one span of max_batched_tokens rows needs. So, with s sequences,
//   fixed(s) = (s + 1) * (2 + draft_tokens) * open_bytes + (s * steady + extra(max_batched_tokens) + 1) *
//   window_page_bytes
// where "+ 1" serves the one-token self-test, which has its own state and pages and can never fail for memory.
// s, at most max_seqs, is the larger of two numbers:
//   - the most sequences that leave latent pages for min(max_model_len, 2048) tokens of each;
//   - the most that leave two latent pages of each, if the longest sequence that fits gets no shorter by it.
// Sequences claim pages as they grow; if none are free, a sequence is preempted. So fewer than s may run.
// If neither rule gives 1, s is 1 and extra window pages are dropped, so that latents keep at least half the budget.
// The rest goes to the latent pool. With prefix caching all of the rest is used, and one window page is added for every
// kLatentsPerCachedWindow latent pages, so that cached prefixes can resume (docs/dev/cache.md). Without prefix
// caching, the latent pool gets at most what s sequences of max_model_len can fill. No memory is touched before it is
// used, except the pools' own records of their pages (PagePool::kBytesPerPage).
// Used by cache, cli, engine, sim and verify.
#pragma once

#include <cstddef>
#include <string>

#include "model/cache_layout.h"
#include "sluice/status.h"

namespace sluice {

struct MemoryRequest {
  std::size_t budget_bytes = 0;
  int max_seqs = 1;
  int max_batched_tokens = 1;
  int max_model_len = 1;
  bool prefix_caching = true;
  int draft_tokens = 0;  // most drafts of a sequence in a step

  static constexpr int kLatentsPerCachedWindow = 16;
};

struct MemoryPlan {
  int sequences = 0;                       // sequences that can run at once; the self-test's state is one more
  int latent_pages = 0, window_pages = 0;  // pages of the pools, including the self-test's
  std::size_t latent_bytes = 0, window_bytes = 0, open_bytes = 0;
  int open_states = 2;  // open states of a sequence
  std::size_t total_bytes() const { return latent_bytes + window_bytes + open_bytes; }
  std::string text() const;
};

// Makes the plan. If the budget cannot hold one sequence of one block, the error has the numbers.
Result<MemoryPlan> plan_memory(const CacheLayout& layout, const MemoryRequest& request);

}  // namespace sluice
