// Cases of kernels/ops/linear.h.
#include <fmt/format.h>

#include <cmath>

#include "kernels/cuda/linear_layout.h"
#include "kernels/cuda/op_cases_testing.h"
#include "kernels/weights/input_forms.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice {
namespace {

constexpr InputForm kForms[] = {InputForm::kF32, InputForm::kBf16, InputForm::kInt8, InputForm::kFp8};

OpCase prepare_rows_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  PrepareRowsArgs args;
  args.form = kForms[random.between(1, 3)];
  args.rows = random.between(1, 9);
  args.in = pick(random, sizes, {1, 31, 32, 33, 100, 128, 257, 1000}, {1024, 1536, 2048, 3072, 4096, 7168, 18432});
  args.ldx = args.in + random.between(0, 3);
  args.ldto = input_floats(args.form, args.in) + 12 * random.between(0, 1);
  std::mt19937 values(static_cast<unsigned>(random.between(0, 1 << 30)));
  auto x = random_inputs(values, static_cast<std::size_t>(args.rows * args.ldx));
  if (random.between(0, 4) == 0) x[0] = random.between(0, 1) == 0 ? INFINITY : NAN;
  const auto to = memory.poisoned<float>(static_cast<std::size_t>(args.rows * args.ldto));
  args.x = memory.put(x).data();
  args.to = to.data();
  OpCase op_case{fmt::format("{} rows of {} as {}", args.rows, args.in, static_cast<int>(args.form)),
                 [args](const Exec& exec, bool) { prepare_rows(exec, args); },
                 {},
                 {}};
  if (args.form == InputForm::kInt8) {
    op_case.floats.push_back(to);  // a NaN may have any bits
  } else {
    op_case.bytes.push_back(std::as_writable_bytes(to));
  }
  return op_case;
}

OpCase norm_inputs_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const int rows = random.between(1, 9), dim = pick(random, sizes, {32, 100, 512}, {1024, 1536, 4096, 7168}),
            ld = dim + 4;
  NormInputsArgs args;
  const auto n = static_cast<std::size_t>(rows);
  const auto y = memory.poisoned<float>(n * static_cast<std::size_t>(ld));
  args.norm = {rows, dim, memory.put(random.floats(y.size())).data(), ld, nullptr, 1e-6F, y.data(), ld};
  if (random.between(0, 1) == 0) args.norm.weight = memory.put(random.floats(static_cast<std::size_t>(dim))).data();
  args.y = {.values = y.data(), .ld = ld, .columns = dim};
  OpCase op_case{fmt::format("{} rows of {}", rows, dim), nullptr, {y}, {}};
  for (const InputForm form : kPreparedForms) {
    if (random.between(0, 1) == 0) continue;
    const auto to = memory.poisoned<float>(n * static_cast<std::size_t>(input_floats(form, dim)));
    args.y.forms[static_cast<std::size_t>(form)] = to.data();
    op_case.bytes.push_back(std::as_writable_bytes(to));
  }
  op_case.run = [args](const Exec& exec, bool) { norm_inputs(exec, args); };
  return op_case;
}

struct Shape {
  WeightForm spec;
  int out, in;
};

const std::vector<Shape>& official_shapes() {
  static const WeightForm kE8m0{WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128},
      kF32{WeightFormat::kFp8, ScaleFormat::kF32, 128, 128}, kMxfp4{WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1, 32},
      kBf16{WeightFormat::kBf16, ScaleFormat::kNone};
  static const std::vector<Shape> all{
      // V4 Flash: q_a, q_b, kv, a group of o_a, o_b, the indexer's, a compressor's, the router's, experts', some ids.
      {kE8m0, 1024, 4096},
      {kE8m0, 32768, 1024},
      {kE8m0, 512, 4096},
      {kE8m0, 1024, 4096},
      {kE8m0, 4096, 8192},
      {kE8m0, 8192, 1024},
      {kBf16, 1024, 4096},
      {kBf16, 256, 4096},
      {kMxfp4, 2048, 4096},
      {kMxfp4, 4096, 2048},
      {kE8m0, 2048, 4096},
      {kE8m0, 4096, 2048},
      {kBf16, 4000, 4096},
      // V4 Pro
      {kE8m0, 1536, 7168},
      {kE8m0, 65536, 1536},
      {kE8m0, 512, 7168},
      {kE8m0, 7168, 16384},
      {kE8m0, 8192, 1536},
      {kBf16, 384, 7168},
      {kMxfp4, 3072, 7168},
      {kMxfp4, 7168, 3072},
      {kE8m0, 7168, 3072},
      // V3: q_a, q_b, kv_a, o, a dense layer's, experts'
      {kF32, 1536, 7168},
      {kF32, 24576, 1536},
      {kF32, 576, 7168},
      {kF32, 7168, 16384},
      {kF32, 18432, 7168},
      {kF32, 7168, 18432},
      {kF32, 2048, 7168},
      {kF32, 7168, 2048},
      {kBf16, 256, 7168}};
  return all;
}

OpCase linear_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  static const std::vector<int> kRows{1, 1, 1, 2, 7, 8, 9, 20}, kIns{1, 33, 131, 256, 288, 512, 1024, 2080, 4096, 4500},
      kOuts{1, 4, 24, 77, 128, 200};
  struct Job {
    const CaseWeight* weight;
    LinearJob job;
  };
  const std::vector<WeightForm> specs = weight_forms();
  const bool official = sizes == CaseSizes::kOfficial;
  const int rows = pick(random, sizes, kRows, {1, 1, 1, 3, 9});
  const int count = random.between(1, 3) == 1 ? random.between(2, official ? 3 : 30) : 1;
  const Shape shape = official ? random.pick(official_shapes()) : Shape{random.pick(specs), 0, random.pick(kIns)};
  OpCase op_case{fmt::format("rows {}", rows), nullptr, {}, {}};
  std::vector<Job> jobs;
  std::span<float> x;
  for (int i = 0; i < count; ++i) {
    // Forms are mostly alike, so that products share a launch.
    const InputForm form = kForms[random.between(0, 3)];
    const WeightForm& of_job = official || random.between(0, 3) > 0 ? shape.spec : random.pick(specs);
    const CaseWeight& weight =
        random_weight(random, memory, of_job, official && i == 0 ? shape.out : random.pick(kOuts),
                      official || i == 0 || random.between(0, 2) > 0 ? shape.in : 160, form, random.between(0, 5) == 0);
    const int width = weight.reference.in(), gap = random.between(0, 3), out = weight.reference.out();
    const int x_count = rows + random.between(0, 4);
    if (x.size() < static_cast<std::size_t>(x_count * (width + gap)) || random.between(0, 1) == 0) {
      std::mt19937 values(static_cast<unsigned>(random.between(0, 1 << 30)));
      x = memory.put(random_inputs(values, static_cast<std::size_t>(x_count * (width + gap))));
    }
    const auto y = memory.poisoned<float>(static_cast<std::size_t>(rows * (out + gap)));
    const std::int32_t* x_rows = nullptr;
    if (random.between(0, 2) == 0) {
      const auto list = memory.poisoned<std::int32_t>(static_cast<std::size_t>(rows));
      for (std::int32_t& row : list) row = random.between(0, x_count - 1);
      x_rows = list.data();
    }
    jobs.push_back({&weight, {nullptr, x.data(), width + gap, y.data(), out + gap, x_rows}});
    const InputForm multiplied = weight.reference.input_form();
    if (multiplied != InputForm::kF32 && random.between(0, 1) == 0) {
      const int prepared = input_floats(multiplied, width);
      const auto rows_of_form = memory.poisoned<float>(static_cast<std::size_t>(x_count * prepared));
      prepare_on_host(multiplied, x_count, width, x.data(), width + gap, rows_of_form.data());
      jobs.back().job.x = rows_of_form.data();
      jobs.back().job.ldx = prepared;
      jobs.back().job.x_prepared = true;
    }
    op_case.floats.push_back(y);
    op_case.text += fmt::format("; {} {} x {} as {}", describe(of_job), out, width, static_cast<int>(form));
  }
  op_case.run = [rows, jobs](const Exec& exec, bool packed) {
    std::vector<LinearJob> list;
    for (const Job& job : jobs) {
      list.push_back(job.job);
      list.back().weight = &job.weight->in(packed);
    }
    linear(exec, rows, list);
  };
  return op_case;
}

// A router's gate: few outputs of bf16, with rows as they are.
OpCase gate_case(Random& random, CaseMemory& memory, CaseSizes sizes) {
  const int rows = random.pick(std::vector<int>{1, 1, 2, 3, 4, 5, 9, 20}),
            in = pick(random, sizes, {128, 256, 640, 1024, 4224, 5120, 16384}, {4096, 7168}),
            out = pick(random, sizes, {1, 3, 4, 5, 24, 31, 33, 77}, {256, 384}),
            gap = random.pick(std::vector<int>{0, 3, 4, 8});
  const CaseWeight& weight =
      random_weight(random, memory, {WeightFormat::kBf16, ScaleFormat::kNone}, out, in, InputForm::kF32);
  std::mt19937 values(static_cast<unsigned>(random.between(0, 1 << 30)));
  const auto x = memory.put(random_inputs(values, static_cast<std::size_t>((rows + 2) * (in + gap))));
  const auto y = memory.poisoned<float>(static_cast<std::size_t>(rows * (out + gap)));
  LinearJob job{nullptr, x.data(), in + gap, y.data(), out + gap};
  const auto list = memory.poisoned<std::int32_t>(static_cast<std::size_t>(rows));
  for (std::int32_t& row : list) row = random.between(0, rows + 1);
  if (random.between(0, 2) == 0) job.x_rows = list.data();
  const auto run = [rows, job, &weight](const Exec& exec, bool packed) {
    LinearJob of = job;
    of.weight = &weight.in(packed);
    linear(exec, rows, {&of, 1});
  };
  return {fmt::format("{} rows, {} x {}, gap {}", rows, out, in, gap), run, {y}, {}};
}

}  // namespace

void prepare_on_host(InputForm form, int rows, int in, const float* x, std::ptrdiff_t ldx, float* to) {
  const FlushDenormals flush;
  for (int r = 0; r < rows; ++r) prepare_inputs(form, in, x + r * ldx, to + std::ptrdiff_t{r} * input_floats(form, in));
}

CaseWeight& random_weight(Random& random, CaseMemory& memory, const WeightForm& spec, int out, int in, InputForm wanted,
                          bool transposed) {
  std::mt19937 values(static_cast<unsigned>(random.between(0, 1 << 30)));
  RandomWeight& random_values = memory.keep<RandomWeight>(values, spec, out, in);
  if (random.between(0, 7) == 0) random_values.plant_extremes(values);
  WeightView view = random_values.view();
  if (transposed && spec.format == WeightFormat::kCodes) view = transposed_codes(view);
  CaseWeight& weight = memory.keep<CaseWeight>();
  weight.reference =
      LinearWeight::make(view, wanted, {.packing = &linear_packing(scalar_kernels()), .when_used = true});
  const LinearPacking& packing = cuda_linear_packing();
  const auto packed = memory.poisoned<std::byte>(packing.packed_bytes(view));
  pack_linear_weight(nullptr, packing, view, packed.data());
  weight.packed = LinearWeight::make(view, wanted, {.packed = packed.data(), .packed_bytes = packed.size()});
  return weight;
}

std::vector<OpCases> linear_cases() {
  return {{"prepare_rows", prepare_rows_case},
          {"norm_inputs", norm_inputs_case},
          {"linear", linear_case},
          {"linear_gate", gate_case}};
}

}  // namespace sluice
