// Staging: pinned host memory between the host's bytes and a stream, a ring of pieces, each fenced by an event. Uploads
// are copied in, and their copies to the device enqueued. Downloads are enqueued, and copied out once their event has
// passed. One thread fills pinned memory at a fraction of the link's speed, so for a large upload several threads fill
// it, each its own pieces. The small moves of a call are one kernel. Thread safety: one thread at a time.
// Used by device.cc.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/threads/thread_pool.h"
#include "kernels/cuda/runtime/small_moves.h"
#include "kernels/device/device.h"

namespace sluice {

class Staging {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  static constexpr int kPieces = 16;
  static constexpr int kMostThreads = kPieces / 2;  // each thread fills one piece while its other one is copied
  // Uploads of at least this size are filled by several threads.
  static constexpr std::size_t kLargeBytes = std::size_t{8} << 20;

  // Called with the result of every call of the runtime; false: nothing more must be done.
  using Check = std::function<bool(cudaError_t error, const char* what)>;

  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // `device`: the number of the stream's device.
  cudaError_t take(int device, cudaStream_t stream, Check check);
  void upload(std::span<const ByteMove> moves);
  void download(const ByteMove& move);
  // Copies out what was downloaded before turn(); the stream has done all of it.
  void deliver(std::uint64_t before);
  // Downloads enqueued after this belong to the next turn.
  std::uint64_t next_turn() { return ++turn_; }
  // Gives up after a failure: the bytes of pending downloads become 0xFF.
  void give_up();

 private:
  struct Piece {
    std::byte* bytes = nullptr;
    cudaEvent_t used = nullptr;  // recorded after the stream's work with it
  };
  struct Arriving {
    const std::byte* from;
    std::byte* to;
    std::size_t bytes;
    std::uint64_t turn;
    int piece;
  };
  // Returns `wanted` bytes of a piece or fewer, at least one; null: the device has failed.
  std::byte* reserve(std::size_t wanted, std::size_t* given);
  bool next_piece();
  void upload_small(const ByteMove& move);
  void enqueue_small();
  void upload_large(const ByteMove& move);
  void upload_whole(const ByteMove& move);

  int device_ = 0;
  cudaStream_t stream_ = nullptr;
  Check check_;
  std::vector<Piece> pieces_;
  int piece_ = 0;
  std::size_t used_ = 0;  // bytes of the current piece
  std::uint64_t turn_ = 0;
  std::vector<Arriving> arriving_;       // pending downloads, in the order of the calls
  SmallMoves small_;                     // small moves that are copied in but not enqueued yet
  std::unique_ptr<ThreadPool> fillers_;  // made for the first large upload
};

}  // namespace sluice
