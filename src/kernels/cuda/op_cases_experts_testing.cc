// Cases of kernels/ops/experts.h.
#include <fmt/format.h>

#include "base/sanitizer_testing.h"
#include "kernels/cuda/op_cases_testing.h"
#include "kernels/weights/input_forms.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice {
namespace {

struct CaseExpert {
  CaseWeight *gate, *up, *down;
};

ExpertWeights over(const CaseExpert& expert, bool packed) {
  const auto weight = [&](const CaseWeight& w) {
    return packed ? LinearWeight::make(w.packed.view(), w.packed.input_form(),
                                       {.packed = w.packed.packed(), .packed_bytes = w.packed.packed_bytes()})
                  : LinearWeight::make(w.reference.view(), w.reference.input_form(),
                                       {.packing = &linear_packing(scalar_kernels()), .when_used = true});
  };
  return {weight(*expert.gate), weight(*expert.up), weight(*expert.down)};
}

OpCase experts_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  struct Shape {
    int experts, slots, hidden, inter, shared_inter;  // shared_inter 0: no shared expert
  };
  static const std::vector<Shape> kShapes{{16, 4, 256, 128, 128}, {5, 3, 70, 40, 0},  {7, 1, 33, 100, 200},
                                          {40, 8, 128, 32, 64},   {3, 0, 64, 32, 64}, {2, 2, 512, 256, 0}};
  static const std::vector<WeightForm> kSpecs{
      {WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32},       {WeightFormat::kFp8, ScaleFormat::kF32, 128, 128},
      {WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128},      {WeightFormat::kBf16, ScaleFormat::kNone},
      {.format = WeightFormat::kCodes, .codes = DType::kQ4_0}, {.format = WeightFormat::kCodes, .codes = DType::kQ8_0}};
  const int part = !memory.of_host() ? 1 : kSanitized ? 8 : 4;  // the divisor of the dimensions
  const std::vector<Shape> official_shapes{{256, 6, 4096 / part, 2048 / part, 2048 / part},
                                           {384, 6, 7168 / part, 3072 / part, 3072 / part},
                                           {256, 8, 7168 / part, 2048 / part, 2048 / part}};
  Shape shape = pick(random, sizes, kShapes, official_shapes);
  const bool official = sizes == CaseSizes::kOfficial;
  const WeightForm spec = official ? kSpecs[shape.slots == 8 ? 1 : 0] : random.pick(kSpecs);
  if (spec.format == WeightFormat::kCodes && (shape.hidden % 32 != 0 || shape.inter % 32 != 0)) shape = kShapes[0];
  const auto form = static_cast<InputForm>(random.between(0, 3));
  auto& experts = memory.keep<std::vector<CaseExpert>>();
  const auto expert = [&](const WeightForm& of_expert, int inter) {
    return CaseExpert{&random_weight(random, memory, of_expert, inter, shape.hidden, form),
                      &random_weight(random, memory, of_expert, inter, shape.hidden, form),
                      &random_weight(random, memory, of_expert, shape.hidden, inter, form)};
  };
  const int different = official ? 3 : shape.experts;  // as many as there is time to make
  for (int e = 0; e < different; ++e) experts.push_back(expert(spec, shape.inter));
  for (int e = different; e < shape.experts; ++e) experts.push_back(experts[static_cast<std::size_t>(e % different)]);
  if (shape.shared_inter > 0) {
    experts.push_back(expert({WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128}, shape.shared_inter));
  }
  ExpertsArgs args;
  args.rows = pick(random, sizes, {1, 1, 2, 5, 21, 70}, {1, 1, 2, 4});
  args.hidden = shape.hidden;
  args.slots = shape.slots;
  const auto n = static_cast<std::size_t>(args.rows), pairs = n * static_cast<std::size_t>(args.slots);
  std::mt19937 values(static_cast<unsigned>(random.between(0, 1 << 30)));
  auto x = random_inputs(values, n * static_cast<std::size_t>(args.hidden));
  for (float& value : x) value = std::min(value, 4.0F) * 0.05F;
  const auto ids = memory.poisoned<std::int32_t>(pairs);
  for (std::int32_t& id : ids) id = random.between(0, shape.experts - 1);
  const auto y = memory.poisoned<float>(x.size());
  const auto values_of_x = memory.put(x);
  args.x = contiguous_rows(values_of_x.data(), args.hidden);
  for (const InputForm prepared : kPreparedForms) {
    if (random.between(0, 1) == 0) continue;
    const auto rows = memory.poisoned<float>(n * static_cast<std::size_t>(input_floats(prepared, args.hidden)));
    prepare_on_host(prepared, args.rows, args.hidden, values_of_x.data(), args.hidden, rows.data());
    args.x.forms[static_cast<std::size_t>(prepared)] = rows.data();
  }
  args.expert_ids = ids.data();
  args.expert_weights = memory.put(random.floats(pairs)).data();
  args.activation.limit = random.between(0, 1) == 0 ? 0.0F : 0.7F;
  if (random.between(0, 2) == 0) args.activation.alpha = 1.702F, args.activation.up_offset = 1.0F;
  if (random.between(0, 3) == 0) args.activation.kind = ActivationKind::kGeluTanh;
  const auto biases = [&](int count, int inter) {
    const auto some = [&](int dim) {
      return memory.put(random.floats(static_cast<std::size_t>(count) * static_cast<std::size_t>(dim))).data();
    };
    return ExpertBiases{some(inter), some(inter), some(shape.hidden)};
  };
  if (!official && random.between(0, 2) == 0) args.biases = biases(shape.experts, shape.inter);
  if (!official && shape.shared_inter > 0 && random.between(0, 2) == 0)
    args.shared_biases = biases(1, shape.shared_inter);
  args.y = y.data();
  const auto run = [args, shape, &experts](const Exec& exec, bool packed) {
    std::vector<ExpertWeights> weights;
    for (const CaseExpert& e : experts) weights.push_back(over(e, packed));
    ExpertsArgs with_weights = args;
    with_weights.experts = std::span(weights).first(static_cast<std::size_t>(shape.experts));
    with_weights.shared = shape.shared_inter > 0 ? &weights.back() : nullptr;
    sluice::experts(exec, with_weights);
  };
  return {fmt::format("rows {}, {} of {} {}, {} x {}, shared {}, as {}, limit {}, alpha {}, kind {}{}{}", args.rows,
                      shape.slots, shape.experts, describe(spec), shape.hidden, shape.inter, shape.shared_inter,
                      static_cast<int>(form), args.activation.limit, args.activation.alpha,
                      static_cast<int>(args.activation.kind), args.biases.any() ? ", biases" : "",
                      args.shared_biases.any() ? ", shared biases" : ""),
          run,
          {y},
          {}};
}

}  // namespace

std::vector<OpCases> experts_cases() {
  return {{"experts", experts_case}};
}

}  // namespace sluice
