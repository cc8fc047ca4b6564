// The work of a team on up to kQueries queries that see the same keys, a split of these at a time, in the order of
// kernels/ops/attention.h. Scores are sums of sixteen lanes, weights and their sum of sixteen lanes, values are chains;
// then a split merges with the splits before it.
// Used by attend_expanded.cu and shared_attend.cu.
#pragma once

#include <cmath>

#include "base/formats/number_formats.h"
#include "kernels/common/math.h"
#include "kernels/cuda/launch.h"

namespace sluice::SLUICE_CUDA_OPS {

inline constexpr int kAttendThreads = 128;
inline constexpr int kQueries = 8;
inline constexpr int kTileKeys = 16;  // keys in shared memory at once

struct AttendShape {
  int dims = 0, value_dims = 0;
  int most_keys = 0;  // the most keys of a split
  float scale = 1.0F;
  bool bf16 = false;

  SLUICE_HD int widest() const { return dims > value_dims ? dims : value_dims; }
  // Floats between keys, chosen to avoid bank conflicts.
  SLUICE_HD int key_stride() const { return (widest() + 7) / 8 * 8 + 4; }
  SLUICE_HD int padded_dims() const { return (dims + 31) / 32 * 32; }
  std::size_t shared_bytes() const {
    return sizeof(float) * static_cast<std::size_t>(kQueries * padded_dims() + kTileKeys * key_stride() +
                                                    kQueries * most_keys + 6 * kQueries);
  }
};

// kColumns: value dims of a thread, kAttendThreads apart. Source: gives keys by
//   stage(team, i, count, first, dims, to, stride)   values [first, first + dims) of keys [i, i + count) of the split
// with team phases of its own, all of which have passed a sync() when it returns.
template <int kColumns, class Source>
class AttendTeam {
 public:
  static constexpr int kThreads = kAttendThreads;

  SLUICE_DEVICE AttendTeam(const Team<kThreads>& team, const AttendShape& shape, const Source& source)
      : team_(team), shape_(shape), source_(source) {
    q_ = reinterpret_cast<float*>(team.shared);
    keys_ = q_ + kQueries * shape.padded_dims();
    weights_ = keys_ + kTileKeys * shape.key_stride();
    m_ = weights_ + kQueries * shape.most_keys;
    z_ = m_ + kQueries;
    total_m_ = z_ + kQueries;
    total_z_ = total_m_ + kQueries;
    count_ = reinterpret_cast<std::int32_t*>(total_z_ + kQueries);
    merged_ = count_ + kQueries;
  }

  // query(i) returns the values of query i, null if there is none.
  template <class Query>
  SLUICE_DEVICE void begin(const Query& query) {
    team_.each([&](int t) {
      SLUICE_UNROLL
      for (int i = 0; i < kQueries; ++i) {
        const float* from = query(i);
        for (int d = t; d < shape_.padded_dims(); d += kThreads) {
          const float value = from != nullptr && d < shape_.dims ? from[d] : 0.0F;
          q_[i * shape_.padded_dims() + d] = shape_.bf16 ? round_to_bf16(value) : value;
        }
      }
      if (t < kQueries) merged_[t] = 0;
    });
    team_.sync();
  }

  // Adds a split of `count` keys, of which query i sees the first seen(i). `first` is the place of key 0 in the sum of
  // weights and among pairs.
  template <class Seen>
  SLUICE_DEVICE void add_split(int count, int first, int value_offset, const Seen& seen) {
    team_.sync();
    team_.each([&](int t) {
      if (t < kQueries) count_[t] = seen(t) < count ? seen(t) : count;
    });
    const int before = shape_.bf16 ? first % 2 : 0;  // keys are added in pairs, which tiles must not cut
    for (int tile = -before; tile < count; tile += kTileKeys) {
      const int from = tile < 0 ? 0 : tile, to = tile + kTileKeys < count ? tile + kTileKeys : count;
      source_.stage(team_, from, to - from, 0, shape_.dims, keys_, shape_.key_stride());
      score(from, to);
    }
    weigh(first);
    team_.each([&](int t) {
      SLUICE_UNROLL
      for (int i = 0; i < kQueries; ++i) {
        SLUICE_UNROLL
        for (int c = 0; c < kColumns; ++c) values_[t].v[i][c] = 0.0F;
      }
    });
    for (int tile = -before; tile < count; tile += kTileKeys) {
      const int from = tile < 0 ? 0 : tile, to = tile + kTileKeys < count ? tile + kTileKeys : count;
      source_.stage(team_, from, to - from, value_offset, shape_.value_dims, keys_, shape_.key_stride());
      add_values(from, to, tile);
      team_.sync();
    }
  }

  SLUICE_DEVICE void merge_split() {
    team_.each([&](int t) {
      SLUICE_UNROLL
      for (int i = 0; i < kQueries; ++i) {
        if (count_[i] <= 0) continue;
        if (merged_[i] == 0) {
          SLUICE_UNROLL
          for (int c = 0; c < kColumns; ++c) totals_[t].v[i][c] = values_[t].v[i][c];
          continue;
        }
        const float m = m_[i] > total_m_[i] ? m_[i] : total_m_[i];
        const float a = exp_f32(total_m_[i] - m), b = exp_f32(m_[i] - m);
        SLUICE_UNROLL
        for (int c = 0; c < kColumns; ++c) {
          totals_[t].v[i][c] = std::fma(b, values_[t].v[i][c], a * totals_[t].v[i][c]);
        }
      }
    });
    team_.sync();
    team_.each([&](int t) {
      if (t >= kQueries || count_[t] <= 0) return;
      if (merged_[t] == 0) {
        total_m_[t] = m_[t];
        total_z_[t] = z_[t];
      } else {
        const float m = m_[t] > total_m_[t] ? m_[t] : total_m_[t];
        const float a = exp_f32(total_m_[t] - m), b = exp_f32(m_[t] - m);
        total_m_[t] = m;
        total_z_[t] = std::fma(b, z_[t], a * total_z_[t]);
      }
      merged_[t] = 1;
    });
    team_.sync();
  }

  // Calls put(t, query, m, z, d, v) for each value of each query: the results of the last split alone.
  template <class Put>
  SLUICE_DEVICE void each_of_split(const Put& put) {
    team_.each([&](int t) {
      SLUICE_UNROLL
      for (int i = 0; i < kQueries; ++i) {
        SLUICE_UNROLL
        for (int c = 0; c < kColumns; ++c) {
          const int d = t + c * kThreads;
          if (d < shape_.value_dims) put(i, m_[i], z_[i], d, values_[t].v[i][c]);
        }
      }
    });
  }

  // Calls put(query, any, m, z, d, v) for each value of each query: the results of all merged splits.
  template <class Put>
  SLUICE_DEVICE void each_of_total(const Put& put) {
    team_.each([&](int t) {
      SLUICE_UNROLL
      for (int i = 0; i < kQueries; ++i) {
        SLUICE_UNROLL
        for (int c = 0; c < kColumns; ++c) {
          const int d = t + c * kThreads;
          if (d < shape_.value_dims) put(i, merged_[i] != 0, total_m_[i], total_z_[i], d, totals_[t].v[i][c]);
        }
      }
    });
  }

 private:
  struct Sums {
    float v[4][4];  // [query][key]
  };
  struct Columns {
    float v[kQueries][kColumns];
  };

  // Scores keys [from, to) of the split, which are staged. Sixteen threads together compute four keys times four
  // queries.
  SLUICE_DEVICE void score(int from, int to) {
    PerThread<Sums, kThreads> sums;
    team_.each([&](int t) {
      const int lane = t % 16, group = t / 16;
      const float* q = q_ + group / 4 * 4 * shape_.padded_dims();
      const float* k = keys_ + group % 4 * 4 * shape_.key_stride();
      Sums& s = sums[t];
      SLUICE_UNROLL
      for (int i = 0; i < 16; ++i) s.v[i / 4][i % 4] = 0.0F;
      const auto add = [&](int d) {
        float x[4], y[4];
        SLUICE_UNROLL
        for (int i = 0; i < 4; ++i) {
          x[i] = d < shape_.dims ? q[i * shape_.padded_dims() + d] : 0.0F;
          y[i] = d < shape_.dims && group % 4 * 4 + i < to - from ? k[i * shape_.key_stride() + d] : 0.0F;
        }
        SLUICE_UNROLL
        for (int i = 0; i < 16; ++i) s.v[i / 4][i % 4] = std::fma(x[i / 4], y[i % 4], s.v[i / 4][i % 4]);
      };
      if (shape_.bf16) {
        for (int d = lane; d < shape_.padded_dims(); d += 32) {
          add(d + 16);
          add(d);
        }
      } else {
        for (int d = lane; d < (shape_.dims + 15) / 16 * 16; d += 16) add(d);
      }
    });
    SLUICE_UNROLL
    for (int i = 0; i < 16; ++i) {
      PerThread<float, kThreads> sum;
      team_.each([&](int t) { sum[t] = sums[t].v[i / 4][i % 4]; });
      tree_sum16(team_, sum);
      team_.each([&](int t) {
        const int group = t / 16, key = group % 4 * 4 + i % 4;
        if (t % 16 == i && key < to - from) {
          weights_[(from + key) * kQueries + group / 4 * 4 + i / 4] = sum[t] * shape_.scale;
        }
      });
    }
    team_.sync();
  }

  // Turns scores into weights; sixteen threads work on each query.
  SLUICE_DEVICE void weigh(int first) {
    PerThread<float, kThreads> m, z;
    team_.each([&](int t) {
      m[t] = -INFINITY;
      for (int i = t % 16; i < count_[t / 16]; i += 16) {
        const float s = weights_[i * kQueries + t / 16];
        m[t] = s > m[t] ? s : m[t];
      }
    });
    max16(team_, m);
    team_.each([&](int t) {
      z[t] = 0.0F;
      const int start = (t % 16 - first % 16 + 16) % 16;  // lane l has keys with (first + i) mod 16 = l
      for (int i = start; i < count_[t / 16]; i += 16) {
        float& w = weights_[i * kQueries + t / 16];
        w = exp_f32(w - m[t]);
        if (shape_.bf16) w = round_to_bf16(w);
        z[t] += w;
      }
    });
    tree_sum16(team_, z);
    team_.each([&](int t) {
      if (t % 16 != 0) return;
      m_[t / 16] = m[t];
      z_[t / 16] = z[t];
    });
    team_.sync();
  }

  // Adds the values of keys [from, to), which are staged; pairs begin at `tile`, at or before `from`.
  SLUICE_DEVICE void add_values(int from, int to, int tile) {
    team_.each([&](int t) {
      int counts[kQueries];
      SLUICE_UNROLL
      for (int i = 0; i < kQueries; ++i) counts[i] = count_[i];
      const auto add = [&](int key) {
        const float* of_key = keys_ + (key - from) * shape_.key_stride();
        SLUICE_UNROLL
        for (int c = 0; c < kColumns; ++c) {
          const int d = t + c * kThreads;
          const float x = d < shape_.value_dims ? of_key[d] : 0.0F;
          SLUICE_UNROLL
          for (int i = 0; i < kQueries; ++i) {
            float& v = values_[t].v[i][c];
            if (key < counts[i]) v = std::fma(weights_[key * kQueries + i], x, v);
          }
        }
      };
      if (shape_.bf16) {
        for (int key = tile; key < to; key += 2) {
          if (key + 1 < to) add(key + 1);
          if (key >= from) add(key);
        }
      } else {
        for (int key = from; key < to; ++key) add(key);
      }
    });
  }

  const Team<kThreads>& team_;
  const AttendShape& shape_;
  const Source& source_;
  PerThread<Columns, kThreads> values_, totals_;
  float *q_, *keys_, *weights_;  // [kQueries][padded_dims], [kTileKeys][key_stride], [most_keys][kQueries]
  float *m_, *z_, *total_m_, *total_z_;
  std::int32_t *count_, *merged_;
};

}  // namespace sluice::SLUICE_CUDA_OPS
