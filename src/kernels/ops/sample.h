// sample: draws one token from each row of logits, by Gumbel-max.
//
// For a row at temperature T, in f32, with each operation rounded, and exp and log those of kernels/common/math.h:
//   a_i   the candidate: logit_i + bias_i where id i is allowed, else -inf. Candidates of -inf are never drawn.
//   list  the candidates, higher a first, then lower id
//   m     the highest a;  r = max(1 / T, 2^-126);  d_i = (a_i - m) * r;  w_i = exp(d_i)
//   W_i   w_i * 2^34, rounded to an integer, ties to even: with integers a sum is the same in whatever order
// Filters, in this order:
//   top_k (> 0)  the first top_k of the list
//   top_p (< 1)  of these the shortest head whose sum of W reaches top_p times the sum over all that top_k left
//                (the sums and their product rounded to f64)
//   min_p (> 0)  those with w_i >= min_p (the best one has 1)
//   token        of the candidates that are left the one with the highest z_i = d_i + g_i, the lower id of equal ones;
//                g_i is the noise of (seed, position, i), kernels/common/sample_noise.h
// T = 0: the token is the first of the list.
//
// The token of a row is drawn with probability w_i / sum of the kept w, to the resolution of the noise. A filter or a
// mask only removes candidates; those that stay keep their noise. So two rows with the same seed and position and
// similar logits mostly draw the same token. If V is the total variation distance between their distributions, the two
// tokens agree at least (1 - V) / (1 + V) of the time (Daliri, Musco, Suresh, arXiv 2408.07978).
//
// Log-probabilities are those of the raw logits, whatever the temperature, filters, mask and biases. M is the highest
// logit and S the sum of exp(logit_i - M), in the integers above, times 2^-34:
//   logprob_i = (logit_i - M) - log(S), S rounded to f32
// If `processed` is set they are those at which tokens are drawn. For the candidates that the filters keep, with S the
// sum of their W,
//   logprob_i = d_i - log(S), -inf for all other ids
// where T = 0 counts as T = 1 without filters. A zero of either is +0, whichever zero the highest logit was.
//
// Row contract: an output row is a function of its SampleRow and its row of logits. Evaluations that cannot change the
// result may be left out: a candidate with d_i + kMaxNoise below another's z loses whatever its noise.
// Used by bench, engine/runner, engine/step, engine/step/drafts and model.
#pragma once

#include <array>
#include <cstdint>

#include "base/host_device.h"
#include "base/index_types.h"
#include "kernels/device/exec.h"

namespace sluice {

inline constexpr int kSampledTop = 20;           // most log-probabilities of a row, in addition to the token's own
inline constexpr int kSampledIds = 64;           // most ids with log-probabilities, in addition to these
inline constexpr int kMaxSampleVocab = 1 << 23;  // so that each of sixteen f64 lanes holds its sum of W exactly
inline constexpr float kWeightUnits = 0x1p34F;   // W of the best candidate

struct SampleRow {
  int row = 0;  // the row of the logits
  float temperature = 1.0F;
  int top_k = 0;       // <= 0: off
  float top_p = 1.0F;  // >= 1: off
  float min_p = 0.0F;  // <= 0: off; at most 1
  std::uint64_t seed = 0;
  Position position = 0;                   // the position of the token that is drawn
  int top_logprobs = -1;                   // -1: no log-probabilities; n: for the token and the n best ids, at most 20
  const std::uint32_t* allowed = nullptr;  // id i: bit i mod 32 of word i / 32; null: all ids
  std::int32_t mask = -1;                  // its mask's number in SampleArgs::masks, if these are given; -1: all ids
  const float* bias = nullptr;             // [vocab], finite or -inf; null: 0
  std::int32_t slot = -1;                  // the place in `newest` that keeps the token; -1: none
  bool processed = false;                  // log-probabilities are those at which tokens are drawn
  int id_count = 0;                        // log-probabilities are also returned for the first id_count of `ids`
  std::array<TokenId, kSampledIds> ids{};  // each below vocab
};

// True if the token needs no noise and only the token is wanted.
constexpr bool is_greedy(const SampleRow& row) {
  return row.temperature == 0.0F && row.top_logprobs < 0;
}

enum class SampleStatus : std::uint8_t {
  kOk,
  kNotNumbers,   // a logit, or one with its bias, is NaN or +inf
  kNoCandidate,  // every candidate is -inf
};

struct SampledRow {  // if the status is not kOk, the other fields are unspecified
  SampleStatus status = SampleStatus::kOk;
  TokenId token = -1;
  float logprob = 0.0F;
  int top_count =
      0;  // the row's best by logit, then lower id (processed: the kept ones in the list's order), then `ids`
  std::array<TokenId, kSampledTop + kSampledIds> top_ids{};
  std::array<float, kSampledTop + kSampledIds> top_logprobs{};
};

struct SampleArgs {
  int rows = 0, vocab = 0;            // vocab at most kMaxSampleVocab
  const float* logits = nullptr;      // [any number of rows, vocab]; several rows may draw from one of them
  const SampleRow* params = nullptr;  // [rows]
  SampledRow* out = nullptr;          // [rows]
  TokenId* newest = nullptr;          // [slots]: the token last drawn for each; 0 where there was none to draw
  // Words of masks, instead of SampleRow::allowed: for devices, whose addresses SampleRow cannot hold.
  const std::uint32_t* masks = nullptr;
  bool greedy = false;  // all rows are known to be is_greedy(), so that a device need not find out
};
void sample(const Exec& exec, const SampleArgs& args);

// Returns the mask of a row; null: all ids.
SLUICE_HD inline const std::uint32_t* mask_of(const SampleArgs& args, const SampleRow& row) {
  if (args.masks == nullptr) return row.allowed;
  return row.mask < 0 ? nullptr : args.masks + static_cast<std::ptrdiff_t>(row.mask) * ((args.vocab + 31) / 32);
}

// ids[row] = newest[slots[row]] for the rows whose slot is not -1. Such tokens were drawn a step ago, and the host need
// not know them. slots [rows]; each newest[slot] was drawn before.
struct TakeIdsArgs {
  int rows = 0;
  const std::int32_t* slots = nullptr;
  const TokenId* newest = nullptr;
  TokenId* ids = nullptr;
};
void take_ids(const Exec& exec, const TakeIdsArgs& args);

struct SampleWeightsArgs {
  const float* a = nullptr;  // [n]
  int n = 0;
  float max = 0.0F, scale = 1.0F;
  float* w = nullptr;  // [n]: receives exp((a_i - max) * scale); null: not wanted
};

}  // namespace sluice
