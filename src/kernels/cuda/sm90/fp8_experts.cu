// Used by sm90_experts.cu.
#include "kernels/cuda/sm90/fp8_experts.h"

#include <algorithm>

#include "base/formats/number_formats.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/shared/expert_pairs.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Carver;
using cuda_ops::PairLists;

int whole_tiles(int rows) {
  return (rows + kFp8TileRows - 1) / kFp8TileRows * kFp8TileRows;
}
// Reserves codes and scales for `rows` rows, which are whole tiles.
Fp8Rows take_rows(Carver& carver, int rows, int in) {
  const std::size_t values = static_cast<std::size_t>(rows) * static_cast<std::size_t>(fp8_blocks(in));
  Fp8Rows made;
  made.codes = carver.take<std::byte>(values * kFp8Inputs);
  made.scales = carver.take<float>(values);
  made.rows = rows;
  return made;
}

// Returns the rows of the kernel that suits as many as an expert has about.
int group_rows(int pairs, int experts) {
  for (const int rows : {8, 16, 32, 64}) {
    if (4 * pairs <= 3 * rows * experts) return rows;
  }
  return kFp8TileRows;
}

// Rounds the share of m that a rank has to bf16; a thread has a value.
struct RoundActivation {
  static constexpr int kThreads = 1;
  cuda_ops::ActivationValues values;
  std::uint16_t* to;
  int ld;

  SLUICE_DEVICE void operator()(const cuda_ops::Team<kThreads>& team) const {
    const int row = team.index / values.dim, d = team.index % values.dim;
    to[static_cast<std::ptrdiff_t>(row) * ld + d] = to_bf16(values(row, d)).bits;
  }
};

// The memory for multiplying `rows` rows by one expert each: their codes, gate and up, and m's codes.
struct Stage {
  Fp8Rows x, m;
  float *gate = nullptr, *up = nullptr;
  std::uint16_t *own = nullptr, *whole = nullptr;  // if each rank has a share of m: this rank's share, and the whole m

  Stage(Carver& carver, const ExpertWeights& expert, int rows, int code_rows) {
    const int inter = expert.gate.out();
    x = take_rows(carver, code_rows, expert.gate.in());
    m = take_rows(carver, code_rows, expert.down.in());
    gate = carver.take<float>(static_cast<std::size_t>(rows) * static_cast<std::size_t>(inter));
    up = carver.take<float>(static_cast<std::size_t>(rows) * static_cast<std::size_t>(inter));
    if (!cuda_ops::shares_inner(expert)) return;
    const auto take = [&](int columns) {
      return carver.take<std::uint16_t>(static_cast<std::size_t>(rows) * static_cast<std::size_t>(padded(columns)));
    };
    own = take(inter), whole = take(expert.down.in());
  }
};

class Fp8Experts {
 public:
  Fp8Experts(const Exec& exec, const ExpertsArgs& args, const float* other)
      : exec_(exec), args_(args), other_(other), columns_(cuda_ops::output_columns(args)) {}

  void run() {
    int piece = args_.rows;  // rows of one pass
    while (piece > 1 && bytes(piece) > cuda_ops::workspace_bytes(exec_)) piece = (piece + 1) / 2;
    for (int first = 0; first < args_.rows; first += piece) run(first, std::min(piece, args_.rows - first));
  }

 private:
  struct Routed {
    int group_rows, groups, pairs;
    PairLists lists;
    Stage stage;
    float* outputs;

    Routed(Carver& carver, const ExpertsArgs& args, int rows)
        : group_rows(cuda_sm90::group_rows(rows * args.slots, static_cast<int>(args.experts.size()))),
          groups(cuda_ops::groups_of(args, rows, group_rows)),
          pairs(rows * args.slots),
          lists(),
          stage(carver, args.experts[0], pairs, groups * group_rows) {
      const auto count = static_cast<std::size_t>(pairs);
      lists.rows = carver.take<std::int32_t>(count);
      lists.positions = carver.take<std::int32_t>(count);
      lists.weights = carver.take<float>(count);
      for (RowGroup** list : {&lists.gate, &lists.up, &lists.down}) {
        *list = carver.take<RowGroup>(static_cast<std::size_t>(groups));
      }
      outputs = carver.take<float>(count * static_cast<std::size_t>(cuda_ops::output_columns(args)));
    }
  };
  struct Shared {
    Stage stage;
    float* y;
    Shared(Carver& carver, const ExpertsArgs& args, int rows)
        : stage(carver, *args.shared, rows, whole_tiles(rows)),
          y(carver.take<float>(static_cast<std::size_t>(rows) *
                               static_cast<std::size_t>(cuda_ops::output_columns(args)))) {}
  };
  std::size_t bytes(int rows) const {
    Carver carver(nullptr);
    if (args_.slots > 0) Routed(carver, args_, rows);
    if (args_.shared != nullptr) Shared(carver, args_, rows);
    return carver.bytes();
  }

  void run(int first, int rows) {
    Carver carver(cuda_ops::workspace(exec_, bytes(rows)));
    const std::ptrdiff_t at = std::ptrdiff_t{first} * columns_;
    const float* last = other_ != nullptr ? other_ + at : nullptr;
    if (args_.slots == 0) return multiply_shared(Shared(carver, args_, rows), first, rows, last);
    const Routed routed(carver, args_, rows);
    if (args_.shared != nullptr) {
      const Shared shared(carver, args_, rows);
      multiply(*args_.shared, shared.stage, Fp8Launch{.rows = rows}, x_of(first), nullptr, shared.y);
      last = shared.y;
    }
    multiply_routed(routed, first, rows);
    cuda_ops::combine_slots(exec_, args_, first, rows, routed.outputs, routed.lists, last);
  }
  void multiply_shared(const Shared& shared, int first, int rows, const float* other) {
    float* y = args_.y + std::ptrdiff_t{first} * columns_;
    multiply(*args_.shared, shared.stage, Fp8Launch{.rows = rows}, x_of(first), nullptr,
             other == nullptr ? y : shared.y);
    if (other != nullptr) cuda_ops::add(exec_, AddArgs{rows, columns_, shared.y, y});
  }
  void multiply_routed(const Routed& of, int first, int rows) {
    cuda_ops::list_pairs(exec_, args_, first, rows, of.group_rows, of.lists);
    Fp8Inputs x = x_of(first);
    x.x_rows = of.lists.rows;
    const Fp8Launch launch{.rows = of.pairs, .group_count = of.groups, .kernel_rows = of.group_rows};
    multiply(args_.experts[0], of.stage, launch, x, &of.lists, of.outputs);
  }
  Fp8Inputs x_of(int first) const {
    return {.x = args_.x.values + first * args_.x.ld, .ldx = args_.x.ld, .in = args_.hidden};
  }

  // lists: if not null, those of the groups of `launch`.
  void multiply(const ExpertWeights& expert, const Stage& stage, const Fp8Launch& launch, Fp8Inputs x,
                const PairLists* lists, float* y) {
    const int inter = expert.gate.out(), rows = lists != nullptr ? launch.group_count * launch.kernel_rows : launch.rows;
    Fp8Inputs m{.x = stage.gate, .ldx = inter, .in = inter, .up = stage.up, .activation = args_.activation};
    if (lists != nullptr) {
      x.groups = m.groups = lists->gate, x.group_rows = m.group_rows = launch.kernel_rows;
      m.weights = lists->weights;
    }
    const auto product = [&](const LinearWeight& weight, const Fp8Rows& of, const RowGroup* groups, float* to) {
      Fp8Product made = fp8_product(weight, to, weight.out());
      made.x = of, made.groups = groups;
      return made;
    };
    const auto run = [&](std::span<const Fp8Product> products) {
      lists != nullptr ? multiply_fp8(exec_, launch, products) : multiply_fp8(exec_, rows, products);
    };
    make_fp8_rows(exec_, rows, x, stage.x);
    const Fp8Product inner[] = {product(expert.gate, stage.x, lists != nullptr ? lists->gate : nullptr, stage.gate),
                                product(expert.up, stage.x, lists != nullptr ? lists->up : nullptr, stage.up)};
    run(inner);
    if (cuda_ops::shares_inner(expert)) {
      const int in = expert.down.in();
      const cuda_ops::ActivationValues values{stage.gate, stage.up, m.weights, inter, args_.activation};
      cuda_ops::launch(exec_, std::int64_t{launch.rows} * inter, RoundActivation{values, stage.own, padded(inter)});
      gather_inner(exec_, launch.rows, expert, stage.own, stage.whole);
      m = {.ldx = padded(in), .in = in, .rounded = stage.whole, .groups = m.groups, .group_rows = m.group_rows};
    }
    make_fp8_rows(exec_, rows, m, stage.m);
    const Fp8Product down = product(expert.down, stage.m, lists != nullptr ? lists->down : nullptr, y);
    run({&down, 1});
  }

  const Exec& exec_;
  const ExpertsArgs& args_;
  const float* other_;
  int columns_;  // the columns of y
};

}  // namespace

bool in_fp8_tiles(const ExpertWeights& expert) {
  return in_fp8_tiles(expert.gate) && in_fp8_tiles(expert.up) && in_fp8_tiles(expert.down);
}

void fp8_experts(const Exec& exec, const ExpertsArgs& args, const float* other) {
  Fp8Experts(exec, args, other).run();
}

}  // namespace sluice::cuda_sm90
