// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "kernels/common/sample_noise.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/kernel_table.h"

namespace sluice::cpu_ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr int kLanes = 16;

struct Candidate {
  float a;
  TokenId id;
};
bool stands_before(const Candidate& x, const Candidate& y) {
  return x.a > y.a || (x.a == y.a && x.id < y.id);
}

// A thread's memory, kept between calls, so that later calls allocate nothing.
struct SampleScratch {
  std::vector<float> adjusted, weights;
  std::vector<std::int32_t> bucket_of;
  std::vector<Candidate> bucket;
};

std::uint64_t weight_units(float w) {
  return static_cast<std::uint64_t>(std::llrint(w * kWeightUnits));
}

// The best candidate and its id; -inf and 0 if every candidate is -inf.
struct Peak {
  Candidate first{-kInfinity, 0};
  bool numbers = true;
};
Peak find_peak(const float* a, int vocab) {
  float highest[kLanes];
  int broken[kLanes] = {};
  std::fill_n(highest, kLanes, -kInfinity);
  const auto take = [&](int l, float value) {
    highest[l] = value > highest[l] ? value : highest[l];
    broken[l] |= static_cast<int>(!(value < kInfinity));
  };
  int i = 0;
  for (; i + kLanes <= vocab; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) take(l, a[i + l]);
  }
  for (; i < vocab; ++i) take(0, a[i]);
  Peak peak;
  peak.first.a = *std::max_element(highest, highest + kLanes);
  peak.numbers = std::count(broken, broken + kLanes, 0) == kLanes;
  if (peak.numbers) peak.first.id = static_cast<TokenId>(std::find(a, a + vocab, peak.first.a) - a);
  return peak;
}

const float* adjust(const float* logits, int vocab, const SampleRow& row, const std::uint32_t* allowed,
                    std::vector<float>& to) {
  if (allowed == nullptr && row.bias == nullptr) return logits;
  to.assign(logits, logits + vocab);
  for (int i = 0; row.bias != nullptr && i < vocab; ++i) to[static_cast<std::size_t>(i)] += row.bias[i];
  for (int i = 0; allowed != nullptr && i < vocab; ++i) {
    if ((allowed[i / 32] >> (i % 32) & 1) == 0) to[static_cast<std::size_t>(i)] = -kInfinity;
  }
  return to.data();
}

// The candidates of a row and those that the filters leave.
class RowSampler {
 public:
  RowSampler(const KernelTable& kernels, const SampleRow& row, const float* a, int vocab, Candidate first,
             SampleScratch& scratch)
      : kernels_(kernels),
        row_(row),
        a_(a),
        vocab_(vocab),
        first_(first),
        r_(row.temperature == 0.0F ? 1.0F : std::max(1.0F / row.temperature, std::numeric_limits<float>::min())),
        min_p_(row.temperature == 0.0F ? 0.0F : row.min_p),
        scratch_(scratch) {}

  // Draws the token; call it once. At temperature 0 no filter applies.
  TokenId draw() {
    if (row_.temperature == 0.0F) return first_.id;
    if (row_.top_k > 0 && row_.top_k < vocab_) {
      last_ = last_of_head([](const Candidate&) { return std::uint64_t{1}; },
                           [&](std::uint64_t candidates) {
                             return std::min(static_cast<double>(row_.top_k), static_cast<double>(candidates));
                           });
    }
    if (row_.top_p < 1.0F) {
      scratch_.weights.resize(static_cast<std::size_t>(vocab_));
      float* w = scratch_.weights.data();
      kernels_.sample_weights({a_, vocab_, first_.a, r_, w});
      last_ =
          last_of_head([this, w](const Candidate& c) { return stands_before(last_, c) ? 0 : weight_units(w[c.id]); },
                       [&](std::uint64_t all) { return static_cast<double>(row_.top_p) * static_cast<double>(all); });
    }
    return best_with_noise();
  }
  // Adds processed log-probabilities, after draw().
  void add_logprobs(SampledRow* out);

 private:
  float distance(float a) const { return (a - first_.a) * r_; }

  template <class Value, class Enough>
  Candidate last_of_head(const Value& value, const Enough& enough);
  bool kept(const Candidate& c) const {
    return !stands_before(last_, c) && !(min_p_ > 0.0F && exp_f32(distance(c.a)) < min_p_);
  }

  TokenId best_with_noise();
  bool may_win(const float* a, float best) const;
  bool may_win(const float* a, const std::uint32_t* words, float best) const;

  const KernelTable& kernels_;
  const SampleRow& row_;
  const float* a_;
  const int vocab_;
  const Candidate first_;
  const float r_, min_p_;
  SampleScratch& scratch_;
  // The last candidate of the list that the filters keep.
  Candidate last_{kLowest, std::numeric_limits<TokenId>::max()};
};

// Returns the last candidate of the shortest head of the list whose sum of value() reaches enough(all), where `all` is
// the sum over all candidates above -inf. Sums are exact, so the list need not be sorted: it is cut into buckets by a,
// then the bucket where the head ends by halves.
template <class Value, class Enough>
Candidate RowSampler::last_of_head(const Value& value, const Enough& enough) {
  constexpr int kBuckets = 512;
  constexpr float kReach = 16.0F;  // candidates further down share the last bucket
  scratch_.bucket_of.resize(static_cast<std::size_t>(vocab_));
  std::int32_t* bucket_of = scratch_.bucket_of.data();
  const float* const a = a_;
  const float first = first_.a, r = r_, last_bucket = kBuckets - 1;
  const int vocab = vocab_;
  for (int i = 0; i < vocab; ++i) {  // a plain loop, which the compiler vectorises
    const auto place = static_cast<std::int32_t>(std::min((first - a[i]) * r * (kBuckets / kReach), last_bucket));
    bucket_of[i] = place + static_cast<int>(a[i] < kLowest);
  }
  std::uint64_t sums[kBuckets + 1] = {};  // the last bin: candidates of -inf
  for (TokenId id = 0; id < vocab_; ++id) sums[bucket_of[id]] += value({a_[id], id});
  const double wanted = enough(std::accumulate(sums, sums + kBuckets, std::uint64_t{0}));
  const auto reaches = [&](std::uint64_t sum) { return static_cast<double>(sum) >= wanted; };
  int last = 0;
  std::uint64_t before = 0;
  while (last < kBuckets - 1 && !reaches(before + sums[last])) before += sums[last++];

  std::vector<Candidate>& bucket = scratch_.bucket;
  bucket.clear();
  for (TokenId id = 0; id < vocab_; ++id) {
    if (bucket_of[id] == last) bucket.push_back({a_[id], id});
  }
  // Invariant: the candidates before `begin` are not enough; with [begin, end) they are.
  auto begin = bucket.begin(), end = bucket.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, stands_before);
    std::uint64_t sum = before;
    for (auto c = begin; c != middle; ++c) sum += value(*c);
    if (reaches(sum)) {
      end = middle;
    } else {
      begin = middle;
      before = sum;
    }
  }
  return *begin;
}

// Ids are handled in blocks, so that vectors of bounds leave out most candidates.
constexpr int kBlock = 64;

// Returns true if a candidate of the block may have a z >= `best`.
bool RowSampler::may_win(const float* a, float best) const {
  const float floor = last_.a;
  int any = 0;
  for (int i = 0; i < kBlock; ++i) {
    any |= static_cast<int>(distance(a[i]) + kMaxNoise >= best) & static_cast<int>(a[i] >= floor);
  }
  return any != 0;
}
bool RowSampler::may_win(const float* a, const std::uint32_t* words, float best) const {
  const float floor = last_.a;
  int any = 0;
  for (int i = 0; i < kBlock; ++i) {
    any |= static_cast<int>(distance(a[i]) + noise_bound(words[i]) >= best) & static_cast<int>(a[i] >= floor);
  }
  return any != 0;
}

TokenId RowSampler::best_with_noise() {
  TokenId token = first_.id;
  float best = gumbel_noise(noise_word(row_.seed, row_.position, token));
  float rest[kBlock];
  std::uint32_t words[kBlock];
  for (int begin = 0; begin < vocab_; begin += kBlock) {
    const float* a = a_ + begin;
    if (begin + kBlock > vocab_) {
      std::fill(std::copy(a, a_ + vocab_, rest), rest + kBlock, -kInfinity);
      a = rest;
    }
    if (!may_win(a, best)) continue;
    for (int i = 0; i < kBlock; i += 4) {
      const PhiloxCounter four = noise_words(row_.seed, row_.position, static_cast<std::uint32_t>(begin + i) / 4);
      std::copy(four.begin(), four.end(), words + i);
    }
    if (!may_win(a, words, best)) continue;
    for (int i = 0; i < kBlock; ++i) {
      const float d = distance(a[i]);
      if (!(d + noise_bound(words[i]) >= best)) continue;
      const float z = d + gumbel_noise(words[i]);
      const TokenId id = begin + i;
      if (z < best || (z == best && id >= token) || !kept({a[i], id})) continue;
      best = z;
      token = id;
    }
  }
  return token;
}

// Finds the first `count` candidates of the list by insertion, which is fast as few candidates displace another.
int head_of_list(const float* a, int vocab, int count, std::array<TokenId, kSampledTop + kSampledIds>* ids) {
  Candidate head[kSampledTop];
  int size = 0;
  for (TokenId id = 0; id < vocab && count > 0; ++id) {
    if (size == count && !(a[id] > head[size - 1].a)) continue;
    if (size < count) ++size;
    int at = size - 1;
    for (; at > 0 && a[id] > head[at - 1].a; --at) head[at] = head[at - 1];
    head[at] = {a[id], id};
  }
  for (int i = 0; i < size; ++i) (*ids)[static_cast<std::size_t>(i)] = head[i].id;
  return size;
}

// Adds log-probabilities, which logprob() computes. The best ones are the first top_logprobs by value that `kept`
// keeps, which are a head of the list.
template <class Logprob, class Kept>
void list_logprobs(const SampleRow& row, const float* values, int vocab, const Logprob& logprob, const Kept& kept,
                   SampledRow* out) {
  out->logprob = logprob(out->token);
  out->top_count = head_of_list(values, vocab, row.top_logprobs, &out->top_ids);
  for (; out->top_count > 0; --out->top_count) {
    TokenId& last = out->top_ids[static_cast<std::size_t>(out->top_count - 1)];
    if (kept(last)) break;
    last = 0;
  }
  std::copy_n(row.ids.begin(), row.id_count, out->top_ids.begin() + out->top_count);
  out->top_count += row.id_count;
  for (std::size_t i = 0; i < static_cast<std::size_t>(out->top_count); ++i) {
    out->top_logprobs[i] = logprob(out->top_ids[i]);
  }
}

float log_of_sum(std::uint64_t sum) {
  return log_f32(static_cast<float>(sum) * (1.0F / kWeightUnits));
}

void add_raw_logprobs(const KernelTable& kernels, const SampleRow& row, const float* logits, int vocab, float highest,
                      SampledRow* out) {
  const float log_sum = log_of_sum(kernels.sample_weights({logits, vocab, highest, 1.0F, nullptr}));
  list_logprobs(
      row, logits, vocab, [&](TokenId id) { return ((logits[id] - highest) - log_sum) + 0.0F; },
      [](TokenId) { return true; }, out);
}

void RowSampler::add_logprobs(SampledRow* out) {
  scratch_.weights.resize(static_cast<std::size_t>(vocab_));
  float* w = scratch_.weights.data();
  kernels_.sample_weights({a_, vocab_, first_.a, r_, w});
  std::uint64_t sum = 0;
  for (TokenId id = 0; id < vocab_; ++id) {
    if (!stands_before(last_, {a_[id], id}) && !(w[id] < min_p_)) sum += weight_units(w[id]);
  }
  const float log_sum = log_of_sum(sum);
  const auto kept = [this](TokenId id) { return this->kept({a_[id], id}); };
  list_logprobs(
      row_, a_, vocab_, [&](TokenId id) { return kept(id) ? (distance(a_[id]) - log_sum) + 0.0F : -kInfinity; }, kept,
      out);
}

void sample_row(const KernelTable& kernels, const SampleArgs& args, int index) {
  thread_local SampleScratch scratch;
  const SampleRow& row = args.params[index];
  const float* logits = args.logits + static_cast<std::ptrdiff_t>(row.row) * args.vocab;
  SampledRow& out = args.out[index];
  out = {};
  const Peak raw = find_peak(logits, args.vocab);
  const float* a = adjust(logits, args.vocab, row, mask_of(args, row), scratch.adjusted);
  const Peak peak = a == logits ? raw : find_peak(a, args.vocab);
  if (!raw.numbers || !peak.numbers) {
    out.status = SampleStatus::kNotNumbers;
  } else if (peak.first.a == -kInfinity) {
    out.status = SampleStatus::kNoCandidate;
  } else {
    RowSampler sampler(kernels, row, a, args.vocab, peak.first, scratch);
    out.token = sampler.draw();
    if (row.top_logprobs >= 0 && row.processed) sampler.add_logprobs(&out);
    if (row.top_logprobs >= 0 && !row.processed) {
      add_raw_logprobs(kernels, row, logits, args.vocab, raw.first.a, &out);
    }
  }
  if (row.slot >= 0) args.newest[row.slot] = std::max(out.token, 0);
}

}  // namespace

void sample(const Exec& exec, const SampleArgs& args) {
  SLUICE_CHECK(!args.greedy || std::all_of(args.params, args.params + args.rows, is_greedy),
               "who promises that all rows are greedy keeps it");
  SLUICE_CHECK(args.vocab <= kMaxSampleVocab, "a vocabulary whose weights can be summed");
  const auto tile = [&](int row, int) { sample_row(*exec.kernels, args, row); };
  exec.pool->run(args.rows, std::ref(tile));
}

void take_ids(const Exec&, const TakeIdsArgs& args) {
  for (int row = 0; row < args.rows; ++row) {
    if (args.slots[row] >= 0) args.ids[row] = args.newest[args.slots[row]];
  }
}

}  // namespace sluice::cpu_ops
