// Used by cache/cache_pools.h.
#include "cache/pages/page_pool.h"

#include <fmt/format.h>

#include <bit>

namespace sluice {

PagePool::PagePool(int pages)
    : pages_(static_cast<std::size_t>(pages)), hashes_(static_cast<std::size_t>(pages)), vacant_(pages) {
  const std::size_t slots = std::bit_ceil(static_cast<std::size_t>(pages) * 2 + 2);
  table_.assign(slots, -1);
  mask_ = slots - 1;
}

int PagePool::allocate() {
  int page = vacant_.lowest();
  if (page >= 0) {
    vacant_.erase(page);
  } else {
    page = oldest_;
    if (page < 0) return -1;
    remove_cached(page);
    if (!fault_stale_hash) remove(page);
    ++evicted_count_;
  }
  at(page).owners = 1;
  return page;
}

void PagePool::share(int page) {
  SLUICE_CHECK(at(page).owners > 0, "a free page cannot be shared");
  ++at(page).owners;
}

void PagePool::claim(int page) {
  SLUICE_CHECK(at(page).inserted, "only inserted content can be claimed");
  if (at(page).owners++ == 0) remove_cached(page);
}

void PagePool::release(int page) {
  Page& p = at(page);
  SLUICE_CHECK(p.owners > 0, "a free page was released");
  if (--p.owners > 0) return;
  if (p.inserted && p.kept) return append_cached(page);
  if (p.inserted) remove(page);
  vacant_.insert(page);
}

bool PagePool::insert(int page, const BlockHash& hash) {
  Page& p = at(page);
  SLUICE_CHECK(p.owners > 0, "a free page was inserted");
  const std::size_t slot = slot_of(hash);
  if (table_[slot] >= 0) return table_[slot] == page;
  SLUICE_CHECK(!p.inserted || fault_stale_hash, "a page was inserted under a second name");
  if (p.inserted) remove(page);
  table_[slot_of(hash)] = page;
  hashes_[static_cast<std::size_t>(page)] = hash;
  p.inserted = true;
  ++inserted_count_;
  return true;
}

int PagePool::find(const BlockHash& hash) const {
  return table_[slot_of(hash)];
}

void PagePool::keep(int page) {
  SLUICE_CHECK(at(page).inserted && at(page).owners > 0, "only inserted content in use can be marked to be kept");
  at(page).kept = true;
}

void PagePool::forget_cached() {
  while (oldest_ >= 0) {
    const int page = oldest_;
    remove_cached(page);
    remove(page);
    vacant_.insert(page);
  }
}

std::size_t PagePool::slot_of(const BlockHash& hash) const {
  std::size_t slot = home(hash);
  while (table_[slot] >= 0 && hashes_[static_cast<std::size_t>(table_[slot])] != hash) slot = (slot + 1) & mask_;
  return slot;
}

// Removes the page from the table, and closes the gap so that no search ends early at it.
void PagePool::remove(int page) {
  Page& p = at(page);
  std::size_t gap = slot_of(hash(page));
  SLUICE_CHECK(table_[gap] == page, "an inserted page is in the table");
  p.inserted = p.kept = false;
  for (std::size_t next = (gap + 1) & mask_; table_[next] >= 0; next = (next + 1) & mask_) {
    const std::size_t wanted = home(hashes_[static_cast<std::size_t>(table_[next])]);
    if (((next - wanted) & mask_) < ((next - gap) & mask_)) continue;  // the entry would move before its home slot
    table_[gap] = table_[next];
    gap = next;
  }
  table_[gap] = -1;
}

void PagePool::append_cached(int page) {
  Page& p = at(page);
  p.older = newest_;
  p.newer = -1;
  (newest_ >= 0 ? at(newest_).newer : oldest_) = page;
  newest_ = page;
  ++cached_;
}

void PagePool::remove_cached(int page) {
  Page& p = at(page);
  (p.older >= 0 ? at(p.older).newer : oldest_) = p.newer;
  (p.newer >= 0 ? at(p.newer).older : newest_) = p.older;
  p.older = p.newer = -1;
  --cached_;
}

Status PagePool::check() const {
  int used = 0, listed = 0, in_table = 0, before = -1;
  for (int page = oldest_; page >= 0 && listed <= total(); before = page, page = at(page).newer, ++listed) {
    const Page& p = at(page);
    if (p.older != before) {
      return internal_error(fmt::format(
          "page {} follows page {} in the order of eviction, but names {} as the one before", page, before, p.older));
    }
    if (p.owners != 0 || !p.inserted || !p.kept || vacant_.contains(page)) {
      return internal_error(fmt::format("page {} is in the order of eviction with {} owners, {}inserted", page,
                                        p.owners, p.inserted ? "" : "not "));
    }
  }
  for (int page = 0; page < total(); ++page) {
    const Page& p = at(page);
    used += p.owners > 0;
    in_table += p.inserted;
    if (p.inserted && find(hash(page)) != page) {
      return internal_error(fmt::format("page {} is inserted but not found by its hash", page));
    }
    if (vacant_.contains(page) && (p.owners != 0 || p.inserted)) {
      return internal_error(
          fmt::format("page {} is vacant with {} owners{}", page, p.owners, p.inserted ? ", inserted" : ""));
    }
  }
  int entries = 0;
  for (const std::int32_t page : table_) entries += page >= 0;
  if (entries != in_table) {
    return internal_error(fmt::format("the table has {} entries for {} inserted pages", entries, in_table));
  }
  if (before != newest_) {
    return internal_error(
        fmt::format("page {} ends the order of eviction, but {} is called the newest", before, newest_));
  }
  if (listed != cached_ || used + vacant() + cached_ != total()) {
    return internal_error(
        fmt::format("{} used + {} vacant + {} cached pages ({} in the order of eviction), expected {}", used, vacant(),
                    cached_, listed, total()));
  }
  return {};
}

}  // namespace sluice
