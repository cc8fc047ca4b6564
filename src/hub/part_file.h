// PartFile: a file that is being fetched, blobs/DIGEST.incomplete, as huggingface_hub keeps it: what is there of it is
// its beginning, so that another run, or another tool, goes on where this one stopped.
//
//   PartFile file(path, wanted);
//   SLUICE_RETURN_IF_ERROR(file.open());              // reads what is there already
//   file.plan(16 << 20);
//   while (auto chunk = file.take()) ... file.put(*chunk, bytes) ...   // several threads
//   SLUICE_RETURN_IF_ERROR(file.finish());            // compares the digest
//
// Chunks come in any order; those that are ahead wait in memory, a few of them at most.
// Thread safety: take(), put(), written() and abandon() may be called from any thread, the rest from one.
// Used by download.cc.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/repository.h"
#include "sluice/status.h"

namespace sluice {

class PartFile {
 public:
  PartFile(std::string path, RepositoryFile wanted);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  Status open();
  // Forgets what the file has.
  Status start_anew();
  std::uint64_t written() const;

  struct Chunk {
    std::size_t index = 0;
    std::uint64_t begin = 0, end = 0;  // bytes of the file
  };
  // Cuts what is missing into chunks of this length.
  void plan(std::uint64_t chunk_bytes);
  std::size_t chunks() const { return chunks_.size(); }
  // The next chunk that no thread has; waits while too many are ahead of the file. Nothing: there is none, or
  // abandon().
  std::optional<Chunk> take();
  // The next bytes of a chunk. Fails where the disk does.
  Status put(const Chunk& chunk, std::string_view bytes);
  void abandon();

  // Brings all of it to the disk and compares its digest. If that is another one, it fails, and is_wrong() is true.
  Status finish();
  bool is_wrong() const { return wrong_; }

 private:
  struct State {
    Chunk chunk;
    std::uint64_t received = 0;
    std::string ahead;  // bytes that wait for those before them
  };
  Status write(std::string_view bytes);
  Status failure(std::string_view what) const;
  void begin_digest();

  const std::string path_;
  const RepositoryFile wanted_;
  int fd_ = -1;
  void* digest_;  // EVP_MD_CTX
  mutable std::mutex mutex_;
  std::condition_variable advanced_;
  std::uint64_t written_ = 0;
  std::vector<State> chunks_;
  std::size_t head_ = 0, next_ = 0;  // the chunk that is being written; the next to be taken
  bool abandoned_ = false, wrong_ = false;
};

}  // namespace sluice
