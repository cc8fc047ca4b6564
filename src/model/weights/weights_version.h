// weights_version: names the weights of a checkpoint, so that what was computed with others is never taken for theirs.
#pragma once

#include <string>

#include "files/checkpoint.h"

namespace sluice {

// Of files that are at most this large together it is a checksum of all that is in them, so copies have the same; of
// larger ones, which are not read as a whole, one of their identity (inode, size, times) and of samples.
inline constexpr std::size_t kWholeChecksumBytes = ServedFiles::kComparedBytes;

std::string weights_version(const Checkpoint& checkpoint);  // 16 hexadecimal digits

}  // namespace sluice
