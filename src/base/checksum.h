// A 64-bit checksum of bytes at the speed of memory, against failing disks and torn writes, not against people.
// A change within any one 8-byte word always changes it.
// Used by base/storage, cache/pages, files, model/packing and model/weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace sluice
