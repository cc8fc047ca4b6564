// PackCache: the folder that keeps the packed forms of models' weights between starts.
//
// A form is found by its key, which is made of everything that its bytes come from (model/pack_key.h), so one that is
// out of date is never found. At most kForms are kept: those used last. Everything may happen in several processes at
// once. Thread safety: a const object may be used from any thread.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/thread_pool.h"
#include "model/packed_file.h"
#include "sluice/status.h"

namespace sluice {

class PackCache {
 public:
  static constexpr int kForms = 2;

  // `folder` is made if it is not there; what dead processes left in it is removed.
  static Result<PackCache> open(const std::filesystem::path& folder);

  // kNotFound: there is none. A damaged one is removed, with the reason in the log, and is then none.
  Result<PackedFile> find(const PackedKey& key, std::size_t bytes, ThreadPool& pool,
                          const std::function<void(std::size_t done, std::size_t total)>& progress) const;

  // Room on the disk for `bytes` more with a twentieth of it, 1 GB at least, left over; forms that were not used for
  // the longest time go for it, but for the one of `key`. kResourceExhausted with the numbers when that does not do.
  Status make_room(const PackedKey& key, std::size_t bytes) const;

  std::string path_of(const PackedKey& key) const;
  std::string making_path_of(const PackedKey& key) const;

 private:
  explicit PackCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
};

// Writes a form into the cache by a thread of its own, of low priority, while its memory is in use already.
class PackKeeper {
 public:
  // `bytes` must live as long as the keeper. `still_valid` is asked, from the thread, before the file gets its name.
  PackKeeper(PackCache cache, const PackedKey& key, std::span<const std::byte> bytes,
             std::function<bool()> still_valid);
  // Waits until it is written, for kMostSecondsAtEnd at most; what is not whole then is removed.
  ~PackKeeper();
  PackKeeper(const PackKeeper&) = delete;
  PackKeeper& operator=(const PackKeeper&) = delete;

  static constexpr int kMostSecondsAtEnd = 30;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
