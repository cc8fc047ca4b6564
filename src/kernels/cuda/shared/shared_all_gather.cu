// all_gather (kernels/ops/all_gather.h): each rank writes its share into the memory of the others, and reads theirs
// from its own (kernels/cuda/exchange_view.h). Small shares travel as packets, which show by themselves that they have
// come; large ones travel in bulk, with a flag after each piece. Either moves words as they are.
#include "kernels/cuda/shared/exchange_words.h"
#include "kernels/ops/ops.h"
#include "kernels/weights/input_forms.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

// An array of rows that ranks share by columns: the values, or a form.
struct SharedArray {
  const std::uint32_t* from = nullptr;
  std::uint32_t* to = nullptr;
  std::ptrdiff_t ld_from = 0, ld_to = 0;  // in words, like all lengths in this file
  int width = 0;                          // words of a share's row
  std::uint32_t units_of_row = 0, units = 0;
  bool aligned = false;  // whole units lie where they can be moved at once
};

// The arrays of an exchange, one after the other, in units of kWords words; the last unit of a row may be part empty.
template <int kWords>
struct SharedArrays {
  static constexpr int kMost = 1 + static_cast<int>(kPreparedForms.size());
  SharedArray arrays[kMost];
  int count = 0;
  std::uint32_t units = 0;

  struct Place {
    const SharedArray* array;
    std::ptrdiff_t row;
    int column, words;
  };
  SLUICE_DEVICE Place place(std::uint32_t unit) const {
    const SharedArray* array = arrays;
    for (; unit >= array->units; ++array) unit -= array->units;
    const std::uint32_t row = unit / array->units_of_row;
    const int column = static_cast<int>(unit - row * array->units_of_row) * kWords;
    const int left = array->width - column;
    return {array, static_cast<std::ptrdiff_t>(row), column, left < kWords ? left : kWords};
  }
  SLUICE_DEVICE Words<kWords> load(std::uint32_t unit) const {
    const Place at = place(unit);
    const std::uint32_t* from = at.array->from + at.row * at.array->ld_from + at.column;
    if (at.array->aligned) return *reinterpret_cast<const Words<kWords>*>(from);
    Words<kWords> data{};
    SLUICE_UNROLL
    for (int i = 0; i < kWords; ++i) {
      if (i < at.words) data.words[i] = from[i];
    }
    return data;
  }
  SLUICE_DEVICE void store(std::uint32_t unit, int rank, const Words<kWords>& data) const {
    const Place at = place(unit);
    std::uint32_t* to =
        at.array->to + at.row * at.array->ld_to + static_cast<std::ptrdiff_t>(rank) * at.array->width + at.column;
    if (at.array->aligned) {
      *reinterpret_cast<Words<kWords>*>(to) = data;
      return;
    }
    SLUICE_UNROLL
    for (int i = 0; i < kWords; ++i) {
      if (i < at.words) to[i] = data.words[i];
    }
  }

  void add(int rows, int width, const float* from, std::ptrdiff_t ld_from, float* to, std::ptrdiff_t ld_to) {
    SharedArray& array = arrays[count++];
    array = {reinterpret_cast<const std::uint32_t*>(from), reinterpret_cast<std::uint32_t*>(to), ld_from, ld_to, width};
    array.units_of_row = static_cast<std::uint32_t>((width + kWords - 1) / kWords);
    array.units = static_cast<std::uint32_t>(rows) * array.units_of_row;
    const auto fits = [](const void* at, std::ptrdiff_t ld) {
      return reinterpret_cast<std::uintptr_t>(at) % sizeof(Words<kWords>) == 0 && ld % kWords == 0;
    };
    array.aligned = width % kWords == 0 && fits(from, ld_from) && fits(to, ld_to);
    units += array.units;
  }
};

// The rank that comes k after this one, so that not all write to the same rank first.
SLUICE_DEVICE int rank_after(const ExchangeView& ranks, int k) {
  return (ranks.rank + k) % ranks.ranks;
}

// Notes that the block's pieces are done; the next kernel counts on.
template <int kThreads>
SLUICE_DEVICE void end_exchange(const Team<kThreads>& team, const ExchangeView& ranks, std::uint32_t pieces) {
  team.sync();
  team.each([&](int t) {
    if (t != 0) return;
    ranks.counts[team.index] = pieces;
    if (team.index == 0) ranks.counts[kBulkBlocks] = load_count(ranks.counts + kBulkBlocks) + 1;
  });
}

struct GatherPackets {
  static constexpr int kThreads = kBlockPackets;
  static constexpr bool kWaits = true, kStartsNext = true;
  ExchangeView ranks;
  SharedArrays<kPacketWords> shared;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    begin_exchange(ranks);
    const std::uint32_t piece = load_count(ranks.counts + team.index), epoch = piece + 1;
    team.each([&](int t) {
      const std::uint32_t unit = unit_of(team.index, t);
      if (unit >= shared.units) return;
      const Words<kPacketWords> own = shared.load(unit);
      for (int k = 1; k < ranks.ranks; ++k) {
        store_packet(packet(rank_after(ranks, k), ranks.rank, piece, team.index, t), own, epoch);
      }
      shared.store(unit, ranks.rank, own);
    });
    team.each([&](int t) {
      const std::uint32_t unit = unit_of(team.index, t);
      if (unit >= shared.units) return;
      for (int k = 1; k < ranks.ranks; ++k) {
        const int sender = rank_after(ranks, k);
        const std::byte* from = packet(ranks.rank, sender, piece, team.index, t);
        Words<kPacketWords> data{};
        if (!wait_for_rank(ranks, sender, [&] { return load_packet(from, epoch, data); })) return;
        shared.store(unit, sender, data);
      }
    });
    end_exchange(team, ranks, epoch);
  }

  static SLUICE_DEVICE std::uint32_t unit_of(int block, int t) {
    return static_cast<std::uint32_t>(block * kThreads + t);
  }
  SLUICE_DEVICE std::byte* packet(int at, int sender, std::uint32_t piece, int block, int t) const {
    return ranks.memory[static_cast<std::size_t>(at)] + packets_at(sender, piece, block) +
           static_cast<std::size_t>(t) * kPacketBytes;
  }
};

struct GatherBulk {
  static constexpr int kThreads = 512;
  static constexpr bool kWaits = true, kStartsNext = true;
  static constexpr std::uint32_t kAtOnce = 4;  // units that a thread copies at once
  ExchangeView ranks;
  SharedArrays<kBulkWords> shared;
  std::uint32_t of_block, of_piece;  // the units of a block, and of a piece

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    begin_exchange(ranks);
    std::uint32_t piece = load_count(ranks.counts + team.index);
    const std::uint32_t begin = static_cast<std::uint32_t>(team.index) * of_block;
    const std::uint32_t end = begin + of_block < shared.units ? begin + of_block : shared.units;
    for (std::uint32_t first = begin; first < end; first += of_piece, ++piece) {
      const std::uint32_t count = end - first < of_piece ? end - first : of_piece;
      send(team, first, count, piece);
      team.sync();
      team.each([&](int t) {
        if (t >= ranks.ranks || t == ranks.rank) return;
        store_flag(ranks.memory[static_cast<std::size_t>(t)] + flag_at(ranks.rank, team.index), piece + 1);
      });
      team.each([&](int t) {
        if (t >= ranks.ranks || t == ranks.rank) return;
        const std::byte* flag = ranks.memory[static_cast<std::size_t>(ranks.rank)] + flag_at(t, team.index);
        wait_for_rank(ranks, t, [&] { return static_cast<std::int32_t>(load_flag(flag) - (piece + 1)) >= 0; });
      });
      team.sync();
      receive(team, first, count, piece);
      team.sync();
    }
    end_exchange(team, ranks, piece);
  }

  SLUICE_DEVICE std::byte* units_at(int at, int sender, std::uint32_t piece, int block) const {
    return ranks.memory[static_cast<std::size_t>(at)] + bulk_at(ranks.ranks, sender, piece, block);
  }
  SLUICE_DEVICE void send(const Team<kThreads>& team, std::uint32_t first, std::uint32_t count,
                          std::uint32_t piece) const {
    team.each([&](int t) {
      for (auto i = static_cast<std::uint32_t>(t); i < count; i += kAtOnce * kThreads) {
        Words<kBulkWords> own[kAtOnce];
        SLUICE_UNROLL
        for (std::uint32_t n = 0; n < kAtOnce; ++n) {
          if (i + n * kThreads < count) own[n] = shared.load(first + i + n * kThreads);
        }
        SLUICE_UNROLL
        for (std::uint32_t n = 0; n < kAtOnce; ++n) {
          const std::uint32_t unit = i + n * kThreads;
          if (unit >= count) break;
          for (int k = 1; k < ranks.ranks; ++k) {
            std::byte* to = units_at(rank_after(ranks, k), ranks.rank, piece, team.index);
            reinterpret_cast<Words<kBulkWords>*>(to)[unit] = own[n];
          }
          shared.store(first + unit, ranks.rank, own[n]);
        }
      }
    });
  }
  SLUICE_DEVICE void receive(const Team<kThreads>& team, std::uint32_t first, std::uint32_t count,
                             std::uint32_t piece) const {
    team.each([&](int t) {
      for (int k = 1; k < ranks.ranks; ++k) {
        const int sender = rank_after(ranks, k);
        const std::byte* from = units_at(ranks.rank, sender, piece, team.index);
        for (auto i = static_cast<std::uint32_t>(t); i < count; i += kAtOnce * kThreads) {
          Words<kBulkWords> data[kAtOnce];
          SLUICE_UNROLL
          for (std::uint32_t n = 0; n < kAtOnce; ++n) {
            const std::uint32_t unit = i + n * kThreads;
            if (unit < count) data[n] = load_received(from + std::size_t{unit} * sizeof(Words<kBulkWords>));
          }
          SLUICE_UNROLL
          for (std::uint32_t n = 0; n < kAtOnce; ++n) {
            if (i + n * kThreads < count) shared.store(first + i + n * kThreads, sender, data[n]);
          }
        }
      }
    });
  }
};

// True if the shares' own rows in this form, one after the other, are the whole row in it.
bool joins(const AllGatherArgs& args, InputForm form) {
  return args.from.form(form) != nullptr && args.from.columns % kGatheredBlock == 0;
}

// True if the values are not read, not even to make a form of them.
bool only_forms(const AllGatherArgs& args) {
  if (!args.forms_only) return false;
  for (const InputForm form : kPreparedForms) {
    if (args.to.form(form) != nullptr && !joins(args, form)) return false;
  }
  return true;
}

// Returns the words of a share's row, of all arrays, in whole units.
template <int kWords>
SharedArrays<kWords> arrays_of(const AllGatherArgs& args) {
  SharedArrays<kWords> shared;
  if (!only_forms(args)) {
    shared.add(args.rows, args.from.columns, args.from.values, args.from.ld, args.to.values, args.to.ld);
  }
  for (const InputForm form : kPreparedForms) {
    if (args.to.form(form) == nullptr || !joins(args, form)) continue;
    const int width = input_floats(form, args.from.columns);
    shared.add(args.rows, width, args.from.form(form), width, args.to.form(form), input_floats(form, args.to.columns));
  }
  return shared;
}

void gather(const Exec& exec, const AllGatherArgs& args) {
  const ExchangeView& ranks = static_cast<const CudaExchange*>(exec.group.exchange)->view(exec.group.rank);
  const auto packets = arrays_of<kPacketWords>(args);
  if (packets.units == 0) return;
  if (packet_blocks(packets.units) <= kPacketBlocks) {
    launch(exec, packet_blocks(packets.units), GatherPackets{ranks, packets});
    return;
  }
  const auto bulk = arrays_of<kBulkWords>(args);
  const ShardCut cut = cut_bulk(bulk.units, ranks.bulk_blocks);
  const auto of_piece = static_cast<std::uint32_t>(piece_bytes(ranks.ranks) / sizeof(Words<kBulkWords>));
  launch(exec, cut.blocks, GatherBulk{ranks, bulk, cut.of_block, of_piece});
}

}  // namespace

void all_gather(const Exec& exec, const AllGatherArgs& args) {
  SLUICE_CHECK(exec.group.exchange != nullptr && args.from.columns * exec.group.ranks == args.to.columns,
               "ranks of a group gather equal shares");
  // The numbers of a kernel's units have 32 bits.
  constexpr std::int64_t kMostWords = std::int64_t{1} << 30;
  const auto most_rows = static_cast<int>(
      std::clamp<std::int64_t>(kMostWords / (std::int64_t{SharedArrays<2>::kMost} * (args.from.columns * 2 + 4)), 1,
                               INT32_MAX));
  for (int first = 0; first < args.rows; first += most_rows) {
    AllGatherArgs rows = args;
    rows.rows = std::min(most_rows, args.rows - first);
    rows.from = rows_from(args.from, first);
    rows.to = rows_from(args.to, first);
    gather(exec, rows);
  }
  for (const InputForm form : kPreparedForms) {
    if (args.rows == 0 || args.to.form(form) == nullptr || joins(args, form)) continue;
    sluice::prepare_rows(exec, {form, args.rows, args.to.columns, args.to.values, args.to.ld, args.to.form(form),
                                input_floats(form, args.to.columns)});
  }
}

}  // namespace sluice::SLUICE_CUDA_OPS
