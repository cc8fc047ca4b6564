// Pool<Page>: a PagePool with its own type of pages, so that a page of one pool cannot be passed to another.
#pragma once

#include "cache/page_pool.h"

namespace sluice {

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

  bool publish(Page page, const BlockHash& hash) { return pages_.publish(page.value, hash); }
  Page find(const BlockHash& hash) const { return Page(pages_.find(hash)); }
  bool published(Page page) const { return pages_.published(page.value); }
  const BlockHash& hash(Page page) const { return pages_.hash(page.value); }
  void keep(Page page) { pages_.keep(page.value); }
  bool kept(Page page) const { return pages_.kept(page.value); }
  void forget_cached() { pages_.forget_cached(); }

  std::uint64_t published_count() const { return pages_.published_count(); }
  std::uint64_t evicted_count() const { return pages_.evicted_count(); }
  Status check() const { return pages_.check(); }
  PagePool& untyped() { return pages_; }

 private:
  PagePool pages_;
};

}  // namespace sluice
