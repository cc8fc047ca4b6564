// sample (kernels/ops/sample.h): three kernels with a team for each part of a row (sample_parts.h), then a team a row
// (sample_finish.h); and take_ids.
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/shared/sample_finish.h"
#include "kernels/cuda/shared/sample_parts.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

// Finds each part's peaks, and sets the row's sums and counts to 0.
struct SamplePeaks {
  static constexpr int kThreads = kSampleThreads;
  SampleWork work;

  SLUICE_DEVICE void operator()(const SampleTeam& team) const {
    const int row_index = team.index / work.parts, part = team.index % work.parts;
    const RowView row = work.view(row_index);
    RowFound& found = work.rows[row_index];
    PerThread<Peaks, kThreads> peaks;
    team.each([&](int t) {
      const PartValues values(row, part, t);
      if (!row.greedy || row.logprobs) {
        for (int i = part * kThreads + t; i < kSampleHeads * kSampleBins; i += work.parts * kThreads) {
          found.sums[i / kSampleBins][i % kSampleBins] = 0;
        }
        if (part == 0 && t < kSampleHeads) found.listed[t] = 0;
      }
      peaks[t] = {-INFINITY, {}};
      bool broken = false;
      SLUICE_UNROLL
      for (int j = 0; j < kSampleEach; ++j) {
        const float logit = values.logits[j], a = values.a[j];
        broken |= !(logit < INFINITY) || !(a < INFINITY);
        if (values.id(j) < row.vocab) peaks[t].take({logit, {a, values.id(j)}});
      }
      if (broken) peaks[t].highest = INFINITY;
    });
    const Peaks of_part = reduce(team, team.shared, peaks);
    team.each([&](int t) {
      if (t == 0) work.found[team.index].peaks = of_part;
    });
  }
};

// Computes the sums of the bins; without filters it also draws.
struct SampleWeights {
  static constexpr int kThreads = kSampleThreads;
  SampleWork work;

  SLUICE_DEVICE void operator()(const SampleTeam& team) const {
    SampleShared& shared = *reinterpret_cast<SampleShared*>(team.shared);
    const int row_index = team.index / work.parts, part = team.index % work.parts;
    const RowView row = work.view(row_index);
    if (row.greedy && !row.logprobs) return;
    PerThread<PartValues, kThreads> values;
    team.each([&](int t) {
      values[t] = PartValues(row, part, t);
      for (int i = t; i < kSampleBins; i += kThreads) shared.sums[kFiltered][i] = shared.sums[kTop][i] = 0;
    });
    const PartFound* parts = work.found + static_cast<std::ptrdiff_t>(row_index) * work.parts;
    const Peaks peaks = peaks_of_row(team, shared.reduced, parts, work.parts);
    if (!peaks.can_draw()) return;
    const float m = peaks.first.value;
    const bool filtered = row.filtered();
    PerThread<Drawn, kThreads> drawn;
    team.each([&](int t) {
      const PartValues& of = values[t];
      drawn[t] = drawn_of(row, of, filtered ? 0 : ~0U, m);
      SLUICE_UNROLL
      for (int j = 0; j < kSampleEach; ++j) {
        if (of.id(j) >= row.vocab) continue;
        const float a = of.a[j];
        if (filtered && a > -INFINITY) {
          const std::uint64_t w = row.top_k > 0 ? 1 : row.weight(a, m);
          if (w > 0) add_to_sum(&shared.sums[kFiltered][bin_below(m, a)], w);
        }
        if (row.top_count > 0 && !row.processed) {
          add_to_sum(&shared.sums[kTop][bin_below(peaks.highest, of.logits[j])], 1);
        } else if (row.top_count > 0 && a > -INFINITY) {
          add_to_sum(&shared.sums[kTop][bin_below(m, a)], 1);
        }
        if (row.logprobs && !row.processed) drawn[t].weights += weight_units(exp_f32(of.logits[j] - peaks.highest));
      }
    });
    const Drawn of_part = reduce(team, shared.reduced, drawn);
    RowFound& found = work.rows[row_index];
    team.each([&](int t) {
      if (t == 0) work.found[team.index].drawn = of_part;
      for (int i = t; i < kSampleHeads * kSampleBins; i += kThreads) {
        const std::uint64_t sum = shared.sums[i / kSampleBins][i % kSampleBins];
        if (sum > 0) add_atomically(&found.sums[i / kSampleBins][i % kSampleBins], sum);
      }
    });
  }
};

// Finds the bins where the heads end, lists the ids that the last kernel reads, and draws among those in higher bins.
struct SampleGather {
  static constexpr int kThreads = kSampleThreads;
  SampleWork work;

  SLUICE_DEVICE void operator()(const SampleTeam& team) const {
    SampleShared& shared = *reinterpret_cast<SampleShared*>(team.shared);
    const int row_index = team.index / work.parts, part = team.index % work.parts;
    const RowView row = work.view(row_index);
    const bool filtered = row.filtered(), top = row.top_count > 0;
    if (!filtered && !top) return;
    PerThread<PartValues, kThreads> values;
    team.each([&](int t) {
      values[t] = PartValues(row, part, t);
      if (t < kSampleHeads) shared.listed[t] = 0;
    });
    const PartFound* parts = work.found + static_cast<std::ptrdiff_t>(row_index) * work.parts;
    const Peaks peaks = peaks_of_row(team, shared.reduced, parts, work.parts);
    if (!peaks.can_draw()) return;
    RowFound& found = work.rows[row_index];
    if (filtered) {
      find_end(team, shared, found.sums[kFiltered], shared.ends[kFiltered], [&](std::uint64_t sum, std::uint64_t all) {
        return row.top_k > 0 ? sum >= static_cast<std::uint64_t>(row.top_k) : row.reaches_top_p(sum, all);
      });
    }
    if (top) {
      find_end(team, shared, found.sums[kTop], shared.ends[kTop],
               [&](std::uint64_t sum, std::uint64_t) { return sum >= static_cast<std::uint64_t>(row.top_count); });
    }
    const float m = peaks.first.value;
    const bool listed_alone = filtered && row.top_k == 0;  // ids in higher bins are certainly kept
    const int filter_end = filtered ? shared.ends[kFiltered].bin : -1, top_end = top ? shared.ends[kTop].bin : -1;
    PerThread<std::uint32_t, kThreads> lists[kSampleHeads];  // bit j: id j of the thread
    PerThread<std::int32_t, kThreads> places[kSampleHeads];
    PerThread<Drawn, kThreads> drawn;
    team.each([&](int t) {
      const PartValues& of = values[t];
      std::uint32_t higher = 0, listed[kSampleHeads] = {};
      SLUICE_UNROLL
      for (int j = 0; j < kSampleEach; ++j) {
        if (of.id(j) >= row.vocab) continue;
        const float a = of.a[j];
        const int bin = a > -INFINITY ? bin_below(m, a) : kSampleBins;
        const bool above = listed_alone && bin < filter_end;
        if (above) higher |= 1U << j;
        if (!above && bin <= filter_end) listed[kFiltered] |= 1U << j;
        if ((row.processed ? bin : bin_below(peaks.highest, of.logits[j])) <= top_end) listed[kTop] |= 1U << j;
      }
      drawn[t] = drawn_of(row, of, higher, m);
      for (int head = 0; head < kSampleHeads; ++head) {
        lists[head][t] = listed[head];
        if (listed[head] != 0) places[head][t] = add_atomically(&shared.listed[head], std::popcount(listed[head]));
      }
    });
    team.sync();
    team.each([&](int t) {
      if (part == 0 && t < kSampleHeads) found.ends[t] = shared.ends[t];
      if (t < kSampleHeads && shared.listed[t] > 0) {
        shared.first[t] = add_atomically(&found.listed[t], shared.listed[t]);
      }
    });
    team.sync();
    team.each([&](int t) {
      for (int head = 0; head < kSampleHeads; ++head) {
        if (lists[head][t] == 0) continue;
        int place = shared.first[head] + places[head][t];
        for (int j = 0; j < kSampleEach; ++j) {
          if ((lists[head][t] >> j & 1U) == 0) continue;
          if (place < kMostListed) found.ids[head][place] = values[t].id(j);
          ++place;
        }
      }
    });
    if (!listed_alone) return;
    const Drawn of_part = reduce(team, shared.reduced, drawn);
    team.each([&](int t) {
      if (t > 0) return;
      Drawn& to = work.found[team.index].drawn;
      to.best = of_part.best;
      if (row.processed) to.weights = of_part.weights;
    });
  }

  // Finds the first bin with which the sums are enough, or the last one.
  template <class Reaches>
  SLUICE_DEVICE static void find_end(const SampleTeam& team, SampleShared& shared, const std::uint64_t* sums,
                                     BinEnd& end, const Reaches& reaches) {
    constexpr int kEach = kSampleBins / kThreads;
    struct Sums {
      std::uint64_t of[kEach];
    };
    PerThread<Sums, kThreads> own;
    PerThread<std::uint64_t, kThreads> running;
    team.each([&](int t) {
      running[t] = 0;
      SLUICE_UNROLL
      for (int k = 0; k < kEach; ++k) own[t].of[k] = sums[kEach * t + k];
      SLUICE_UNROLL
      for (int k = 0; k < kEach; ++k) running[t] += own[t].of[k];
    });
    scan(team, running, shared.running);
    const std::uint64_t all = shared.running[kThreads - 1];
    team.each([&](int t) {
      std::uint64_t before = t > 0 ? shared.running[t - 1] : 0;
      if (t > 0 && reaches(before, all)) return;
      SLUICE_UNROLL
      for (int k = 0; k < kEach; ++k) {
        const int bin = kEach * t + k;
        if (reaches(before + own[t].of[k], all) || bin == kSampleBins - 1) {
          end = {bin, before, all};
          return;
        }
        before += own[t].of[k];
      }
    });
    team.sync();
  }
};

struct TakeIds {
  static constexpr int kThreads = 1;
  TakeIdsArgs args;
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const std::int32_t slot = args.slots[team.index];
    if (slot >= 0) args.ids[team.index] = args.newest[slot];
  }
};

}  // namespace

void take_ids(const Exec& exec, const TakeIdsArgs& args) {
  launch(exec, args.rows, TakeIds{args});
}

void sample(const Exec& exec, const SampleArgs& args) {
  constexpr int kRowsAtOnce = 256;
  SLUICE_CHECK(args.vocab <= kMaxSampleVocab, "a vocabulary whose weights can be summed");
  const int parts = (args.vocab + kPartIds - 1) / kPartIds;
  for (int first = 0; first < args.rows; first += kRowsAtOnce) {
    SampleWork work{args, parts, nullptr, nullptr};
    work.args.rows = std::min(kRowsAtOnce, args.rows - first);
    work.args.params += first;
    work.args.out += first;
    const auto rows = static_cast<std::size_t>(work.args.rows);
    const std::size_t row_bytes = sizeof(RowFound) + static_cast<std::size_t>(parts) * sizeof(PartFound);
    work.rows = reinterpret_cast<RowFound*>(workspace(exec, rows * row_bytes));
    work.found = reinterpret_cast<PartFound*>(work.rows + rows);
    const std::int64_t teams = std::int64_t{work.args.rows} * parts;
    launch(exec, teams, SamplePeaks{work}, kSampleThreads * sizeof(Peaks));
    if (!args.greedy) {
      launch(exec, teams, SampleWeights{work}, sizeof(SampleShared));
      launch(exec, teams, SampleGather{work}, sizeof(SampleShared));
    }
    launch(exec, work.args.rows, SampleFinish{work}, sizeof(FinishShared));
  }
}

}  // namespace sluice::SLUICE_CUDA_OPS
