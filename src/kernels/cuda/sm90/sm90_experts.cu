// experts (kernels/ops/experts.h) of the profile sm90: pairs sorted by expert are multiplied in groups, of about as
// many rows as an expert has; the shared expert multiplies all rows.
// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>

#include "base/formats/number_formats.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/shared/expert_pairs.h"
#include "kernels/cuda/sm90/expert_stream.h"
#include "kernels/cuda/sm90/expert_tiles.h"
#include "kernels/cuda/sm90/fp8_experts.h"
#include "kernels/cuda/sm90/inner_tiles.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Carver;
using cuda_ops::PairLists;
using cuda_ops::ActivationValues;
using cuda_ops::Team;

// Writes m in the form of the next product: bf16, followed by zeros. A thread has 8 values.
struct ActivateAndRound {
  static constexpr int kThreads = 1;
  ActivationValues values;
  std::uint16_t* to;
  int pieces;  // eights of values of a row

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int row = team.index / pieces, first = team.index % pieces * 8;
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t value = first + i < values.dim ? to_bf16(values(row, first + i)).bits : 0U;
      words[i / 2] = i % 2 == 0 ? value : words[i / 2] | value << 16;
    }
    reinterpret_cast<uint4*>(to)[team.index] = {words[0], words[1], words[2], words[3]};
  }
};

// Writes zeros after the `in` values of rows of `padded` ones.
struct ClearBehind {
  static constexpr int kThreads = 1;
  std::uint16_t* to;
  int in, padded;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int behind = padded - in;
    to[std::ptrdiff_t{team.index / behind} * padded + in + team.index % behind] = 0;
  }
};

bool in_strips(const ExpertWeights& expert) {
  return cuda_sm90::in_strips(expert.gate) && cuda_sm90::in_strips(expert.up) && cuda_sm90::in_strips(expert.down);
}

// Rows of gate and up, and of m.
struct InnerRows {
  float *gate, *up;
  std::uint16_t *m, *whole;  // whole: m of all ranks; m itself if one rank has all

  InnerRows(const ExpertWeights* expert, std::size_t rows, Carver& carver) {
    const auto inter = expert == nullptr ? 0 : static_cast<std::size_t>(expert->gate.out());
    gate = carver.take<float>(rows * inter);
    up = carver.take<float>(rows * inter);
    m = whole = carver.take<std::uint16_t>(rows * static_cast<std::size_t>(padded(static_cast<int>(inter))));
    if (expert == nullptr || !cuda_ops::shares_inner(*expert)) return;
    whole = carver.take<std::uint16_t>(rows * static_cast<std::size_t>(padded(expert->down.in())));
  }
};

struct Work {
  PairLists lists{};
  std::uint16_t* x;  // used if the op's rows are not in a form that the kernels read
  InnerRows routed, shared;
  float *outputs, *shared_out;

  Work(const ExpertsArgs& args, const ExpertWeights* shared_expert, int rows, int groups, bool stages, Carver& carver)
      : x(carver.take<std::uint16_t>(stages ? static_cast<std::size_t>(rows) * padded(args.hidden) : 0)),
        routed(args.slots > 0 ? args.experts.data() : nullptr, static_cast<std::size_t>(rows) * args.slots, carver),
        shared(shared_expert, static_cast<std::size_t>(rows), carver) {
    const auto pairs = static_cast<std::size_t>(rows) * static_cast<std::size_t>(args.slots);
    lists.rows = carver.take<std::int32_t>(pairs);
    lists.positions = carver.take<std::int32_t>(pairs);
    lists.weights = carver.take<float>(pairs);
    for (cuda_ops::RowGroup** list : {&lists.gate, &lists.up, &lists.down}) {
      *list = carver.take<cuda_ops::RowGroup>(static_cast<std::size_t>(groups));
    }
    const auto columns = static_cast<std::size_t>(cuda_ops::output_columns(args));
    outputs = carver.take<float>(pairs * columns);
    shared_out = carver.take<float>(shared_expert == nullptr ? 0 : static_cast<std::size_t>(rows) * columns);
  }
};

// Returns the rows of the kernel that suits as many as an expert has about.
int group_rows(const ExpertsArgs& args, int rows) {
  const int pairs = rows * args.slots, experts = static_cast<int>(args.experts.size());
  if (pairs <= 5 * experts) return kFewRows;
  return pairs <= 16 * experts ? kSomeRows : kManyRows;
}

class StripExperts {
 public:
  StripExperts(const ExpertsArgs& args, const ExpertWeights* shared)
      : args_(args), shared_(shared), columns_(cuda_ops::output_columns(args)) {
    const Rows& x = args.x;
    const ExpertWeights& expert = args.slots > 0 ? args.experts[0] : *shared;
    const InputForm form = expert.gate.input_form();
    const float* rounded = x.form(form);
    const bool prepared = rounded != nullptr;
    x_ = {prepared ? rounded : x.values,
          prepared ? input_floats(form, args.hidden) : x.ld,
          nullptr,
          args.hidden,
          prepared,
          !prepared && form == InputForm::kFp8};
  }

  // other: if not null it is y, with the results of other kernels: the shared expert's output, or the slots' sum.
  void run(const Exec& exec, const float* other) {
    int piece = args_.rows;  // rows of one pass
    while (piece > 1 && work_bytes(piece) > cuda_ops::workspace_bytes(exec)) piece = (piece + 1) / 2;
    for (int first = 0; first < args_.rows; first += piece) {
      run(exec, first, std::min(piece, args_.rows - first), other);
    }
  }

 private:
  std::size_t work_bytes(int rows) const {
    if (streams_experts(args_, rows)) return 0;  // workspace() checks the room for it
    if (tiles_experts(args_, rows)) return tile_bytes(rows);
    Carver carver(nullptr);
    const Work work(args_, shared_, rows, cuda_ops::groups_of(args_, rows, group_rows(args_, rows)), !x_.in_place(),
                    carver);
    return carver.bytes();
  }

  void run(const Exec& exec, int first, int rows, const float* other) {
    if (streams_experts(args_, rows)) return stream(exec, first, rows, other);
    if (tiles_experts(args_, rows)) return tiles(exec, first, rows, other);
    const int of_group = group_rows(args_, rows), groups = cuda_ops::groups_of(args_, rows, of_group);
    Carver carver(cuda_ops::workspace(exec, work_bytes(rows)));
    const Work work(args_, shared_, rows, groups, !x_.in_place(), carver);
    const StagedRows from = x_.from(first);
    if (!x_.in_place()) stage_rows(exec, rows, from, work.x);
    const Inputs x = inputs(from, work.x);
    if (args_.slots > 0) {
      cuda_ops::list_pairs(exec, args_, first, rows, of_group, work.lists);
      const StripRows of_pairs{.rows = rows * args_.slots, .group_count = groups, .kernel_rows = of_group};
      multiply(exec, args_.experts[0], of_pairs, {x.x, x.ldx, work.lists.rows}, &work.lists, work.routed, work.outputs);
    }
    const std::ptrdiff_t at = std::ptrdiff_t{first} * columns_;
    const float* of_others = other != nullptr ? other + at : nullptr;
    const bool alone = args_.slots == 0 && other == nullptr;  // then y needs no sum: products of strips are never -0
    if (shared_ != nullptr) {
      multiply(exec, *shared_, behind(rows, work_bytes(rows)), x, nullptr, work.shared,
               alone ? args_.y + at : work.shared_out);
    }
    if (alone) return;
    if (args_.slots > 0) {
      return cuda_ops::combine_slots(exec, args_, first, rows, work.outputs, work.lists,
                                     shared_ != nullptr ? work.shared_out : of_others);
    }
    cuda_ops::add(exec, AddArgs{rows, columns_, work.shared_out, args_.y + at});
  }

  // Multiplies the shared expert alone, in y, to which the others are added. Its workspace is free again then.
  const float* multiply_shared(const Exec& exec, int first, int rows) {
    Carver carver(cuda_ops::workspace(exec, shared_bytes(rows)));
    const SharedWork work(*this, rows, carver);
    const StagedRows from = x_.from(first);
    if (!x_.in_place()) stage_rows(exec, rows, from, work.x);
    float* y = args_.y + std::ptrdiff_t{first} * columns_;
    multiply(exec, *shared_, behind(rows, shared_bytes(rows)), inputs(from, work.x), nullptr, work.inner, y);
    return y;
  }
  struct SharedWork {
    std::uint16_t* x;
    InnerRows inner;

    SharedWork(const StripExperts& of, int rows, Carver& carver)
        : x(carver.take<std::uint16_t>(of.x_.in_place() ? 0
                                                        : static_cast<std::size_t>(rows) *
                                                              static_cast<std::size_t>(padded(of.args_.hidden)))),
          inner(of.shared_, static_cast<std::size_t>(rows), carver) {}
  };
  std::size_t shared_bytes(int rows) const {
    Carver carver(nullptr);
    SharedWork(*this, rows, carver);
    return carver.bytes();
  }
  // Experts with few rows each.
  void stream(const Exec& exec, int first, int rows, const float* other) {
    const bool together = shared_ != nullptr && streams_shared(args_, *shared_, rows);
    Carver counter(nullptr);
    count_stream(args_, rows, together, counter);
    if (other != nullptr) other += std::ptrdiff_t{first} * columns_;
    if (shared_ != nullptr && !together) other = multiply_shared(exec, first, rows);
    Carver carver(cuda_ops::workspace(exec, counter.bytes()));
    stream_experts(exec, args_, first, rows, together ? shared_ : nullptr, x_.from(first), other, carver);
  }

  // Experts with many rows each.
  struct TileWork {
    PairLists lists;
    std::uint16_t *x, *m, *whole;  // x; m and whole as in InnerRows
    float* outputs;

    TileWork(const ExpertsArgs& args, int rows, int groups, bool stages, Carver& carver) {
      const auto pairs = static_cast<std::size_t>(rows) * static_cast<std::size_t>(args.slots);
      lists.rows = carver.take<std::int32_t>(pairs);
      lists.positions = carver.take<std::int32_t>(pairs);
      lists.weights = carver.take<float>(pairs);
      for (cuda_ops::RowGroup** list : {&lists.gate, &lists.up, &lists.down}) {
        *list = carver.take<cuda_ops::RowGroup>(static_cast<std::size_t>(groups));
      }
      lists.used = carver.take<std::int32_t>(cuda_ops::GroupSizes::kMost + 2);
      x = carver.take<std::uint16_t>(stages ? static_cast<std::size_t>(rows) * padded(args.hidden) : 0);
      const ExpertWeights& expert = args.experts[0];
      m = whole = carver.take<std::uint16_t>(pairs * static_cast<std::size_t>(expert.gate.out()));
      if (cuda_ops::shares_inner(expert)) {
        whole = carver.take<std::uint16_t>(pairs * static_cast<std::size_t>(expert.down.in()));
      }
      outputs = carver.take<float>(pairs * static_cast<std::size_t>(expert.down.out()));
    }
  };
  StripKind kind() const { return StripLinear(args_.experts[0].gate.view()).kind; }
  std::size_t tile_bytes(int rows) const {
    const auto sizes = expert_tile_sizes(kind(), rows, args_.slots, static_cast<int>(args_.experts.size()));
    const int groups = cuda_ops::groups_of(args_, rows, sizes.rows[sizes.count - 1]);
    Carver carver(nullptr);
    TileWork(args_, rows, groups, !x_.in_place(), carver);
    return std::max(carver.bytes(), shared_ != nullptr ? shared_bytes(rows) : 0);
  }
  void tiles(const Exec& exec, int first, int rows, const float* other) {
    const auto sizes = expert_tile_sizes(kind(), rows, args_.slots, static_cast<int>(args_.experts.size()));
    const int groups = cuda_ops::groups_of(args_, rows, sizes.rows[sizes.count - 1]);
    if (other != nullptr) other += std::ptrdiff_t{first} * columns_;
    if (shared_ != nullptr) other = multiply_shared(exec, first, rows);
    Carver carver(cuda_ops::workspace(exec, tile_bytes(rows)));
    const StagedRows from = x_.from(first);
    const TileWork work(args_, rows, groups, !x_.in_place(), carver);
    if (!x_.in_place()) stage_rows(exec, rows, from, work.x);
    cuda_ops::list_pairs(exec, args_, first, rows, sizes.rows[sizes.count - 1], work.lists, sizes);
    const Inputs x = inputs(from, work.x);
    const ExpertWeights& expert = args_.experts[0];
    const auto product = [&](const LinearWeight& weight, const Inputs& of, const cuda_ops::RowGroup* of_groups) {
      StripProduct made = strip_product(weight, work.outputs, weight.out());
      made.x = of.x, made.ldx = of.ldx, made.x_rows = of.rows, made.groups = of_groups;
      return made;
    };
    const Inputs of_pairs{x.x, x.ldx, work.lists.rows};
    multiply_expert_tiles(
        exec,
        {product(expert.gate, of_pairs, work.lists.gate), product(expert.up, of_pairs, work.lists.up),
         product(expert.down, {work.whole, expert.down.in(), nullptr}, work.lists.down), sizes, work.lists.used + 1,
         groups, &expert, work.m, work.whole, work.lists.weights, args_.activation, rows * args_.slots,
         expert.down.input_form() == InputForm::kFp8});
    cuda_ops::combine_slots(exec, args_, first, rows, work.outputs, work.lists, other);
  }

  // The rows of products that may use the workspace after its first `bytes` bytes.
  static StripRows behind(int rows, std::size_t bytes) {
    StripRows of_rows = StripRows::of(rows);
    of_rows.workspace_used = (bytes + 255) / 256 * 256;
    return of_rows;
  }

  struct Inputs {
    const std::uint16_t* x;
    std::ptrdiff_t ldx;
    const std::int32_t* rows;
  };
  // `staged`: where the rows were staged, if the kernels cannot read them where they lie.
  Inputs inputs(const StagedRows& from, const std::uint16_t* staged) const {
    if (!x_.in_place()) return {staged, padded(args_.hidden), nullptr};
    return {reinterpret_cast<const std::uint16_t*>(from.x), 2 * x_.ldx, nullptr};
  }
  // lists: the weights are those of its groups; null: the expert's.
  void multiply(const Exec& exec, const ExpertWeights& expert, const StripRows& rows, const Inputs& inputs,
                const PairLists* lists, const InnerRows& inner, float* y) {
    const int inter = expert.gate.out();
    const auto product = [&](const LinearWeight& weight, const Inputs& of, const cuda_ops::RowGroup* groups,
                             float* to) {
      StripProduct made = strip_product(weight, to, weight.out());
      made.x = of.x, made.ldx = of.ldx, made.x_rows = of.rows, made.groups = groups;
      return made;
    };
    const StripProduct first[] = {product(expert.gate, inputs, lists != nullptr ? lists->gate : nullptr, inner.gate),
                                  product(expert.up, inputs, lists != nullptr ? lists->up : nullptr, inner.up)};
    if (lists != nullptr || !multiply_inner(exec, rows, first[0], first[1], args_.activation, inner.m)) {
      multiply_strips(exec, rows, first);
      const ActivationValues values{inner.gate, inner.up, lists != nullptr ? lists->weights : nullptr, inter, args_.activation};
      const int pieces = padded(inter) / 8;
      cuda_ops::launch(exec, std::int64_t{rows.rows} * pieces, ActivateAndRound{values, inner.m, pieces});
    }
    gather_inner(exec, rows.rows, expert, inner.m, inner.whole);
    const int whole = padded(expert.down.in());
    if (expert.down.input_form() == InputForm::kFp8) round_rows_to_fp8(exec, rows.rows, whole, inner.whole);
    const StripProduct second =
        product(expert.down, {inner.whole, whole, nullptr}, lists != nullptr ? lists->down : nullptr, y);
    multiply_strips(exec, rows, {&second, 1});
  }

  const ExpertsArgs& args_;
  const ExpertWeights* shared_;
  int columns_;  // the columns of y
  StagedRows x_{};
};

}  // namespace

void gather_inner(const Exec& exec, std::int64_t rows, const ExpertWeights& expert, std::uint16_t* m,
                  std::uint16_t* whole) {
  if (!cuda_ops::shares_inner(expert)) return;
  const auto words = [](std::uint16_t* values, int columns) {
    SLUICE_CHECK(columns % 2 == 0, "a share of bf16 values is whole words");
    return cuda_ops::InnerWords{values, padded(columns) / 2, columns / 2};
  };
  const int in = expert.down.in();
  cuda_ops::gather_words(exec, static_cast<int>(rows), words(m, expert.gate.out()), words(whole, in));
  cuda_ops::launch(exec, rows * (padded(in) - in), ClearBehind{whole, in, padded(in)});
}

// Computes the experts that are FP8 in tiles (fp8_experts.h), and the others.
void experts_with_fp8(const Exec& exec, const ExpertsArgs& args, bool routed_fp8, bool shared_fp8) {
  ExpertsArgs fp8 = args, others = args;
  if (routed_fp8) {
    others.slots = 0, others.experts = {};
  } else {
    fp8.slots = 0, fp8.experts = {};
  }
  (shared_fp8 ? others : fp8).shared = nullptr;
  if (others.slots > 0 && in_strips(others.experts[0])) {  // the experts in strips add to what is in y
    fp8_experts(exec, fp8, nullptr);
    return StripExperts(others, nullptr).run(exec, args.y);
  }
  const bool both = others.slots > 0 || others.shared != nullptr;
  if (both) cuda_sm90::experts(exec, others);
  fp8_experts(exec, fp8, both ? args.y : nullptr);
}

void experts(const Exec& exec, const ExpertsArgs& args) {
  if (args.rows == 0) return;
  cuda_ops::check_shares(exec, args);
  const bool routed_fp8 = args.slots > 0 && in_fp8_tiles(args.experts[0]);
  const bool shared_fp8 = args.shared != nullptr && in_fp8_tiles(*args.shared);
  if (routed_fp8 || shared_fp8) return experts_with_fp8(exec, args, routed_fp8, shared_fp8);
  const bool routed = args.slots > 0, routed_strips = routed && in_strips(args.experts[0]);
  const bool shared_strips = args.shared != nullptr && in_strips(*args.shared);
  if (!routed_strips && !shared_strips) return cuda_ops::experts(exec, args);
  // Experts that are not in strips come first, in y, which is read before it is written.
  ExpertsArgs others = args, strips = args;
  const bool one_of_each = (routed && !routed_strips) || (args.shared != nullptr && !shared_strips);
  if (one_of_each) {
    (routed_strips ? others.slots : strips.slots) = 0;
    (routed_strips ? others.experts : strips.experts) = {};
    if (shared_strips) others.shared = nullptr;
    cuda_ops::experts(exec, others);
  }
  StripExperts(strips, shared_strips ? args.shared : nullptr).run(exec, one_of_each ? args.y : nullptr);
}

}  // namespace sluice::cuda_sm90
