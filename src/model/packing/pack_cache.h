// PackCache: the folder that keeps the packed forms of models' weights between starts.
//
// A form is found by its key, which depends on everything that its bytes depend on (pack_key()), so an outdated
// form is never found. The kForms used last are kept. Several processes may use the folder at once. Thread safety: a
// const object may be used from any thread.
// Used by pack_key.cc, weight_packer.cc and weight_packer.h.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/storage/mapped_file.h"
#include "base/threads/thread_pool.h"
#include "kernels/ops/linear.h"
#include "model/packing/packed_file.h"
#include "sluice/status.h"

namespace sluice {

class PackCache {
 public:
  static constexpr int kForms = 2;

  // Creates `folder` if needed, and removes what dead processes left in it.
  static Result<PackCache> open(const std::filesystem::path& folder);

  // kNotFound if there is none. A damaged form is removed, with the reason in the log, and counts as none.
  Result<PackedFile> find(const PackedKey& key, std::size_t bytes, ThreadPool& pool,
                          const std::function<void(std::size_t done, std::size_t total)>& progress) const;

  // Makes room for `bytes` more, leaving a twentieth of the disk, at least 1 GB, free: removes the forms not used for
  // the longest time, except that of `key`. kResourceExhausted, with the numbers, if that is not enough.
  Status make_room(const PackedKey& key, std::size_t bytes) const;

  std::string path_of(const PackedKey& key) const;
  std::string making_path_of(const PackedKey& key) const;

 private:
  explicit PackCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
};

// Writes a form into the cache on a separate thread of low priority, while the form is already in use.
class PackKeeper {
 public:
  // `bytes` must live as long as the keeper. The thread calls `still_valid` before the file gets its name.
  PackKeeper(PackCache cache, const PackedKey& key, std::span<const std::byte> bytes,
             std::function<bool()> still_valid);
  // Waits until it is written, at most kMostSecondsAtEnd; a file that is not complete by then is removed.
  ~PackKeeper();
  PackKeeper(const PackKeeper&) = delete;
  PackKeeper& operator=(const PackKeeper&) = delete;

  static constexpr int kMostSecondsAtEnd = 30;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The key of a packed form: a SHA-256 over everything that its bytes depend on, so forms of the same key are equal.
//
//   the files    inode, size, times of the last write and of the last change of any kind (which programs cannot set
//                back), the first megabyte and 64 samples of 4 KB of each; not their paths
//   the weights  name, shape, format, scales, input form and packed size of each, in their order
//   the layout   the ISA's name, and for each kind of weight in the model what its packing makes of a small weight of
//                known bytes: so a build that packs differently has different keys by itself

struct PackedWeightPlace {
  std::string name;  // the tensor and the part of it
  WeightView view;   // its bytes are not read
  InputForm inputs = InputForm::kF32;
  std::size_t bytes = 0;  // packed
};

PackedKey pack_key(std::span<const MappedFile* const> files, std::span<const PackedWeightPlace> weights,
                   const KernelTable& kernels);

}  // namespace sluice
