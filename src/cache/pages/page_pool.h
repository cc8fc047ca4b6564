// PagePool: the pages of one pool, with the number of owners and the content of each.
//
// A page is in one of three states:
//   vacant  no owner, no content; the lowest number is given out first, which keeps touched memory compact and runs
//           repeatable
//   cached  no owner, content that was inserted and kept: found by its hash, and given to others when no page is
//           vacant, the one released longest ago first
//   used    one owner or more (a sequence each); a page with several is shared and never written
// An inserted page is found by its hash whether it is used or cached. A hash names at most one page.
// No allocation after construction; memory per page, used, cached or vacant: at most kBytesPerPage. Thread safety: one
// thread at a time.
// Used by cache/cache_pools.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/index_types.h"
#include "cache/pages/block_chain.h"
#include "cache/pages/free_set.h"
#include "sluice/status.h"

namespace sluice {

class PagePool {
 public:
  explicit PagePool(int pages);

  // State 16, hash 32, hash table 8 to 16 (the number of its entries is a power of two), set of the vacant 1/8.
  static constexpr std::size_t kBytesPerPage = 65;

  int total() const { return static_cast<int>(pages_.size()); }
  int vacant() const { return vacant_.count(); }
  int cached() const { return cached_; }
  int free() const { return vacant() + cached(); }  // pages that allocate() can give
  int used() const { return total() - free(); }

  // A page with one owner and no content; -1 when all are used.
  int allocate();
  // Adds an owner. The page is used, or (claim only) cached: content found by its hash.
  void share(int page);
  void claim(int page);
  // Removes an owner. If none is left, the page is cached if its content is inserted and kept, else vacant.
  void release(int page);
  std::int32_t owners(int page) const { return at(page).owners; }

  // Names the page's content, which is final. Returns false and changes nothing if another page has the name already.
  bool insert(int page, const BlockHash& hash);
  int find(const BlockHash& hash) const;  // -1: none
  bool inserted(int page) const { return at(page).inserted; }
  const BlockHash& hash(int page) const { return hashes_[static_cast<std::size_t>(page)]; }
  // Lets an inserted page stay cached when its last owner leaves.
  void keep(int page);
  bool kept(int page) const { return at(page).kept; }
  // Makes every cached page vacant.
  void forget_cached();

  std::uint64_t inserted_count() const { return inserted_count_; }
  std::uint64_t evicted_count() const { return evicted_count_; }  // cached pages that were given to others

  // Checks that each page is in exactly one state and that the table and the order of eviction are consistent
  // (kInternal names what is not).
  Status check() const;

  // For tests of the tests: allocate() leaves the old content's name on a page that it gives out.
  bool fault_stale_hash = false;

 private:
  friend struct PagePoolDamage;  // tests break it, and see that check() finds it
  struct Page {
    std::int32_t owners = 0;
    std::int32_t older = -1, newer = -1;  // neighbours among the cached
    bool inserted = false, kept = false;
  };

  Page& at(int page) {
    SLUICE_CHECK(page >= 0 && page < total(), "a page outside its pool");
    return pages_[static_cast<std::size_t>(page)];
  }
  const Page& at(int page) const { return const_cast<PagePool*>(this)->at(page); }
  std::size_t home(const BlockHash& hash) const { return static_cast<std::size_t>(hash.word()) & mask_; }
  std::size_t slot_of(const BlockHash& hash) const;  // its slot, or the empty one where it would go
  void remove(int page);
  void append_cached(int page);
  void remove_cached(int page);

  static_assert(sizeof(Page) == 16 && sizeof(BlockHash) == 32);

  std::vector<Page> pages_;
  std::vector<BlockHash> hashes_;  // [page], names of inserted pages
  FreeSet vacant_;
  std::vector<std::int32_t> table_;  // open addressing, linear: page or -1; at most half full
  std::size_t mask_ = 0;
  std::int32_t oldest_ = -1, newest_ = -1;
  int cached_ = 0;
  std::uint64_t inserted_count_ = 0, evicted_count_ = 0;
};

// Pool<Page>: a PagePool with its own type of pages, so that a page of one pool cannot be passed to another.

template <class Page>
class Pool {
 public:
  explicit Pool(int pages) : pages_(pages) {}

  int total() const { return pages_.total(); }
  int vacant() const { return pages_.vacant(); }
  int cached() const { return pages_.cached(); }
  int free() const { return pages_.free(); }
  int used() const { return pages_.used(); }

  Page allocate() { return Page(pages_.allocate()); }
  void share(Page page) { pages_.share(page.value); }
  void claim(Page page) { pages_.claim(page.value); }
  void release(Page page) { pages_.release(page.value); }
  std::int32_t owners(Page page) const { return pages_.owners(page.value); }

  bool insert(Page page, const BlockHash& hash) { return pages_.insert(page.value, hash); }
  Page find(const BlockHash& hash) const { return Page(pages_.find(hash)); }
  bool inserted(Page page) const { return pages_.inserted(page.value); }
  const BlockHash& hash(Page page) const { return pages_.hash(page.value); }
  void keep(Page page) { pages_.keep(page.value); }
  bool kept(Page page) const { return pages_.kept(page.value); }
  void forget_cached() { pages_.forget_cached(); }

  std::uint64_t inserted_count() const { return pages_.inserted_count(); }
  std::uint64_t evicted_count() const { return pages_.evicted_count(); }
  Status check() const { return pages_.check(); }
  PagePool& untyped() { return pages_; }

 private:
  PagePool pages_;
};

}  // namespace sluice
