// Used by device.cc.
#include "kernels/cuda/runtime/staging.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/threads/machine.h"

namespace sluice {
namespace {

constexpr std::size_t kAlignment = 256;

}  // namespace

cudaError_t Staging::take(int device, cudaStream_t stream, Check check) {
  device_ = device;
  stream_ = stream;
  check_ = std::move(check);
  pieces_.resize(kPieces);
  for (Piece& piece : pieces_) {
    void* bytes = nullptr;
    if (const cudaError_t error = cudaMallocHost(&bytes, kPieceBytes); error != cudaSuccess) return error;
    piece.bytes = static_cast<std::byte*>(bytes);
    if (const cudaError_t error = cudaEventCreateWithFlags(&piece.used, cudaEventDisableTiming); error != cudaSuccess) {
      return error;
    }
  }
  return cudaSuccess;
}

Staging::~Staging() {
  for (const Piece& piece : pieces_) {
    if (piece.used != nullptr) cudaEventDestroy(piece.used);
    if (piece.bytes != nullptr) cudaFreeHost(piece.bytes);
  }
}

bool Staging::next_piece() {
  enqueue_small();
  if (!check_(cudaEventRecord(pieces_[static_cast<std::size_t>(piece_)].used, stream_), "recording an event")) {
    return false;
  }
  piece_ = (piece_ + 1) % kPieces;
  used_ = 0;
  if (!check_(cudaEventSynchronize(pieces_[static_cast<std::size_t>(piece_)].used), "waiting for a copy")) return false;
  // Copies out the downloads that lie in the piece, and all earlier ones, since they are delivered in order.
  const auto last = std::find_if(arriving_.rbegin(), arriving_.rend(),
                                 [&](const Arriving& arriving) { return arriving.piece == piece_; });
  const auto end = last.base();
  for (auto it = arriving_.begin(); it != end; ++it) std::memcpy(it->to, it->from, it->bytes);
  arriving_.erase(arriving_.begin(), end);
  return true;
}

std::byte* Staging::reserve(std::size_t wanted, std::size_t* given) {
  if (used_ == kPieceBytes && !next_piece()) return nullptr;
  std::byte* at = pieces_[static_cast<std::size_t>(piece_)].bytes + used_;
  *given = std::min(wanted, kPieceBytes - used_);
  used_ = std::min(kPieceBytes, (used_ + *given + kAlignment - 1) / kAlignment * kAlignment);
  return at;
}

void Staging::upload(std::span<const ByteMove> moves) {
  for (const ByteMove& move : moves) {
    if (moves.size() > 1 && move.bytes <= SmallMoves::kMostBytes) {
      upload_small(move);
    } else if (move.bytes >= kLargeBytes) {
      upload_large(move);
    } else {
      upload_whole(move);
    }
  }
  enqueue_small();
}

void Staging::upload_small(const ByteMove& move) {
  if (move.bytes == 0) return;
  if (used_ + move.bytes > kPieceBytes && !next_piece()) return;
  std::size_t given = 0;
  std::byte* staged = reserve(move.bytes, &given);
  if (staged == nullptr) return;
  std::memcpy(staged, move.from, move.bytes);
  small_.moves[static_cast<std::size_t>(small_.count++)] = {move.to, staged, static_cast<std::uint32_t>(move.bytes)};
  if (small_.count == SmallMoves::kMost) enqueue_small();
}

void Staging::enqueue_small() {
  if (small_.count > 0) enqueue_small_moves(stream_, small_);
  small_.count = 0;
}

void Staging::upload_large(const ByteMove& move) {
  // The loop below uses pieces in another order. So first every pending move is enqueued and delivered, which leaves
  // the pieces free.
  enqueue_small();
  if (!arriving_.empty()) {
    if (!check_(cudaStreamSynchronize(stream_), "a download")) return;
    deliver(turn_ + 1);
  }
  if (!check_(cudaEventRecord(pieces_[static_cast<std::size_t>(piece_)].used, stream_), "recording an event")) return;
  if (fillers_ == nullptr) fillers_ = std::make_unique<ThreadPool>(std::min(usable_cores(), kMostThreads));
  const int threads = fillers_->threads(), of_thread = kPieces / threads;
  std::array<int, kMostThreads> turns{};
  std::atomic<cudaError_t> failed = cudaSuccess;
  fillers_->run(static_cast<int>((move.bytes + kPieceBytes - 1) / kPieceBytes), [&](int tile, int thread) {
    if (failed != cudaSuccess) return;
    const std::size_t at = static_cast<std::size_t>(tile) * kPieceBytes, count = std::min(kPieceBytes, move.bytes - at);
    const Piece& piece =
        pieces_[static_cast<std::size_t>(thread * of_thread + turns[static_cast<std::size_t>(thread)]++ % of_thread)];
    cudaError_t error = cudaSetDevice(device_);  // the current device is a setting of each thread
    if (error == cudaSuccess) error = cudaEventSynchronize(piece.used);
    if (error == cudaSuccess) {
      std::memcpy(piece.bytes, move.from + at, count);
      error = cudaMemcpyAsync(move.to + at, piece.bytes, count, cudaMemcpyHostToDevice, stream_);
    }
    if (error == cudaSuccess) error = cudaEventRecord(piece.used, stream_);
    if (error != cudaSuccess) failed = error;
  });
  check_(failed, "an upload");
  used_ = kPieceBytes;  // the next user reserves the next piece, once its copy is done
}

void Staging::upload_whole(const ByteMove& move) {
  for (std::size_t done = 0, count = 0; done < move.bytes; done += count) {
    std::byte* staged = reserve(move.bytes - done, &count);
    if (staged == nullptr) return;
    std::memcpy(staged, move.from + done, count);
    if (!check_(cudaMemcpyAsync(move.to + done, staged, count, cudaMemcpyHostToDevice, stream_), "an upload")) return;
  }
}

void Staging::download(const ByteMove& move) {
  for (std::size_t done = 0, count = 0; done < move.bytes; done += count) {
    std::byte* staged = reserve(move.bytes - done, &count);
    if (staged != nullptr) arriving_.push_back({staged, move.to + done, count, turn_, piece_});
    if (staged == nullptr ||
        !check_(cudaMemcpyAsync(staged, move.from + done, count, cudaMemcpyDeviceToHost, stream_), "a download")) {
      std::memset(move.to + done, 0xFF, move.bytes - done);
      return;
    }
  }
}

void Staging::deliver(std::uint64_t before) {
  const auto end =
      std::find_if(arriving_.begin(), arriving_.end(), [&](const Arriving& next) { return next.turn >= before; });
  for (auto it = arriving_.begin(); it != end; ++it) std::memcpy(it->to, it->from, it->bytes);
  arriving_.erase(arriving_.begin(), end);
}

void Staging::give_up() {
  for (const Arriving& next : arriving_) std::memset(next.to, 0xFF, next.bytes);
  arriving_.clear();
}

}  // namespace sluice
