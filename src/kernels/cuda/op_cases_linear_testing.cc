// Cases of kernels/linear.h.
#include <fmt/format.h>

#include <cmath>

#include "kernels/cuda/op_cases_testing.h"
#include "kernels/cuda/pack.h"
#include "kernels/input_forms.h"
#include "kernels/linear_inputs.h"

namespace sluice {
namespace {

constexpr InputForm kForms[] = {InputForm::kF32, InputForm::kBf16, InputForm::kInt8, InputForm::kFp8};

OpCase prepare_rows_case(Random& random, CaseMemory& memory) {
  PrepareRowsArgs args;
  args.form = kForms[random.between(1, 3)];
  args.rows = random.between(1, 9);
  args.in = random.pick(std::vector<int>{1, 31, 32, 33, 100, 128, 257, 1000});
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
    op_case.floats.push_back(to);  // a NaN's bits are any
  } else {
    op_case.bytes.push_back(std::as_writable_bytes(to));
  }
  return op_case;
}

OpCase norm_inputs_case(Random& random, CaseMemory& memory) {
  const int rows = random.between(1, 9), dim = random.pick(std::vector<int>{32, 100, 512}), ld = dim + 4;
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

OpCase linear_case(Random& random, CaseMemory& memory) {
  static const std::vector<int> kRows{1, 1, 1, 2, 7, 8, 9, 20}, kIns{1, 33, 131, 256, 288, 512, 1024, 2080, 4096, 4500},
      kOuts{1, 4, 24, 77, 128, 200};
  struct Job {
    const CaseWeight* weight;
    LinearJob job;
  };
  const std::vector<WeightSpec> specs = weight_specs();
  const int rows = random.pick(kRows), count = random.between(1, 3) == 1 ? random.between(2, 30) : 1;
  const WeightSpec spec = random.pick(specs);
  const int in = random.pick(kIns);
  OpCase op_case{fmt::format("rows {}", rows), nullptr, {}, {}};
  std::vector<Job> jobs;
  std::span<float> x;
  for (int i = 0; i < count; ++i) {
    // Mostly alike, so that they share a launch.
    const InputForm form = kForms[random.between(0, 3)];
    const WeightSpec& of_job = random.between(0, 3) == 0 ? random.pick(specs) : spec;
    const CaseWeight& weight =
        random_weight(random, memory, of_job, random.pick(kOuts), i == 0 || random.between(0, 2) > 0 ? in : 160, form,
                      random.between(0, 5) == 0);
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

}  // namespace

void prepare_on_host(InputForm form, int rows, int in, const float* x, std::ptrdiff_t ldx, float* to) {
  const FlushDenormals flush;
  for (int r = 0; r < rows; ++r) prepare_inputs(form, in, x + r * ldx, to + std::ptrdiff_t{r} * input_floats(form, in));
}

CaseWeight& random_weight(Random& random, CaseMemory& memory, const WeightSpec& spec, int out, int in, InputForm wanted,
                          bool transposed) {
  std::mt19937 values(static_cast<unsigned>(random.between(0, 1 << 30)));
  WeightView view = memory.keep<RandomWeight>(values, spec, out, in).view();
  if (transposed && spec.format == WeightFormat::kCodes) view = transposed_codes(view);
  CaseWeight& weight = memory.keep<CaseWeight>();
  weight.reference = LinearWeight::in_place(linear_packing(scalar_kernels()), view, wanted);
  const LinearPacking& packing = cuda_linear_packing();
  const auto packed = memory.poisoned<std::byte>(packing.packed_bytes(view));
  pack_linear_weight(nullptr, packing, view, packed.data());
  weight.packed = LinearWeight::packed_at(view, wanted, packed.data(), packed.size());
  return weight;
}

std::vector<OpCases> linear_cases() {
  return {{"prepare_rows", prepare_rows_case}, {"norm_inputs", norm_inputs_case}, {"linear", linear_case}};
}

}  // namespace sluice
