// flip_bit: damage to cached bytes, so that tests see that checks find it.
#pragma once

#include "cache/cache_memory.h"

namespace sluice {

// The lowest bit of a byte of the rows.
inline void flip_bit(CacheMemory& memory, const CacheMemory::Rows& rows, std::size_t byte) {
  std::vector<std::byte> bytes = memory.read_rows(rows);
  bytes.at(byte) ^= std::byte{1};
  memory.write_rows(rows, bytes);
}

}  // namespace sluice
