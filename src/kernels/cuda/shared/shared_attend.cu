// attend_keys (kernels/ops/attention.h): a team for up to eight heads of a row that share a key head. If there are
// enough teams, each goes through all splits of its keys. Otherwise each split has a team of its own, and a second
// kernel merges their results from the workspace, in the same order.
// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>

#include "kernels/ops/attention.h"
#include "kernels/cuda/shared/attend_team.h"
#include "kernels/cuda/shared/row_codec.h"
#include "kernels/cuda/shared/row_keys.h"
#include "kernels/cuda/shared/step_rows.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

constexpr int kMostKeyHeads = 128;

// The planes of the key heads, which differ in their base address alone.
struct HeadPlanes {
  PlaneView first;
  std::byte* bases[kMostKeyHeads];
  bool there;

  SLUICE_DEVICE PlaneView of(int key_head) const {
    PlaneView plane = first;
    plane.base = bases[key_head];
    return plane;
  }
};

// A split of a row's keys: items of its list of latent rows, or positions of its window.
struct KeySplit {
  bool window;
  int first, count;
};

struct AttendPlan {
  AttendArgs args;  // its `step`, `latent` and `window` point to host memory: the fields below replace them
  StepTables step;
  HeadPlanes latent, window;
  int spans, first_row;
  int queries, groups;  // heads of a team (the last of a key head may have fewer); teams of a row
  int first_item, splits;  // the launch's first (row, group); most splits of a row, 0: a team does all
  AttendShape shape;
  float* partials;  // [item - first_item][splits][kQueries][value_dims + 2]: m, z, V of a split

  SLUICE_DEVICE RowSpan span_of(int row) const { return span_of_row(args.spans.data(), spans, row); }
  SLUICE_DEVICE int latent_count(Position p, int row) const {
    return SLUICE_CUDA_OPS::latent_count(args, latent.there, p, row);
  }
  SLUICE_DEVICE int window_first(Position p) const { return SLUICE_CUDA_OPS::window_first(args, p); }
  SLUICE_DEVICE bool cut_window(const RowSpan& span, Position p) const {
    // A planted fault (Exec::fault_chunk_anchored_splits).
    return args.fault_chunk_anchored_splits && span.first_position > window_first(p);
  }
  SLUICE_DEVICE int split_count(const RowSpan& span, Position p, int row) const {
    const int of_latent = (latent_count(p, row) + kSplitKeys - 1) / kSplitKeys;
    return of_latent + (window.there ? (cut_window(span, p) ? 2 : 1) : 0);
  }
  SLUICE_DEVICE KeySplit split(const RowSpan& span, Position p, int row, int index) const {
    const int count = latent_count(p, row), of_latent = (count + kSplitKeys - 1) / kSplitKeys;
    if (index < of_latent) {
      const int left = count - index * kSplitKeys;
      return {false, index * kSplitKeys, left < kSplitKeys ? left : kSplitKeys};
    }
    const int first = window_first(p);
    if (!cut_window(span, p)) return {true, first, p + 1 - first};
    if (index == of_latent) return {true, first, span.first_position - first};
    return {true, span.first_position, p + 1 - span.first_position};
  }
  SLUICE_DEVICE int first_head(int group, int* heads) const {
    const int sharing = args.heads / args.key_heads, of_key_head = groups / args.key_heads;
    const int first = group % of_key_head * queries;
    *heads = sharing - first < queries ? sharing - first : queries;
    return group / of_key_head * sharing + first;
  }
  SLUICE_DEVICE float* partial(int item, int split, int query) const {
    const std::ptrdiff_t at = (static_cast<std::ptrdiff_t>(item - first_item) * splits + split) * kQueries + query;
    return partials + at * (shape.value_dims + 2);
  }
  SLUICE_DEVICE float* out(int row, int head) const {
    return args.out + (static_cast<std::ptrdiff_t>(row) * args.heads + head) * shape.value_dims;
  }
  SLUICE_DEVICE float denominator(int head, float m, float z) const {
    return args.sink != nullptr ? z + exp_f32(args.sink[head] - m) : z;
  }
};

// The keys of a split, read from cached rows.
struct CachedKeys {
  const AttendPlan& plan;
  const RowSpan& span;
  int row, key_head;
  KeySplit split;

  SLUICE_DEVICE RowRef key(const PlaneView& plane, int i) const {
    if (split.window) return window_row(plan.step, span, plane, split.first + i);
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * plan.args.max_selected + split.first + i;
    return latent_row(plan.step, span, plane,
                      plan.args.selected != nullptr ? plan.args.selected[at] : plan.args.first_key + split.first + i);
  }
  SLUICE_DEVICE void stage(const Team<kAttendThreads>& team, int i, int count, int first, int dims, float* to,
                           int stride) const {
    const PlaneView plane = (split.window ? plan.window : plan.latent).of(key_head);
    team.each([&](int t) {
      // Eight threads share a key, so that the addresses of all keys are looked up at once.
      const int of_key = t % 8, index = t / 8;
      if (index >= count) return;
      const RowRef ref = key(plane, i + index);
      SLUICE_UNROLL_8
      for (int d = of_key; d < dims; d += 8) to[index * stride + d] = decode_value(plane.format, ref, first + d);
    });
    team.sync();
  }
};

template <int kColumns>
struct Attend {
  static constexpr int kThreads = kAttendThreads;
  AttendPlan plan;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int of_item = plan.splits > 0 ? plan.splits : 1, item = plan.first_item + team.index / of_item;
    const int row = plan.first_row + item / plan.groups;
    const RowSpan span = plan.span_of(row);
    const Position p = position_of(span, row);
    const int splits = plan.split_count(span, p, row);
    int heads = 0;
    const int first_head = plan.first_head(item % plan.groups, &heads);
    const int begin = plan.splits > 0 ? team.index % of_item : 0;
    if (plan.splits > 0 && begin >= splits) return;
    CachedKeys keys{plan, span, row, first_head / (plan.args.heads / plan.args.key_heads), {}};
    AttendTeam<kColumns, CachedKeys> attend(team, plan.shape, keys);
    attend.begin([&](int i) -> const float* {
      if (i >= heads) return nullptr;
      return plan.args.q + (static_cast<std::ptrdiff_t>(row) * plan.args.heads + first_head + i) * plan.shape.dims;
    });
    const int end = plan.splits > 0 ? begin + 1 : splits;
    for (int s = begin; s < end; ++s) {
      keys.split = plan.split(span, p, row, s);
      attend.add_split(keys.split.count, keys.split.window ? keys.split.first : 0, plan.args.value_offset,
                       [&](int) { return keys.split.count; });
      if (plan.splits == 0) attend.merge_split();
    }
    if (plan.splits > 0) {
      attend.each_of_split([&](int i, float m, float z, int d, float v) {
        float* to = plan.partial(item, begin, i);
        if (d == 0) {
          to[0] = m;
          to[1] = z;
        }
        to[2 + d] = v;
      });
    } else {
      attend.each_of_total([&](int i, bool any, float m, float z, int d, float v) {
        if (i >= heads) return;
        plan.out(row, first_head + i)[d] = any ? v / plan.denominator(first_head + i, m, z) : 0.0F;
      });
    }
  }
};

// Each team has a query of an item (a row and a group of heads), and each thread some value dims.
struct MergeSplits {
  static constexpr int kThreads = 128;
  AttendPlan plan;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int item = plan.first_item + team.index / kQueries, query = team.index % kQueries;
    const int row = plan.first_row + item / plan.groups;
    const RowSpan span = plan.span_of(row);
    const int splits = plan.split_count(span, position_of(span, row), row);
    int heads = 0;
    const int head = plan.first_head(item % plan.groups, &heads) + query;
    if (query >= heads) return;
    team.each([&](int t) {
      for (int d = t; d < plan.shape.value_dims; d += kThreads) {
        float total_m = 0.0F, total_z = 0.0F, total = 0.0F;
        for (int s = 0; s < splits; ++s) {
          const float* part = plan.partial(item, s, query);
          if (s == 0) {
            total_m = part[0];
            total_z = part[1];
            total = part[2 + d];
            continue;
          }
          const float m = part[0] > total_m ? part[0] : total_m;
          const float a = exp_f32(total_m - m), b = exp_f32(part[0] - m);
          total_m = m;
          total_z = std::fma(b, part[1], a * total_z);
          total = std::fma(b, part[2 + d], a * total);
        }
        plan.out(row, head)[d] = splits > 0 ? total / plan.denominator(head, total_m, total_z) : 0.0F;
      }
    });
  }
};

HeadPlanes planes_of(const PlaneView* planes, int key_heads) {
  HeadPlanes result{};
  if (planes == nullptr) return result;
  SLUICE_CHECK(key_heads <= kMostKeyHeads, "no more key heads than a kernel takes");
  result.there = true;
  result.first = planes[0];
  for (int h = 0; h < key_heads; ++h) {
    SLUICE_CHECK(
        planes[h].page_bytes == planes[0].page_bytes && planes[h].rows_per_page == planes[0].rows_per_page &&
            planes[h].format.codec == planes[0].format.codec && planes[h].format.dims == planes[0].format.dims,
        "the planes of key heads are alike");
    result.bases[h] = planes[h].base;
  }
  return result;
}

// Returns the largest number of splits of a row in `spans`, which are the host's copy.
int most_splits(const AttendArgs& args, std::span<const RowSpan> spans) {
  int most = 0;
  for (const RowSpan& span : spans) {
    int latents = args.latent == nullptr ? 0 : (span.first_position + span.rows) / args.tokens_per_row;
    if (args.selected != nullptr) latents = std::min(latents, args.max_selected);
    most = std::max(most, (latents + kSplitKeys - 1) / kSplitKeys);
  }
  return most + (args.window == nullptr ? 0 : args.fault_chunk_anchored_splits ? 2 : 1);
}

template <int kColumns>
void launch_attend(const Exec& exec, AttendPlan plan, int items, int splits) {
  constexpr int kEnoughTeams = 512;
  const std::size_t shared_bytes = plan.shape.shared_bytes();
  if (items >= kEnoughTeams || splits <= 1) {
    launch(exec, items, Attend<kColumns>{plan}, shared_bytes);
    return;
  }
  const std::size_t item_bytes =
      static_cast<std::size_t>(splits) * kQueries * static_cast<std::size_t>(plan.shape.value_dims + 2) * sizeof(float);
  const int at_once = static_cast<int>(std::min<std::size_t>(kCudaWorkspaceBytes / item_bytes, INT32_MAX));
  if (at_once == 0) {  // the workspace is too small for one item's splits
    launch(exec, items, Attend<kColumns>{plan}, shared_bytes);
    return;
  }
  plan.splits = splits;
  for (plan.first_item = 0; plan.first_item < items; plan.first_item += at_once) {
    const int count = std::min(at_once, items - plan.first_item);
    plan.partials = reinterpret_cast<float*>(workspace(exec, static_cast<std::size_t>(count) * item_bytes));
    launch(exec, std::int64_t{count} * splits, Attend<kColumns>{plan}, shared_bytes);
    launch(exec, std::int64_t{count} * kQueries, MergeSplits{plan});
  }
}

}  // namespace

void attend_keys(const Exec& exec, const AttendArgs& args) {
  SLUICE_CHECK(args.heads % args.key_heads == 0 && args.value_offset % 16 == 0, "heads share keys evenly");
  SLUICE_CHECK(args.value_dims <= 4 * kAttendThreads, "no more value dims than a team has");
  if (args.spans.empty()) return;
  const auto spans = args.step->host_spans.subspan(
      static_cast<std::size_t>(args.spans.data() - args.step->spans.data()), args.spans.size());
  AttendPlan plan{};
  plan.args = args;
  plan.args.fault_chunk_anchored_splits = exec.fault_chunk_anchored_splits;
  plan.step = *args.step;
  plan.latent = planes_of(args.latent, args.key_heads);
  plan.window = planes_of(args.window, args.key_heads);
  // f32 rows hold values that are not bf16, so they are multiplied in f32 (kernels/ops/attention.h).
  for (const PlaneView* rows : {args.latent, args.window}) {
    if (rows != nullptr && rows->format.codec == RowCodec::kF32) plan.args.bf16 = false;
  }
  plan.spans = static_cast<int>(spans.size());
  plan.first_row = spans.front().row_begin;
  plan.shape = {.dims = args.dims,
                .value_dims = args.value_dims,
                .most_keys = args.window != nullptr ? std::max(kSplitKeys, args.window_tokens) : kSplitKeys,
                .scale = args.scale,
                .bf16 = plan.args.bf16};
  SLUICE_CHECK(plan.shape.shared_bytes() <= (std::size_t{160} << 10), "a window and rows that shared memory holds");
  const int sharing = args.heads / args.key_heads;
  plan.queries = std::min(sharing, kQueries);
  plan.groups = args.key_heads * ((sharing + plan.queries - 1) / plan.queries);
  const int rows = spans.back().row_begin + spans.back().rows - plan.first_row;
  SLUICE_CHECK(std::int64_t{rows} * plan.groups <= INT32_MAX, "rows and heads");
  const int splits = most_splits(plan.args, spans);
  if (args.value_dims <= kAttendThreads) {
    launch_attend<1>(exec, plan, rows * plan.groups, splits);
  } else {
    launch_attend<4>(exec, plan, rows * plan.groups, splits);
  }
}

}  // namespace sluice::SLUICE_CUDA_OPS
