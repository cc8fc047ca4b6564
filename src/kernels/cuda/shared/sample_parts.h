// The parts of a row of sample() (kernels/ops/sample.h), a team for each, and their finds in the workspace.
//
// A head of the list is found without sorting it. Values lie in bins by their distance from the highest one, and the
// sums of the bins say in which one the head ends. The few ids of that bin, or of it and those above, are listed, in
// any order, and the team that finishes the row does the rest. Sums are of integers, so nothing depends on the bins.
// Used by sample_finish.h and shared_sample.cu.
#pragma once

#include <cstdint>

#include "kernels/common/math.h"
#include "kernels/common/order_key.h"
#include "kernels/common/sample_noise.h"
#include "kernels/cuda/shared/select_head.h"
#include "kernels/ops/sample.h"

namespace sluice::SLUICE_CUDA_OPS {

inline constexpr int kSampleThreads = 512;
// Ids of a thread, in fours; ids of a part.
inline constexpr int kSampleEach = 8, kPartIds = kSampleEach * kSampleThreads;
inline constexpr int kSampleBins = 1024, kMostListed = 4096;
using SampleTeam = Team<kSampleThreads>;

SLUICE_DEVICE std::uint64_t weight_units(float w) {
  return static_cast<std::uint64_t>(std::nearbyint(w * kWeightUnits));
}

// Returns the bin of a value: there are 64 for each doubling of the distance, from 2^-9 to 2^7. A higher value has no
// higher bin.
SLUICE_DEVICE int bin_below(float highest, float value) {
  constexpr int kLeast = (127 - 9) * 64;
  // -0 as an integer is below all other values.
  const int bin = (std::bit_cast<std::int32_t>(highest - value) >> 17) - kLeast;
  return bin < 0 ? 0 : bin < kSampleBins ? bin : kSampleBins - 1;
}

// The best of candidates: higher value, then lower id; id -1: none.
struct Best {
  float value = -INFINITY;
  TokenId id = -1;

  SLUICE_DEVICE void take(float other, TokenId other_id) {
    if (other > value || (other == value && other_id >= 0 && (other_id < id || id < 0))) {
      value = other;
      id = other_id;
    }
  }
};

struct Peaks {
  float highest;  // the highest logit; +inf if one, or a candidate, is not a number
  Best first;     // the best candidate

  SLUICE_DEVICE void take(const Peaks& other) {
    highest = other.highest > highest ? other.highest : highest;
    first.take(other.first.value, other.first.id);
  }
  SLUICE_DEVICE bool broken() const { return highest == INFINITY; }
  SLUICE_DEVICE bool can_draw() const { return !broken() && first.value > -INFINITY; }
};

// A draw among ids that their part knows to be kept.
struct Drawn {
  Best best;              // the id with the highest z
  std::uint64_t weights;  // the sum of their W, for log-probabilities

  SLUICE_DEVICE void take(const Drawn& other) {
    best.take(other.best.value, other.best.id);
    weights += other.weights;
  }
};

struct PartFound {
  Peaks peaks;
  Drawn drawn;
};

// The two heads that a row may want: the one that top_k or, without it, top_p keeps, and the one of top_logprobs.
enum SampleHead { kFiltered, kTop, kSampleHeads };

// The bin where a head ends, the sum of the bins above it, and the sum of all bins.
struct BinEnd {
  int bin;
  std::uint64_t before, total;
};

struct RowFound {
  std::uint64_t sums[kSampleHeads][kSampleBins];
  BinEnd ends[kSampleHeads];
  std::int32_t listed[kSampleHeads];  // ids listed for each head; above kMostListed: the list is not complete
  TokenId ids[kSampleHeads][kMostListed];
};

// The fields of a SampleRow that the kernels need, and its candidates.
struct RowView {
  const float* logits;
  const float* bias;
  const std::uint32_t* allowed;
  int vocab, top_k, top_count;  // top_k 0: no such filter; top_count 0: no best log-probabilities
  float scale, top_p, min_p;    // scale is r; top_p 1 and min_p 0 are off
  std::uint64_t seed;
  Position position;
  bool greedy, logprobs, processed;

  SLUICE_DEVICE RowView(const SampleArgs& args, const SampleRow& row)
      : logits(args.logits + static_cast<std::ptrdiff_t>(row.row) * args.vocab),
        bias(row.bias),
        allowed(mask_of(args, row)),
        vocab(args.vocab),
        seed(row.seed),
        position(row.position),
        greedy(row.temperature == 0.0F),
        logprobs(row.top_logprobs >= 0),
        processed(row.processed) {
    const float inverse = 1.0F / row.temperature;
    scale = greedy ? 1.0F : inverse < 0x1p-126F ? 0x1p-126F : inverse;
    top_k = !greedy && row.top_k > 0 && row.top_k < vocab ? row.top_k : 0;
    top_p = !greedy && row.top_p < 1.0F ? row.top_p : 1.0F;
    min_p = !greedy && row.min_p > 0.0F ? row.min_p : 0.0F;
    top_count = row.top_logprobs <= 0 ? 0 : row.top_logprobs < vocab ? row.top_logprobs : vocab;
  }

  SLUICE_DEVICE bool filtered() const { return top_k > 0 || top_p < 1.0F; }
  SLUICE_DEVICE float adjusted(int i) const { return adjusted(i, logits[i]); }
  SLUICE_DEVICE float adjusted(int i, float logit) const {
    const float a = bias != nullptr ? logit + bias[i] : logit;
    return allowed == nullptr || (allowed[i / 32] >> (i % 32) & 1U) != 0 ? a : -INFINITY;
  }
  SLUICE_DEVICE std::uint64_t weight(float a, float highest) const {
    return weight_units(exp_f32((a - highest) * scale));
  }
  SLUICE_DEVICE bool passes_min_p(float d) const { return !(min_p > 0.0F && exp_f32(d) < min_p); }
  // Returns true if a head's sum reaches top_p of the sum of all.
  SLUICE_DEVICE bool reaches_top_p(std::uint64_t sum, std::uint64_t all) const {
    return static_cast<double>(sum) >= static_cast<double>(top_p) * static_cast<double>(all);
  }

  // Adds to a draw those of ids [first, first + n), four at most, that kept(j) and min_p leave. `first` is a multiple
  // of four if there are several. The first of the list is kept and has at least kMinNoise.
  template <int n, class Kept>
  SLUICE_DEVICE void take_noisy(TokenId first, const float* a, float highest, const Kept& kept, Best& best) const {
    bool may[n], any = false;
    float d[n];
    SLUICE_UNROLL
    for (int j = 0; j < n; ++j) {
      d[j] = (a[j] - highest) * scale;
      may[j] = a[j] > -INFINITY && d[j] + kMaxNoise >= kMinNoise && d[j] + kMaxNoise >= best.value && kept(j);
      any |= may[j];
    }
    if (!any) return;
    const PhiloxCounter words = noise_words(seed, position, static_cast<std::uint32_t>(first) / 4);
    SLUICE_UNROLL
    for (int j = 0; j < n; ++j) {
      const std::uint32_t word = n > 1 ? words[static_cast<std::size_t>(j)] : word_of(words, first % 4);
      if (may[j] && d[j] + noise_bound(word) >= best.value && passes_min_p(d[j])) {
        best.take(d[j] + gumbel_noise(word), first + j);
      }
    }
  }

 private:
  static SLUICE_DEVICE std::uint32_t word_of(const PhiloxCounter& words, int i) {
    return i < 2 ? (i == 0 ? words[0] : words[1]) : (i == 2 ? words[2] : words[3]);
  }
};

// The arguments of all kernels of a call.
struct SampleWork {
  SampleArgs args;
  int parts;         // parts of a row
  RowFound* rows;    // [args.rows]
  PartFound* found;  // [args.rows][parts]

  SLUICE_DEVICE RowView view(int row) const { return {args, args.params[row]}; }
};

struct SampleShared {
  alignas(16) std::byte reduced[kSampleThreads * sizeof(Drawn)];
  std::uint64_t sums[kSampleHeads][kSampleBins];
  std::uint64_t running[kSampleThreads];
  BinEnd ends[kSampleHeads];
  std::int32_t listed[kSampleHeads], first[kSampleHeads];
};

// Combines all threads' values by take(). `scratch`: kSampleThreads of them.
template <class T>
SLUICE_DEVICE T reduce(const SampleTeam& team, std::byte* scratch, const PerThread<T, kSampleThreads>& values) {
  T* of = reinterpret_cast<T*>(scratch);
  team.sync();
  team.each([&](int t) { of[t] = values[t]; });
  for (int left = kSampleThreads / 8; left > 0; left /= 8) {
    team.sync();
    team.each([&](int t) {
      if (t >= left) return;
      T value = of[t];
      SLUICE_UNROLL
      for (int k = 1; k < 8; ++k) value.take(of[t + k * left]);
      of[t] = value;
    });
  }
  team.sync();
  return of[0];
}

// Returns the peaks of a row, whose parts lie at `found`.
SLUICE_DEVICE Peaks peaks_of_row(const SampleTeam& team, std::byte* scratch, const PartFound* found, int parts) {
  PerThread<Peaks, kSampleThreads> peaks;
  team.each([&](int t) {
    peaks[t] = {-INFINITY, {}};
    for (int p = t; p < parts; p += kSampleThreads) peaks[t].take(found[p].peaks);
  });
  return reduce(team, scratch, peaks);
}

// Eight ids of a thread: fours [id(0), id(0) + 4), [id(4), id(4) + 4), as far as they exist. The others have -inf.
struct PartValues {
  TokenId from;  // id(0)
  float logits[kSampleEach], a[kSampleEach];

  PartValues() = default;
  SLUICE_DEVICE PartValues(const RowView& row, int part, int t) : from(part * kPartIds + 4 * t) {
    struct alignas(16) Four {
      float values[4];
    };
    const bool whole = row.vocab % 4 == 0 && reinterpret_cast<std::uintptr_t>(row.logits) % 16 == 0;
    SLUICE_UNROLL
    for (int j = 0; j < kSampleEach; j += 4) {
      if (whole && id(j) < row.vocab) {
        const Four four = *reinterpret_cast<const Four*>(row.logits + id(j));
        SLUICE_UNROLL
        for (int k = 0; k < 4; ++k) logits[j + k] = four.values[k];
      } else {
        SLUICE_UNROLL
        for (int k = 0; k < 4; ++k) logits[j + k] = id(j + k) < row.vocab ? row.logits[id(j + k)] : -INFINITY;
      }
    }
    SLUICE_UNROLL
    for (int j = 0; j < kSampleEach; ++j) a[j] = id(j) < row.vocab ? row.adjusted(id(j), logits[j]) : -INFINITY;
  }

  SLUICE_DEVICE TokenId id(int j) const { return from + j / 4 * (4 * kSampleThreads) + j % 4; }
};

// Draws among those of a thread's ids that `mask` has, bit j for id j.
SLUICE_DEVICE Drawn drawn_of(const RowView& row, const PartValues& of, std::uint32_t mask, float m) {
  Drawn drawn{{}, 0};
  SLUICE_UNROLL
  for (int j = 0; j < kSampleEach; j += 4) {
    row.take_noisy<4>(of.id(j), of.a + j, m, [&](int k) { return (mask >> (j + k) & 1U) != 0; }, drawn.best);
  }
  SLUICE_UNROLL
  for (int j = 0; j < kSampleEach && row.logprobs && row.processed; ++j) {
    const float a = of.a[j];
    const bool kept = (mask >> j & 1U) != 0 && a > -INFINITY && row.passes_min_p((a - m) * row.scale);
    if (kept) drawn.weights += row.weight(a, m);
  }
  return drawn;
}

}  // namespace sluice::SLUICE_CUDA_OPS
