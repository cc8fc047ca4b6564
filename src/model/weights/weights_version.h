// weights_version: names the weights of a checkpoint, so that results of other weights are never mistaken for theirs.
// Used by model/families.cc.
#pragma once

#include <string>

#include "files/checkpoint.h"

namespace sluice {

// If the files are together at most this large, the version is a checksum of all their bytes, so copies have the same.
// Larger files are not read as a whole: theirs is a checksum of their identity (inode, size, times) and of samples.
inline constexpr std::size_t kWholeChecksumBytes = ServedFiles::kComparedBytes;

std::string weights_version(const Checkpoint& checkpoint);  // 16 hexadecimal digits

}  // namespace sluice
