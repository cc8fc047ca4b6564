// attend_expanded: attention of rows over keys and values that lie expanded in memory, head by head. merge_attention:
// the merge of the results over two sets of keys by their log-sum-exp. Both serve long spans of multi-head latent
// attention (docs/models/deepseek_v3.md §1). Once enough rows share the expansion, a key of 192 and a value of 128 are
// less work for a row than the latent of 576 and 512 that they were made of.
//
// attend_expanded: row r sees keys [0, n) with n = min(keys, visible + r), none if that is not positive. In this order:
//   splits of kExpandedSplitKeys keys; in a split, for a head, with the terms of kernels/device/exec.h:
//   s_i = lanes16(q * k_i) * scale;  m = max s_i;  w_i = exp(s_i - m);  v[d] = chain(w_i * v_i[d]);
//   z = lanes16 over the key's index of w_i, plain sums;
//   splits merge as those of kernels/ops/attention.h do; then out[d] = V[d] / Z and lse = M + log(Z).
//   A row without keys gives out = 0 and lse = -inf.
// merge_attention: the result over both sets, from (A, a) and (B, b), out and lse of each:
//   m = max(a, b);  x = exp(a - m), y = exp(b - m);  out[d] = fma(y, B[d], x * A[d]) / (x + y);  lse = m + log(x + y).
//   If a side has no keys (lse = -inf), its values are not read: the result is the other side, bit for bit. Without
//   keys on both sides it is 0 and -inf.
// Keys and values must be finite: rows of a span that share a tile give weight 0 to the keys that they do not see.
// Used by bench/attention_kernels.cc, kernels/composed/expand_and_attend.cc and model/deepseek_mla/attention.cc.
#pragma once

#include <cstddef>

#include "kernels/device/exec.h"

namespace sluice {

inline constexpr int kExpandedSplitKeys = 64;

// A row of `kv` is a key, then a value from this many floats on. Both are padded to multiples of 16, a key with zeros.
constexpr int expanded_value_offset(int key_dims) {
  return (key_dims + 15) / 16 * 16;
}
constexpr int expanded_row_floats(int key_dims, int value_dims) {
  return expanded_value_offset(key_dims) + expanded_value_offset(value_dims);
}

struct AttendExpandedArgs {
  int rows = 0, heads = 0, key_dims = 0, value_dims = 0;
  const float* q = nullptr;  // [rows, heads, key_dims], a row every ldq
  std::ptrdiff_t ldq = 0;
  float scale = 1.0F;
  int keys = 0, visible = 0;
  const float* kv = nullptr;  // [heads, keys, expanded_row_floats]
  float* out = nullptr;       // [rows, heads, value_dims], a row every ldo
  std::ptrdiff_t ldo = 0;
  float* lse = nullptr;  // [rows, heads], a row every ld_lse
  std::ptrdiff_t ld_lse = 0;
};
void attend_expanded(const Exec& exec, const AttendExpandedArgs& args);

struct MergeAttentionArgs {
  int rows = 0, value_dims = 0;  // a row here is one head of a row there
  const float* part = nullptr;   // [rows, value_dims]
  const float* part_lse = nullptr;
  float* total = nullptr;  // A and its a before, the result after; `part` and `part_lse` are B and b
  float* total_lse = nullptr;
};
void merge_attention(const Exec& exec, const MergeAttentionArgs& args);

}  // namespace sluice
