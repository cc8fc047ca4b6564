// Used by model/families.cc.
#include "model/weights/weights_version.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/checksum.h"
#include "base/storage/mapped_file.h"

namespace sluice {

std::string weights_version(const Checkpoint& checkpoint) {
  constexpr std::size_t kSample = 4096, kSamples = 256;
  const std::vector<const MappedFile*> files = checkpoint.mappings();
  std::size_t all = 0;
  for (const MappedFile* file : files) all += file->bytes().size();
  std::vector<std::uint64_t> words{checksum(std::as_bytes(std::span(checkpoint.version())))};
  if (checkpoint.version().empty()) words.clear();
  for (const MappedFile* file : files) {
    const std::span<const std::byte> bytes = file->bytes();
    words.push_back(bytes.size());
    if (all <= kWholeChecksumBytes || bytes.size() <= kSample * kSamples) {
      words.push_back(file->share()->content());
      continue;
    }
    const FileIdentity& identity = file->identity();
    words.push_back(static_cast<std::uint64_t>(identity.inode));
    words.push_back(static_cast<std::uint64_t>(identity.modified));
    words.push_back(static_cast<std::uint64_t>(identity.changed));
    for (std::size_t i = 0; i < kSamples; ++i) {
      words.push_back(checksum(bytes.subspan((bytes.size() - kSample) / kSamples * i, kSample)));
    }
  }
  return fmt::format("{:016x}", checksum(std::as_bytes(std::span(words))));
}

}  // namespace sluice
