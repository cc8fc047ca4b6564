// ExchangeView: the group's exchange as the kernels of a rank see it: plain values, and the places in the memory that
// the ranks write to each other. all_gather (kernels/cuda/shared/shared_all_gather.cu) is the only op that uses it.
//
// Each rank has the same memory, into which the others write and only it reads:
//   flags    [sender][block]                        a word each: pieces that have come
//   packets  [sender][buffer][block][kBlockPackets] 16 bytes each: two words of data, each followed by an epoch
//   bulk     [sender][buffer][block]                piece_bytes() each
// Block b of a kernel exchanges with blocks b of the other ranks alone. It counts its pieces, in device memory, so that
// a graph that is replayed needs no new arguments: piece n has the epoch n + 1 and lies in buffer n % 2. Two buffers
// are enough: a block sends piece n + 2 once it has piece n + 1 of all ranks, and they sent that after reading n.
//
// An epoch has 32 bits. A packet's place would show an old packet as a new one only if no rank had written there for
// exactly 2^32 pieces of its block.
// Used by kernels/cuda/runtime/peer_exchange.h and kernels/cuda/shared/exchange_words.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "kernels/device/exchange.h"

namespace sluice {

inline constexpr int kMostRanks = 8;
inline constexpr int kBuffers = 2;
inline constexpr int kPacketBlocks = 16, kBlockPackets = 512;
inline constexpr int kPacketWords = 2;  // words of data
inline constexpr std::size_t kPacketBytes = 16;
// Most bytes of a share that goes as packets; a larger one goes in bulk.
inline constexpr std::size_t kPacketShardBytes = std::size_t{64} << 10;
static_assert(kPacketShardBytes == std::size_t{kPacketBlocks} * kBlockPackets * kPacketWords * 4);
inline constexpr int kBulkBlocks = 64;
inline constexpr int kBulkWords = 4;  // words that a thread moves at once in bulk

// Arguments that are alike on all ranks, except for `rank` and the addresses.
struct ExchangeView {
  int ranks = 0, rank = 0;
  // Blocks of a kernel that may wait for other ranks: all of them fit on a GPU at once, together with other kernels.
  int bulk_blocks = kBulkBlocks;
  // True if ranks share a GPU. Then no kernel may start early after one that waits, as it could occupy the room that
  // the other rank's kernels need.
  bool shares_gpu = false;
  std::uint64_t limit_ns = 0;                   // nanoseconds of the longest wait
  std::array<std::byte*, kMostRanks> memory{};  // each rank's memory, at addresses that this rank's GPU uses
  // This rank's counters: pieces that each block has done, [kBulkBlocks]; exchanges; a word that is not 0 once a thread
  // has seen a fault.
  std::uint32_t* counts = nullptr;
  std::uint64_t* fault = nullptr;  // shared by the group, in pinned host memory: 0, or a fault_word()
};
inline constexpr int kExchangeEnded = kBulkBlocks + 1, kExchangeCounts = kExchangeEnded + 1;

// The rank that gave up waiting, the rank that it waited for, and the number of its exchange.
struct ExchangeFault {
  int rank = 0, missing = 0;
  std::uint32_t exchange = 0;
  bool of_device = false;  // the device of `rank` has failed; the others are not set
};
SLUICE_HD constexpr std::uint64_t fault_word(const ExchangeFault& fault) {
  return std::uint64_t{1} << 63 | static_cast<std::uint64_t>(fault.of_device ? 1 : 0) << 62 |
         static_cast<std::uint64_t>(fault.rank) << 48 | static_cast<std::uint64_t>(fault.missing) << 40 |
         fault.exchange;
}
constexpr ExchangeFault fault_of(std::uint64_t word) {
  return {static_cast<int>(word >> 48 & 0xFFU), static_cast<int>(word >> 40 & 0xFFU), static_cast<std::uint32_t>(word),
          (word >> 62 & 1U) != 0};
}

// Returns the bytes of one piece that is sent in bulk. The functions below say where a sender's flags, packets and
// pieces lie in a rank's memory.
SLUICE_HD constexpr std::size_t piece_bytes(int ranks) {
  return ranks <= 4 ? std::size_t{64} << 10 : std::size_t{32} << 10;
}
SLUICE_HD constexpr std::size_t flag_at(int sender, int block) {
  return sizeof(std::uint32_t) * static_cast<std::size_t>(sender * kBulkBlocks + block);
}
inline constexpr std::size_t kFlagBytes = flag_at(kMostRanks, 0);
SLUICE_HD constexpr std::size_t packets_at(int sender, std::uint32_t piece, int block) {
  const std::size_t index = (static_cast<std::size_t>(sender) * kBuffers + piece % kBuffers) * kPacketBlocks;
  return kFlagBytes + (index + static_cast<std::size_t>(block)) * kBlockPackets * kPacketBytes;
}
SLUICE_HD constexpr std::size_t bulk_at(int ranks, int sender, std::uint32_t piece, int block) {
  const std::size_t index = (static_cast<std::size_t>(sender) * kBuffers + piece % kBuffers) * kBulkBlocks;
  return packets_at(ranks, 0, 0) + (index + static_cast<std::size_t>(block)) * piece_bytes(ranks);
}
constexpr std::size_t exchange_bytes(int ranks) {
  return bulk_at(ranks, ranks, 0, 0);
}

// The cut of a shard of `units` units: block b has units [b * of_block, (b + 1) * of_block), in pieces if they are sent
// in bulk. It is the same on all ranks, and no result depends on it.
struct ShardCut {
  int blocks = 0;
  std::uint32_t of_block = 0;
};
constexpr ShardCut cut_bulk(std::uint32_t units, int most_blocks) {
  constexpr std::uint32_t kLeastUnits = 1024;  // the least units of a block: 16 KB
  const std::uint32_t blocks =
      std::clamp<std::uint32_t>((units + kLeastUnits - 1) / kLeastUnits, 1, static_cast<std::uint32_t>(most_blocks));
  const std::uint32_t of_block = (units + blocks - 1) / blocks;
  return {static_cast<int>((units + of_block - 1) / of_block), of_block};
}
constexpr int packet_blocks(std::uint32_t units) {
  return static_cast<int>((units + kBlockPackets - 1) / kBlockPackets);
}

// The exchange of a group of GPUs.
class CudaExchange : public Exchange {
 public:
  virtual const ExchangeView& view(int rank) const = 0;
};

}  // namespace sluice
