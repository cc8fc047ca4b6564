// attend_expanded, merge_attention (kernels/ops/attend_expanded.h): a team for eight rows of a head.
// Called through the table of ops (kernels/ops/ops.h).
#include "kernels/ops/attend_expanded.h"
#include "kernels/cuda/shared/attend_team.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct ExpandedKeys {
  const float* kv;  // the keys and values of the split
  int row_floats;

  SLUICE_DEVICE void stage(const Team<kAttendThreads>& team, int i, int count, int first, int dims, float* to,
                           int stride) const {
    team.each([&](int t) {
      for (int key = 0; key < count; ++key) {
        const float* from = kv + static_cast<std::ptrdiff_t>(i + key) * row_floats + first;
        for (int d = t; d < dims; d += kAttendThreads) to[key * stride + d] = from[d];
      }
    });
    team.sync();
  }
};

template <int kColumns>
struct AttendExpanded {
  static constexpr int kThreads = kAttendThreads;
  AttendExpandedArgs args;
  AttendShape shape;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int tiles = (args.rows + kQueries - 1) / kQueries;
    const int head = team.index / tiles, first_row = team.index % tiles * kQueries;
    const int row_floats = expanded_row_floats(args.key_dims, args.value_dims);
    const float* kv = args.kv + static_cast<std::ptrdiff_t>(head) * args.keys * row_floats;
    const int rows = args.rows - first_row < kQueries ? args.rows - first_row : kQueries;
    const auto seen = [&](int i) {
      if (i >= rows) return 0;
      const int visible = args.visible + first_row + i;
      return visible < args.keys ? visible : args.keys;
    };
    ExpandedKeys keys{kv, row_floats};
    AttendTeam<kColumns, ExpandedKeys> attend(team, shape, keys);
    attend.begin([&](int i) -> const float* {
      if (i >= rows) return nullptr;
      return args.q + (first_row + i) * args.ldq + static_cast<std::ptrdiff_t>(head) * args.key_dims;
    });
    const int most = seen(rows - 1);
    for (int first = 0; first < most; first += kExpandedSplitKeys) {
      const int count = most - first < kExpandedSplitKeys ? most - first : kExpandedSplitKeys;
      keys.kv = kv + static_cast<std::ptrdiff_t>(first) * row_floats;
      attend.add_split(count, 0, expanded_value_offset(args.key_dims), [&](int i) { return seen(i) - first; });
      attend.merge_split();
    }
    team.sync();
    attend.each_of_total([&](int i, bool any, float m, float z, int d, float v) {
      if (i >= rows) return;
      const std::ptrdiff_t row = first_row + i;
      args.out[row * args.ldo + static_cast<std::ptrdiff_t>(head) * args.value_dims + d] = any ? v / z : 0.0F;
      if (d == 0) args.lse[row * args.ld_lse + head] = any ? m + log_f32(z) : -INFINITY;
    });
  }
};

// Merges the two results of a row; each team has a row.
struct MergeAttention {
  static constexpr int kThreads = 32;
  MergeAttentionArgs args;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const float* part = args.part + static_cast<std::ptrdiff_t>(team.index) * args.value_dims;
    float* total = args.total + static_cast<std::ptrdiff_t>(team.index) * args.value_dims;
    const float a = args.total_lse[team.index], b = args.part_lse[team.index];
    const float m = b > a ? b : a, x = exp_f32(a - m), y = exp_f32(b - m), sum = x + y;
    team.each([&](int t) {
      for (int d = t; d < args.value_dims; d += kThreads) {
        if (a == -INFINITY) {
          total[d] = b == -INFINITY ? 0.0F : part[d];
        } else if (b != -INFINITY) {
          total[d] = std::fma(y, part[d], x * total[d]) / sum;
        }
      }
    });
    team.sync();
    team.each([&](int t) {
      if (t == 0) args.total_lse[team.index] = a == -INFINITY ? b : b == -INFINITY ? a : m + log_f32(sum);
    });
  }
};

}  // namespace

void attend_expanded(const Exec& exec, const AttendExpandedArgs& args) {
  SLUICE_CHECK(args.value_dims <= 4 * kAttendThreads, "no more value dims than a team has");
  const AttendShape shape{.dims = args.key_dims,
                          .value_dims = args.value_dims,
                          .most_keys = kExpandedSplitKeys,
                          .scale = args.scale,
                          .bf16 = false};
  const std::int64_t teams = std::int64_t{args.heads} * ((args.rows + kQueries - 1) / kQueries);
  if (args.value_dims <= kAttendThreads) {
    launch(exec, teams, AttendExpanded<1>{args, shape}, shape.shared_bytes());
  } else {
    launch(exec, teams, AttendExpanded<4>{args, shape}, shape.shared_bytes());
  }
}

void merge_attention(const Exec& exec, const MergeAttentionArgs& args) {
  launch(exec, args.rows, MergeAttention{args});
}

}  // namespace sluice::SLUICE_CUDA_OPS
