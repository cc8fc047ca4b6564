// The last kernel of sample(): a team for each row, which works on the finds of the row's parts (sample_parts.h).
// Used by shared_sample.cu.
#pragma once

#include "kernels/cuda/shared/sample_parts.h"

namespace sluice::SLUICE_CUDA_OPS {

struct FinishShared {
  alignas(16) std::byte reduced[kSampleThreads * sizeof(Drawn)];
  SelectScratch<kSampleThreads> select;
  HeadEnd listed[kSampleThreads], ordered[kSampleThreads];  // items as (key, id): as found, and sorted
  HeadEnd end;
  TokenId ids[kSampledTop];
  std::int32_t count;
};

// Items among which a head ends: those listed, or, if these were too many, all ids. weight(id) is 0 for ids that are
// not among them.
struct Items {
  const TokenId* listed;
  int count;

  SLUICE_DEVICE Items(const RowFound& found, SampleHead head, int vocab)
      : listed(found.listed[head] <= kMostListed ? found.ids[head] : nullptr),
        count(listed != nullptr ? found.listed[head] : vocab) {}
  SLUICE_DEVICE TokenId id(int i) const { return listed != nullptr ? listed[i] : i; }
};

struct SampleFinish {
  static constexpr int kThreads = kSampleThreads;
  SampleWork work;

  SLUICE_DEVICE void operator()(const SampleTeam& team) const {
    FinishShared& shared = *reinterpret_cast<FinishShared*>(team.shared);
    const SampleRow& params = work.args.params[team.index];
    const RowView row = work.view(team.index);
    const RowFound& found = work.rows[team.index];
    const PartFound* parts = work.found + static_cast<std::ptrdiff_t>(team.index) * work.parts;
    const Peaks peaks = peaks_of_row(team, shared.reduced, parts, work.parts);
    SampledRow& out = work.args.out[team.index];
    team.each([&](int t) {
      if (t < kSampledTop + kSampledIds) {
        out.top_ids.data()[t] = 0;
        out.top_logprobs.data()[t] = 0.0F;
      }
      if (t > 0) return;
      out.status = peaks.broken()     ? SampleStatus::kNotNumbers
                   : peaks.can_draw() ? SampleStatus::kOk
                                      : SampleStatus::kNoCandidate;
      out.token = -1;
      out.logprob = 0.0F;
      out.top_count = 0;
    });
    HeadEnd end{INT32_MIN, row.vocab};  // the end of the kept items; at first all are kept
    Drawn drawn{peaks.first, 0};
    if (peaks.can_draw() && (!row.greedy || row.logprobs)) {
      const float m = peaks.first.value;
      if (row.filtered()) end = filters_end(team, shared, row, found, m);
      const Drawn some = draw(team, shared, row, found, parts, m, end);
      drawn.weights = some.weights;
      if (!row.greedy) drawn.best = some.best;
    }
    const TokenId token = peaks.can_draw() ? drawn.best.id : -1;
    team.each([&](int t) {
      if (t > 0) return;
      out.token = token;
      if (params.slot >= 0) work.args.newest[params.slot] = token < 0 ? 0 : token;
    });
    if (!peaks.can_draw() || !row.logprobs) return;
    const float log_sum = log_f32(static_cast<float>(drawn.weights) * (1.0F / kWeightUnits));
    const bool processed = row.processed;
    const Scale scale{processed ? peaks.first.value : peaks.highest, processed ? row.scale : 1.0F, log_sum};
    add_logprobs(team, shared, row, scale, end, token, out);
  }

  // Finds the shortest head of the items whose weights are enough, as select_head() defines it, ties by id; all of them
  // if none is.
  template <class Key, class Weight, class Reaches>
  SLUICE_DEVICE HeadEnd head_of(const SampleTeam& team, FinishShared& shared, const Items& items, const Key& key,
                                const Weight& weight, const Reaches& reaches) const {
    const bool listed = items.listed != nullptr;
    if (listed && items.count <= kThreads) return head_of_few(team, shared, items, key, weight, reaches);
    const auto key_of = [&](int i) { return key(items.id(i)); };
    const auto weight_of = [&](int i) { return weight(items.id(i)); };
    const HeadEnd end = select_head(team, shared.select, items.count, key_of, weight_of, reaches);
    if (!listed) return end;
    // The list is in no order: among the items with that key it again needs a head, by id.
    const std::uint64_t before = shared.select.before, all = shared.select.total;
    const HeadEnd last = select_head(
        team, shared.select, items.count, [&](int i) { return -items.listed[i]; },
        [&](int i) { return key_of(i) == end.key ? weight_of(i) : 0; },
        [&](std::uint64_t sum, std::uint64_t) { return reaches(before + sum, all); });
    return {end.key, last.key == INT32_MIN ? INT32_MAX : -last.key};
  }

  // Each thread has an item, and finds its place among the others.
  template <class Key, class Weight, class Reaches>
  SLUICE_DEVICE HeadEnd head_of_few(const SampleTeam& team, FinishShared& shared, const Items& items, const Key& key,
                                    const Weight& weight, const Reaches& reaches) const {
    team.sync();
    team.each([&](int t) {
      if (t < items.count) shared.listed[t] = {key(items.listed[t]), items.listed[t]};
      shared.select.running[t] = 0;
      if (t == 0) shared.end = {INT32_MIN, INT32_MAX};
    });
    team.sync();
    team.each([&](int t) {
      if (t >= items.count) return;
      const HeadEnd own = shared.listed[t];
      int place = -1;
      SLUICE_UNROLL_8
      for (int i = 0; i < items.count; ++i) place += own.holds(shared.listed[i].key, shared.listed[i].index) ? 1 : 0;
      shared.ordered[place] = own;
      shared.select.running[place] = weight(own.index);
    });
    team.sync();
    PerThread<std::uint64_t, kThreads> sums;
    team.each([&](int t) { sums[t] = shared.select.running[t]; });
    scan(team, sums, shared.select.running);
    const std::uint64_t all = shared.select.running[kThreads - 1];
    team.each([&](int t) {
      const std::uint64_t before = t > 0 ? shared.select.running[t - 1] : 0, with = shared.select.running[t];
      if (with == before || (before > 0 && reaches(before, all))) return;
      if (with == all || reaches(with, all)) shared.end = shared.ordered[t];
    });
    team.sync();
    return shared.end;
  }

  // Finds the end of the items that all filters but min_p keep.
  SLUICE_DEVICE HeadEnd filters_end(const SampleTeam& team, FinishShared& shared, const RowView& row,
                                    const RowFound& found, float m) const {
    const Items items(found, kFiltered, row.vocab);
    const BinEnd bin = found.ends[kFiltered];
    const auto key = [&](int i) { return order_key(row.adjusted(i)); };
    HeadEnd end{INT32_MIN, row.vocab};
    if (row.top_k > 0) {
      const auto wanted = static_cast<std::uint64_t>(row.top_k);
      end = head_of(
          team, shared, items, key,
          [&](int i) { return std::uint64_t{is_item(row, row.adjusted(i), m, bin.bin) ? 1U : 0U}; },
          [&](std::uint64_t sum, std::uint64_t) { return sum >= wanted; });
    }
    if (row.top_p == 1.0F) return end;
    const HeadEnd by_count = end;
    return head_of(
        team, shared, items, key,
        [&](int i) {
          const float a = row.adjusted(i);
          return is_item(row, a, m, bin.bin) && by_count.holds(order_key(a), i) ? row.weight(a, m) : 0;
        },
        [&](std::uint64_t sum, std::uint64_t all) {
          return row.top_k > 0 ? row.reaches_top_p(sum, all) : row.reaches_top_p(bin.before + sum, bin.total);
        });
  }
  static SLUICE_DEVICE bool is_item(const RowView& row, float a, float m, int end) {
    if (!(a > -INFINITY)) return false;
    const int bin = bin_below(m, a);
    return row.top_k > 0 ? bin <= end : bin == end;
  }

  // Joins the draws of the parts with the items that are kept.
  SLUICE_DEVICE Drawn draw(const SampleTeam& team, FinishShared& shared, const RowView& row, const RowFound& found,
                           const PartFound* parts, float m, const HeadEnd& end) const {
    PerThread<Drawn, kThreads> drawn;
    const bool weighs = row.logprobs && row.processed;
    team.each([&](int t) {
      drawn[t] = {{}, 0};
      for (int p = t; p < work.parts; p += kThreads) drawn[t].take(parts[p].drawn);
      if (!row.filtered()) return;
      const Items items(found, kFiltered, row.vocab);
      const int bin = found.ends[kFiltered].bin;
      for (int i = t; i < items.count; i += kThreads) {
        const TokenId id = items.id(i);
        const float a = row.adjusted(id);
        if (!is_item(row, a, m, bin) || !end.holds(order_key(a), id)) continue;
        row.take_noisy<1>(id, &a, m, [](int) { return true; }, drawn[t].best);
        if (weighs && row.passes_min_p((a - m) * row.scale)) drawn[t].weights += row.weight(a, m);
      }
    });
    return reduce(team, shared.reduced, drawn);
  }

  struct Scale {
    float highest, factor, log_sum;
  };

  SLUICE_DEVICE void add_logprobs(const SampleTeam& team, FinishShared& shared, const RowView& row, const Scale& scale,
                                  const HeadEnd& end_of_kept, TokenId token, SampledRow& out) const {
    const SampleRow& params = work.args.params[team.index];
    const auto value = [&](int i) { return row.processed ? row.adjusted(i) : row.logits[i]; };
    const auto kept = [&](int i) {  // true for the ids of the head that the filters keep
      if (!row.processed) return true;
      const float a = value(i);
      return a > -INFINITY && end_of_kept.holds(order_key(a), i) && row.passes_min_p((a - scale.highest) * row.scale);
    };
    const auto logprob = [&](int i) {
      return kept(i) ? ((value(i) - scale.highest) * scale.factor - scale.log_sum) + 0.0F : -INFINITY;
    };
    const auto key = [&](int i) { return order_key(value(i)); };
    int count = 0;
    if (row.top_count > 0) {
      const RowFound& found = work.rows[team.index];
      const Items items(found, kTop, row.vocab);
      const int bin = found.ends[kTop].bin;
      const auto wanted = static_cast<std::uint64_t>(row.top_count);
      const auto is_item = [&](int i) {
        const float of = value(i);
        return !(row.processed && of == -INFINITY) && bin_below(scale.highest, of) <= bin;
      };
      const HeadEnd end = head_of(
          team, shared, items, key, [&](int i) { return std::uint64_t{is_item(i) ? 1U : 0U}; },
          [&](std::uint64_t sum, std::uint64_t) { return sum >= wanted; });
      team.each([&](int t) {
        if (t == 0) shared.count = 0;
      });
      team.sync();
      team.each([&](int t) {
        for (int i = t; i < items.count; i += kThreads) {
          const TokenId id = items.id(i);
          if (is_item(id) && end.holds(key(id), id)) shared.ids[add_atomically(&shared.count, 1)] = id;
        }
      });
      team.sync();
      count = shared.count;
      team.each([&](int t) {
        if (t >= count || !kept(shared.ids[t])) return;
        const TokenId id = shared.ids[t];
        int rank = 0;
        for (int i = 0; i < count; ++i) {
          rank += HeadEnd{key(id), id - 1}.holds(key(shared.ids[i]), shared.ids[i]) ? 1 : 0;
        }
        out.top_ids.data()[rank] = id;
        out.top_logprobs.data()[rank] = logprob(id);
      });
    }
    team.each([&](int t) {
      if (t > params.id_count) return;
      int best = 0;
      for (int i = 0; i < count; ++i) best += kept(shared.ids[i]) ? 1 : 0;
      if (t == params.id_count) {
        out.logprob = logprob(token);
        out.top_count = best + params.id_count;
        return;
      }
      const TokenId id = params.ids.data()[t];
      out.top_ids.data()[best + t] = id;
      out.top_logprobs.data()[best + t] = logprob(id);
    });
  }
};

}  // namespace sluice::SLUICE_CUDA_OPS
