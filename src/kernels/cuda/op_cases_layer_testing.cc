// Cases of kernels/ops/embedding.h, kernels/ops/hyper_connection.h and kernels/ops/router.h.
#include <fmt/format.h>

#include <limits>

#include "base/formats/block_codes.h"
#include "kernels/cuda/op_cases_testing.h"

namespace sluice {
namespace {

constexpr float kHuge = std::numeric_limits<float>::infinity();

OpCase embed_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  constexpr int kVocab = 30;
  std::vector<WeightForm> specs = weight_forms();
  std::erase_if(specs, [](const WeightForm& spec) {
    return spec.format == WeightFormat::kFp8 || spec.format == WeightFormat::kMxfp4;
  });
  const WeightForm spec = random.pick(specs);
  std::mt19937 values(static_cast<unsigned>(random.between(0, 1 << 30)));
  const RandomWeight weight(values, spec, kVocab, pick(random, sizes, {1, 64, 100, 512}, {4096, 7168}));
  WeightView& table = memory.keep<WeightView>(weight.view());
  table.data = memory.put(std::span(table.data, kVocab * table.row_bytes())).data();
  const auto ids = memory.poisoned<TokenId>(static_cast<std::size_t>(random.between(1, 20)));
  for (TokenId& id : ids) id = random.between(0, kVocab - 1);
  EmbedArgs args{ids, &table, random.pick(std::vector<int>{1, 4}), nullptr};
  const auto out = memory.poisoned<float>(ids.size() * static_cast<std::size_t>(args.copies * table.in));
  args.out = out.data();
  return {fmt::format("{} of {}, {} times {}", ids.size(), describe(spec), args.copies, table.in),
          [args](const Exec& exec, bool) { embed(exec, args); },
          {out},
          {}};
}

OpCase hc_mix_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const int rows = random.pick(std::vector<int>{1, 1, 2, 9}), mixes = random.between(0, 3) == 0 ? kHcStreams : 24;
  HcMixArgs args{.rows = rows, .dim = pick(random, sizes, {1, 5, 64, 256, 1300}, {4096, 7168})};
  const int in = kHcStreams * args.dim;
  const WeightForm spec{WeightFormat::kF32, ScaleFormat::kNone};
  const int first = mixes == 24 ? 16 : mixes;
  const CaseWeight* fn[2] = {&random_weight(random, memory, spec, first, in, InputForm::kF32), nullptr};
  if (mixes > first) fn[1] = &random_weight(random, memory, spec, mixes - first, in, InputForm::kF32);
  const auto base = memory.put(random.floats(static_cast<std::size_t>(mixes)));
  const auto scale = memory.put(random.floats(3));
  const auto n = static_cast<std::size_t>(rows);
  const auto x = memory.put(random.floats(n * static_cast<std::size_t>(in)));
  const auto scratch = memory.poisoned<float>(n * 24), pre = memory.poisoned<float>(n * 4),
             post = memory.poisoned<float>(n * 4), comb = memory.poisoned<float>(n * 16);
  args.x = x.data();
  args.norm_eps = 1e-6F;
  args.hc_eps = 1e-6F;
  args.sinkhorn_iterations = pick(random, sizes, {1, 3, 20}, {20});
  args.mixes = scratch.data();
  args.pre = pre.data();
  if (mixes == 24) {
    args.post = post.data();
    args.comb = comb.data();
  }
  const auto run = [args, a = fn[0], b = fn[1], base, scale](const Exec& exec, bool packed) {
    // LinearWeights do not copy; these point at the bytes of the case's weights.
    const auto over = [&](const CaseWeight& weight) {
      return packed
                 ? LinearWeight::make(weight.packed.view(), InputForm::kF32,
                                      {.packed = weight.packed.packed(), .packed_bytes = weight.packed.packed_bytes()})
                 : LinearWeight::make(weight.reference.view(), InputForm::kF32,
                                      {.packing = &linear_packing(scalar_kernels()), .when_used = true});
    };
    HyperConnectionWeights weights{{over(*a), b != nullptr ? over(*b) : LinearWeight()}, base.data(), scale.data()};
    HcMixArgs with_weights = args;
    with_weights.weights = &weights;
    hc_mix(exec, with_weights);
  };
  return {fmt::format("rows {} dim {} mixes {} iterations {}", rows, args.dim, mixes, args.sinkhorn_iterations),
          run,
          {pre, post, comb},
          {}};
}

OpCase hc_collapse_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const int rows = random.between(1, 9), dim = pick(random, sizes, {random.between(1, 300)}, {4096, 7168});
  const auto x = memory.put(random.floats(static_cast<std::size_t>(4 * rows * dim))),
             pre = memory.put(random.floats(static_cast<std::size_t>(4 * rows)));
  const auto y = memory.poisoned<float>(static_cast<std::size_t>(rows * dim));
  const HcCollapseArgs args{rows, dim, x.data(), pre.data(), y.data()};
  return {fmt::format("{} x {}", rows, dim), [args](const Exec& exec, bool) { hc_collapse(exec, args); }, {y}, {}};
}

OpCase hc_expand_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const int rows = random.between(1, 9), dim = pick(random, sizes, {random.between(1, 300)}, {4096, 7168});
  const auto x = memory.put(random.floats(static_cast<std::size_t>(4 * rows * dim))),
             y = memory.put(random.floats(static_cast<std::size_t>(rows * dim))),
             post = memory.put(random.floats(static_cast<std::size_t>(4 * rows))),
             comb = memory.put(random.floats(static_cast<std::size_t>(16 * rows)));
  const HcExpandArgs args{rows, dim, y.data(), post.data(), comb.data(), x.data()};
  return {fmt::format("{} x {}", rows, dim), [args](const Exec& exec, bool) { hc_expand(exec, args); }, {x}, {}};
}

OpCase route_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  struct Shape {
    int experts, slots, groups, kept;
  };
  static const std::vector<Shape> kShapes{{16, 4, 1, 1},  {5, 2, 1, 1},   {17, 17, 1, 1}, {256, 6, 1, 1},
                                          {384, 8, 1, 1}, {160, 6, 8, 3}, {256, 8, 8, 4}, {18, 5, 6, 2},
                                          {64, 6, 1, 1},  {16, 4, 4, 2},  {33, 33, 3, 3}};
  const Shape shape = pick(random, sizes, kShapes, {{256, 6, 1, 1}, {384, 6, 1, 1}, {256, 8, 8, 4}});
  RouteArgs args{.rows = random.between(1, 20), .experts = shape.experts, .slots = shape.slots};
  const auto n = static_cast<std::size_t>(args.rows), experts = static_cast<std::size_t>(args.experts);
  auto logits = random.floats(n * experts, 4.0F);
  for (int i = random.between(0, 9); i > 0; --i) {
    constexpr float kHard[] = {-200.0F, 100.0F, kHuge, -kHuge, 2.0F};
    logits[static_cast<std::size_t>(random.between(0, args.rows * args.experts - 1))] = kHard[random.between(0, 4)];
  }
  args.logits = memory.put(logits).data();
  const int kind = random.between(0, 2);
  if (kind > 0) args.bias = memory.put(random.floats(experts)).data();
  if (kind == 2 && shape.groups == 1) {
    constexpr int kVocab = 40;
    const auto ids = memory.poisoned<std::int32_t>(static_cast<std::size_t>(kVocab * args.slots));
    for (std::int32_t& id : ids) id = random.between(0, args.experts - 1);
    const auto tokens = memory.poisoned<TokenId>(n);
    for (TokenId& token : tokens) token = random.between(0, kVocab - 1);
    args.hash_ids = ids.data();
    args.tokens = tokens.data();
  }
  args.scaling = 1.5F;
  args.score = static_cast<RouterScore>(random.between(0, 2));
  args.normalised = random.between(0, 1) == 0;
  args.sum_epsilon = random.between(0, 1) == 0 ? 1e-20F : 0.0F;
  args.groups = shape.groups;
  args.kept_groups = shape.kept;
  if (shape.groups > 1) args.group_score = static_cast<GroupScore>(random.between(0, 1));
  const auto ids = memory.poisoned<std::int32_t>(n * static_cast<std::size_t>(args.slots));
  const auto weights = memory.poisoned<float>(ids.size());
  args.ids = ids.data();
  args.weights = weights.data();
  return {fmt::format("rows {}, {} of {}, {} of {} groups, score {} kind {}", args.rows, args.slots, args.experts,
                      args.kept_groups, args.groups, static_cast<int>(args.score), kind),
          [args](const Exec& exec, bool) { choose_experts(exec, args); },
          {weights},
          {std::as_writable_bytes(ids)}};
}

}  // namespace

std::vector<OpCases> layer_cases() {
  return {{"embed", embed_case},
          {"hc_mix", hc_mix_case},
          {"hc_collapse", hc_collapse_case},
          {"hc_expand", hc_expand_case},
          {"choose_experts", route_case}};
}

}  // namespace sluice
