// previous_rows (kernels/ops/previous_rows.h): a thread for each value.
// Used by kernels/cuda/shared.
#include "kernels/cuda/shared/row_codec.h"
#include "kernels/cuda/shared/step_rows.h"
#include "kernels/ops/previous_rows.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct PreviousRows {
  static constexpr int kThreads = 1;
  PreviousRowsArgs args;  // its pointers to host memory are replaced by the fields below
  StepTables step;
  int spans;
  PlaneView boundaries;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int dims = args.format.dims, row = team.index / dims, d = team.index % dims;
    const int index = span_index_of_row(step.spans.data(), spans, row);
    const RowSpan span = step.spans.data()[index];
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * dims + d;
    if (row == span.row_begin) {
      args.y[at] = decode_value(args.format, args.state(span.state_in), d);
    } else {
      const float value = args.x[at - dims];
      args.y[at] = args.format.codec == RowCodec::kF32 ? value : round_to_bf16(value);
    }
    if (args.x == nullptr) return;
    const std::int32_t after = step.states_after[row];
    if (after >= 0) keep(args.state(after), d, args.x[at]);
    if (args.boundaries == nullptr) return;
    const std::int32_t page = boundary_page(args, step, span, index, span.first_position + (row - span.row_begin));
    if (page >= 0) keep(boundaries.row(page, 0), d, args.x[at]);
  }

  SLUICE_DEVICE void keep(const RowRef& to, int d, float value) const {
    if (args.format.codec == RowCodec::kF32) {
      store_f32(to.data + 4 * d, value);
    } else {
      store_u16(to.data + 2 * d, to_bf16(value).bits);
    }
  }
};

}  // namespace

void previous_rows(const Exec& exec, const PreviousRowsArgs& args) {
  SLUICE_CHECK(args.format.codec == RowCodec::kF32 || args.format.codec == RowCodec::kBf16, "states are f32 or bf16");
  const PlaneView boundaries = args.boundaries != nullptr ? *args.boundaries : PlaneView{};
  launch(exec, std::int64_t{args.step->rows()} * args.format.dims,
         PreviousRows{args, *args.step, static_cast<int>(args.step->spans.size()), boundaries});
}

}  // namespace sluice::SLUICE_CUDA_OPS
