// Staging: pinned host memory between the host's bytes and a stream, a ring of pieces, each fenced by an event.
// Uploads are copied in and their copies to the device enqueued; downloads are enqueued, and copied out once their
// event has passed. Thread safety: one thread at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/device.h"

namespace sluice {

class Staging {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  static constexpr int kPieces = 8;

  // Called with what every call of the runtime gives; false: nothing more is to be done.
  using Check = std::function<bool(cudaError_t error, const char* what)>;

  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  cudaError_t take(cudaStream_t stream, Check check);
  void upload(const ByteMove& move);
  void download(const ByteMove& move);
  // Copies out what was downloaded before turn(); the stream has done all of it.
  void deliver(std::uint64_t before);
  // Downloads enqueued after this are of the next turn.
  std::uint64_t next_turn() { return ++turn_; }
  // Nothing will arrive any more: what was to be downloaded becomes 0xFF.
  void give_up();

 private:
  struct Piece {
    std::byte* bytes = nullptr;
    cudaEvent_t used = nullptr;  // behind what the stream does with it
  };
  struct Arriving {
    const std::byte* from;
    std::byte* to;
    std::size_t bytes;
    std::uint64_t turn;
    int piece;
  };
  // `wanted` bytes of a piece or fewer, at least one; null: the device has failed.
  std::byte* reserve(std::size_t wanted, std::size_t* given);
  bool next_piece();

  cudaStream_t stream_ = nullptr;
  Check check_;
  std::vector<Piece> pieces_;
  int piece_ = 0;
  std::size_t used_ = 0;  // bytes of the current piece
  std::uint64_t turn_ = 0;
  std::vector<Arriving> arriving_;  // in order
};

}  // namespace sluice
