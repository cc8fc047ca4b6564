// MemoryPlan: how a budget of bytes is split between the latent pool, the window pool and the sequences' open states.
//
// Each running sequence has open states and steady_window_pages() window pages. The open states are the committed one,
// one that the next row writes, and one more for each token that may be drafted. The window pool
// also has the extra pages that one span of max_batched_tokens rows needs. So, with s sequences,
//   fixed(s) = (s + 1) * (2 + draft_tokens) * open_bytes + (s * steady + extra(max_batched_tokens) + 1) *
//   window_page_bytes
// where "+ 1" serves the one-token self-test, which has its own state and pages and can never fail for memory.
// s is the largest number up to max_seqs that leaves latent pages for min(max_model_len, 2048) tokens of each sequence.
// It may be larger, still up to max_seqs, as long as two pages of each remain and the longest sequence that fits stays
// as long (or max_model_len). The free pages decide later how many of the s run: sequences claim pages as they grow,
// and if none are left, a sequence is preempted. s is at least 1 (then the extra window pages give way, down to none,
// before latents go below half of the budget). The rest goes to the latent pool. With prefix caching all of it is used,
// and for every kLatentsPerCachedWindow latent pages the rest gives one window page to resume after (docs/dev/cache.md
// has the reason). Without prefix caching, the latent pool gets at most what s sequences of max_model_len can fill. No
// memory is touched before it is used, except the pools' own records of their pages (PagePool::kBytesPerPage).
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
