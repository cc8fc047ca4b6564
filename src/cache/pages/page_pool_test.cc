#include "cache/pages/page_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <set>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "cache/damage_testing.h"

namespace sluice::page_pool_test {
namespace {

using ::testing::HasSubstr;

// Names of which many begin their search at the same place of the table.
BlockHash named(int i) {
  BlockHash hash;
  hash.bytes[0] = static_cast<std::uint8_t>(i % 3);
  hash.bytes[30] = static_cast<std::uint8_t>(i / 256);
  hash.bytes[31] = static_cast<std::uint8_t>(i % 256);
  return hash;
}

// Allocates a page with content.
int make(PagePool* pool, int name, bool keep = true) {
  const int page = pool->allocate();
  EXPECT_TRUE(pool->insert(page, named(name)));
  if (keep) pool->keep(page);
  return page;
}

TEST(PagePoolTest, TheLowestVacantPageComesFirst) {
  PagePool pool(3);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.allocate(), 1);
  EXPECT_EQ(pool.allocate(), 2);
  EXPECT_EQ(pool.allocate(), -1);
  pool.release(2);
  pool.release(0);
  EXPECT_EQ(pool.free(), 2);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.used(), 2);
}

TEST(PagePoolTest, VacantPagesAreGivenBeforeCachedOnes) {
  PagePool pool(3);
  make(&pool, 1);
  pool.release(0);
  EXPECT_EQ(pool.vacant(), 2);
  EXPECT_EQ(pool.cached(), 1);
  EXPECT_EQ(pool.free(), 3);
  EXPECT_EQ(pool.allocate(), 1);
  EXPECT_EQ(pool.allocate(), 2);
  EXPECT_EQ(pool.find(named(1)), 0);
  EXPECT_EQ(pool.evicted_count(), 0U);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.evicted_count(), 1U);
}

TEST(PagePoolTest, TheCachedPageReleasedLongestAgoIsEvictedFirst) {
  PagePool pool(4);
  for (int i = 0; i < 4; ++i) make(&pool, i);
  for (const int page : {2, 0, 3, 1}) pool.release(page);
  for (const int page : {2, 0, 3, 1}) EXPECT_EQ(pool.allocate(), page);
}

TEST(PagePoolTest, AClaimedPageIsReleasedAnewWithNoOldPlaceInTheOrder) {
  PagePool pool(3);
  for (int i = 0; i < 3; ++i) make(&pool, i);
  for (const int page : {0, 1, 2}) pool.release(page);
  pool.claim(pool.find(named(0)));
  EXPECT_EQ(pool.cached(), 2);
  pool.release(0);
  for (const int page : {1, 2, 0}) EXPECT_EQ(pool.allocate(), page);
}

TEST(PagePoolTest, ContentIsFoundWhileItIsUsedAndWhileItIsCached) {
  PagePool pool(2);
  EXPECT_EQ(pool.find(named(7)), -1);
  const int page = pool.allocate();
  EXPECT_EQ(pool.find(named(7)), -1);  // nothing is found before it is inserted
  EXPECT_TRUE(pool.insert(page, named(7)));
  pool.keep(page);
  EXPECT_EQ(pool.find(named(7)), page);
  pool.claim(page);
  EXPECT_EQ(pool.owners(page), 2);
  pool.release(page);
  pool.release(page);
  EXPECT_EQ(pool.find(named(7)), page);
  pool.claim(page);
  EXPECT_EQ(pool.owners(page), 1);
  EXPECT_EQ(pool.cached(), 0);
}

TEST(PagePoolTest, APageIsFreeWhenItsLastOwnerLeaves) {
  PagePool pool(2);
  const int page = pool.allocate();
  pool.share(page);
  EXPECT_EQ(pool.owners(page), 2);
  pool.release(page);
  EXPECT_EQ(pool.used(), 1);
  pool.release(page);
  EXPECT_EQ(pool.used(), 0);
  EXPECT_EQ(pool.vacant(), 2);
}

TEST(PagePoolTest, InsertedContentThatIsNotKeptIsGoneWithItsLastOwner) {
  PagePool pool(2);
  const int page = make(&pool, 1, false);
  pool.release(page);
  EXPECT_EQ(pool.vacant(), 2);
  EXPECT_EQ(pool.find(named(1)), -1);
  EXPECT_TRUE(pool.check().ok());
}

TEST(PagePoolTest, AReusedPageHasForgottenItsContentAndItsKeeping) {
  PagePool pool(1);
  make(&pool, 1);
  pool.release(0);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.find(named(1)), -1);
  EXPECT_FALSE(pool.inserted(0));
  EXPECT_TRUE(pool.insert(0, named(2)));
  EXPECT_FALSE(pool.kept(0));
  pool.release(0);
  EXPECT_EQ(pool.vacant(), 1);
}

TEST(PagePoolTest, AHashNamesOnePage) {
  PagePool pool(2);
  const int first = make(&pool, 1);
  const int second = pool.allocate();
  EXPECT_FALSE(pool.insert(second, named(1)));
  EXPECT_FALSE(pool.inserted(second));
  EXPECT_EQ(pool.find(named(1)), first);
  EXPECT_TRUE(pool.insert(first, named(1)));  // again, under its own name
  EXPECT_EQ(pool.inserted_count(), 1U);
  EXPECT_TRUE(pool.insert(second, named(2)));
  EXPECT_TRUE(pool.check().ok());
}

TEST(PagePoolTest, ForgettingLeavesWhatIsUsed) {
  PagePool pool(4);
  for (int i = 0; i < 4; ++i) make(&pool, i);
  pool.release(1);
  pool.release(2);
  pool.forget_cached();
  EXPECT_EQ(pool.vacant(), 2);
  EXPECT_EQ(pool.find(named(1)), -1);
  EXPECT_EQ(pool.find(named(2)), -1);
  EXPECT_EQ(pool.find(named(0)), 0);
  pool.release(0);
  EXPECT_EQ(pool.cached(), 1);  // used pages are cached as before
  EXPECT_EQ(pool.evicted_count(), 0U);
  EXPECT_TRUE(pool.check().ok());
}

TEST(PagePoolTest, AnEmptyPoolHasNothing) {
  PagePool pool(0);
  EXPECT_EQ(pool.allocate(), -1);
  EXPECT_EQ(pool.find(named(1)), -1);
  EXPECT_TRUE(pool.check().ok());
}

TEST(PagePoolDeathTest, BrokenOwnershipEndsTheProgram) {
  Pool<WindowPage> pool(2);
  EXPECT_DEATH(pool.release(WindowPage(0)), "a free page was released");
  EXPECT_DEATH(pool.share(WindowPage(1)), "a free page cannot be shared");
  EXPECT_DEATH(pool.claim(WindowPage(1)), "only inserted content can be claimed");
  EXPECT_DEATH(pool.insert(WindowPage(1), named(1)), "a free page was inserted");
  EXPECT_DEATH(static_cast<void>(pool.owners(WindowPage(2))), "outside its pool");
  EXPECT_EQ(pool.allocate(), WindowPage(0));
  EXPECT_DEATH(pool.keep(WindowPage(0)), "only inserted content in use can be marked");
  pool.insert(WindowPage(0), named(1));
  EXPECT_DEATH(pool.insert(WindowPage(0), named(2)), "under a second name");
}

TEST(PagePoolTest, TheCheckNamesPlantedDamage) {
  struct Case {
    void (*damage)(const PagePoolDamage&);
    const char* expected;
  };
  // Pages 0 and 1 are cached, 2 is used and inserted, 3 is used, 4 is vacant.
  const Case cases[] = {
      {[](const PagePoolDamage& d) { d.set_owners(4, 1); }, "page 4 is vacant with 1 owners"},
      {[](const PagePoolDamage& d) { d.set_owners(1, 1); }, "page 1 is in the order of eviction with 1 owners"},
      {[](const PagePoolDamage& d) { d.unkeep(0); }, "page 0 is in the order of eviction"},
      {[](const PagePoolDamage& d) { d.set_owners(3, 0); }, "1 used + 1 vacant + 2 cached pages"},
      {[](const PagePoolDamage& d) { d.forget_name(2); }, "page 2 is inserted but not found by its hash"},
      {[](const PagePoolDamage& d) { d.mark_inserted(3, 2); }, "page 3 is inserted but not found by its hash"},
      {[](const PagePoolDamage& d) { d.name_again(3); }, "the table has 4 entries for 3 inserted pages"},
      {[](const PagePoolDamage& d) { d.break_link(1); }, "page 1 follows page 0 in the order of eviction, but names 1"},
      {[](const PagePoolDamage& d) { d.lose_newest(); },
       "page 1 ends the order of eviction, but 0 is called the newest"},
      {[](const PagePoolDamage& d) { d.miscount(1); }, "(2 in the order of eviction), expected 5"},
  };
  for (const Case& c : cases) {
    PagePool pool(5);
    for (int i = 0; i < 3; ++i) make(&pool, i);
    pool.allocate();
    pool.release(0);
    pool.release(1);
    ASSERT_TRUE(pool.check().ok()) << pool.check().message();
    c.damage(PagePoolDamage{&pool});
    EXPECT_THAT(pool.check().message(), HasSubstr(c.expected));
  }
}

TEST(PagePoolTest, ADeliberatelyStaleHashIsFoundAfterReuse) {
  PagePool pool(1);
  pool.fault_stale_hash = true;
  make(&pool, 1);
  pool.release(0);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.find(named(1)), 0);
  EXPECT_TRUE(pool.insert(0, named(2)));
  EXPECT_TRUE(pool.check().ok()) << pool.check().message();
}

// The same pool in the simplest form.
class Oracle {
 public:
  explicit Oracle(int pages) : owners_(static_cast<std::size_t>(pages)) {}

  int allocate() {
    for (int page = 0; page < static_cast<int>(owners_.size()); ++page) {
      if (owners(page) > 0 || is_cached(page)) continue;
      owners_[static_cast<std::size_t>(page)] = 1;
      return page;
    }
    if (cached_.empty()) return -1;
    const int page = cached_.front();
    cached_.erase(cached_.begin());
    names_.erase(page);
    kept_.erase(page);
    owners_[static_cast<std::size_t>(page)] = 1;
    return page;
  }
  void claim(int page) {
    ++owners_[static_cast<std::size_t>(page)];
    std::erase(cached_, page);
  }
  void release(int page) {
    if (--owners_[static_cast<std::size_t>(page)] > 0) return;
    if (kept_.count(page) > 0) return cached_.push_back(page);
    names_.erase(page);
  }
  bool insert(int page, int name) {
    if (find(name) >= 0) return find(name) == page;
    names_[page] = name;
    return true;
  }
  void keep(int page) { kept_.insert(page); }
  void forget_cached() {
    for (const int page : cached_) {
      names_.erase(page);
      kept_.erase(page);
    }
    cached_.clear();
  }

  int owners(int page) const { return owners_[static_cast<std::size_t>(page)]; }
  int find(int name) const {
    const auto found = std::find_if(names_.begin(), names_.end(), [&](const auto& n) { return n.second == name; });
    return found == names_.end() ? -1 : found->first;
  }
  bool inserted(int page) const { return names_.count(page) > 0; }
  bool is_cached(int page) const { return std::count(cached_.begin(), cached_.end(), page) > 0; }
  int cached() const { return static_cast<int>(cached_.size()); }
  int used() const {
    return static_cast<int>(std::count_if(owners_.begin(), owners_.end(), [](int n) { return n > 0; }));
  }

 private:
  std::vector<int> owners_;
  std::map<int, int> names_;  // page -> name
  std::set<int> kept_;
  std::vector<int> cached_;  // the oldest first
};

TEST(PagePoolTest, RandomLivesAreThoseOfTheSimplestPool) {
  const unsigned seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (int life = 0; life < random_cases(60); ++life) {
    const int pages = 1 + static_cast<int>(random() % 12), names = 1 + static_cast<int>(random() % 24);
    PagePool pool(pages);
    Oracle oracle(pages);
    for (int i = 0; i < 400; ++i) {
      const int page = static_cast<int>(random() % static_cast<unsigned>(pages));
      const int name = static_cast<int>(random() % static_cast<unsigned>(names));
      const bool used = oracle.owners(page) > 0;
      switch (random() % 8) {
        case 0:
        case 1:
          ASSERT_EQ(pool.allocate(), oracle.allocate());
          break;
        case 2:
          if (used) pool.share(page), oracle.claim(page);
          break;
        case 3:
          if (oracle.inserted(page)) pool.claim(page), oracle.claim(page);
          break;
        case 4:
        case 5:
          if (used) pool.release(page), oracle.release(page);
          break;
        case 6:
          if (used && !oracle.inserted(page)) {
            ASSERT_EQ(pool.insert(page, named(name)), oracle.insert(page, name));
          }
          if (used && oracle.inserted(page) && random() % 2 == 0) pool.keep(page), oracle.keep(page);
          break;
        case 7:
          if (random() % 40 == 0) pool.forget_cached(), oracle.forget_cached();
          break;
      }
      ASSERT_TRUE(pool.check().ok()) << pool.check().message();
      ASSERT_EQ(pool.used(), oracle.used());
      ASSERT_EQ(pool.cached(), oracle.cached());
      for (int p = 0; p < pages; ++p) {
        ASSERT_EQ(pool.owners(p), oracle.owners(p));
        ASSERT_EQ(pool.inserted(p), oracle.inserted(p));
      }
      for (int n = 0; n < names; ++n) ASSERT_EQ(pool.find(named(n)), oracle.find(n));
    }
  }
}

TEST(PagePoolTest, AHundredThousandPagesAreNoSlowerEach) {
  constexpr int kPages = 100'000;
  PagePool pool(kPages);
  const auto start = std::chrono::steady_clock::now();
  std::mt19937_64 random(1);
  std::vector<BlockHash> names(2 * kPages);
  for (BlockHash& name : names) {
    const std::uint64_t word = random();
    std::memcpy(name.bytes.data(), &word, sizeof(word));
  }
  for (int round = 0; round < 2; ++round) {  // the second one evicts every page of the first
    for (int i = 0; i < kPages; ++i) {
      const int page = pool.allocate();
      pool.insert(page, names[static_cast<std::size_t>(round * kPages + i)]);
      pool.keep(page);
    }
    for (int page = 0; page < kPages; ++page) pool.release(page);
  }
  int found = 0;
  for (const BlockHash& name : names) found += pool.find(name) >= 0;
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(found, kPages);
  EXPECT_EQ(pool.evicted_count(), static_cast<std::uint64_t>(kPages));
  EXPECT_TRUE(pool.check().ok());
  RecordProperty("nanoseconds_per_page", static_cast<int>(took.count() / (2 * kPages)));
  EXPECT_LT(took.count() / (2 * kPages), 20'000);
}

}  // namespace
}  // namespace sluice::page_pool_test
