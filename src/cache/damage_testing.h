// Damage to pools and cached bytes.
#pragma once

#include <algorithm>

#include "cache/pages/cache_memory.h"
#include "cache/pages/page_pool.h"

namespace sluice {

// PagePoolDamage: reaches into a pool to break it, so that tests see that checks find it.

struct PagePoolDamage {
  PagePool* pool;
  void set_owners(int page, int owners) const { pool->at(page).owners = owners; }
  void forget_name(int page) const { std::replace(pool->table_.begin(), pool->table_.end(), page, -1); }
  void name_again(int page) const { *std::find(pool->table_.begin(), pool->table_.end(), -1) = page; }
  void mark_inserted(int page, int as) const {
    pool->hashes_[static_cast<std::size_t>(page)] = pool->hash(as);
    pool->at(page).inserted = true;
  }
  void unkeep(int page) const { pool->at(page).kept = false; }
  void break_link(int page) const { pool->at(page).older = page; }
  void lose_newest() const { pool->newest_ = pool->oldest_; }
  void miscount(int by) const { pool->cached_ += by; }
};

// flip_bit: damage to cached bytes, so that tests see that checks find it.

// The lowest bit of a byte of the rows.
inline void flip_bit(CacheMemory& memory, const CacheMemory::Rows& rows, std::size_t byte) {
  std::vector<std::byte> bytes = memory.read_rows(rows);
  bytes.at(byte) ^= std::byte{1};
  memory.write_rows(rows, bytes);
}

}  // namespace sluice
