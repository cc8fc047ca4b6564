// Pool<Page>: which pages of one pool are free, and how many owners each of the others has. Page is a StrongIndex, so
// that a page of one pool cannot be given to another.
//
// An owner is a sequence (or whatever else holds a page); pages with several owners are shared and nobody writes to
// them. The lowest free page is taken first, which keeps the touched memory compact and runs repeatable. Thread safety:
// one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/index_types.h"
#include "cache/free_set.h"

namespace sluice {

template <class Page>
class Pool {
 public:
  explicit Pool(int pages) : free_(pages), owners_(static_cast<std::size_t>(pages), 0) {}

  int total() const { return static_cast<int>(owners_.size()); }
  int free() const { return free_.count(); }
  int used() const { return total() - free(); }

  // A page with one owner, or none (a false Page) when all are taken.
  Page allocate() {
    const Page page(free_.lowest());
    if (!page) return page;
    free_.erase(page.value);
    owners_[index(page)] = 1;
    return page;
  }
  void share(Page page) {
    SLUICE_CHECK(owners(page) > 0, "a free page cannot be shared");
    ++owners_[index(page)];
  }
  // One owner less; the page is free when none is left.
  void release(Page page) {
    SLUICE_CHECK(owners(page) > 0, "a free page was released");
    if (--owners_[index(page)] == 0) free_.insert(page.value);
  }
  std::int32_t owners(Page page) const {
    SLUICE_CHECK(page.value >= 0 && page.value < total(), "a page outside its pool");
    return owners_[index(page)];
  }
  bool is_free(Page page) const { return free_.contains(page.value); }

 private:
  static std::size_t index(Page page) { return static_cast<std::size_t>(page.value); }

  FreeSet free_;
  std::vector<std::int32_t> owners_;
};

}  // namespace sluice
