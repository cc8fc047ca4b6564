#include "kernels/cuda/runtime/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kAlignment = 256;

}  // namespace

cudaError_t Staging::take(cudaStream_t stream, Check check) {
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
  if (!check_(cudaEventRecord(pieces_[static_cast<std::size_t>(piece_)].used, stream_), "recording an event")) {
    return false;
  }
  piece_ = (piece_ + 1) % kPieces;
  used_ = 0;
  if (!check_(cudaEventSynchronize(pieces_[static_cast<std::size_t>(piece_)].used), "waiting for a copy")) return false;
  // What arrived in it has to leave it, and all that arrived earlier.
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

void Staging::upload(const ByteMove& move) {
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
