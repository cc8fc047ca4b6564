// The whole ops in plain scalar loops on the calling thread, each after its header: the oracle of every device. Their
// weights are those of the scalar kernels, which pack nothing.
// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/threads/thread_pool.h"
#include "kernels/ops/ops.h"
#include "kernels/ref/kernels.h"
#include "kernels/ref/ref_linear.h"
#include "kernels/weights/input_forms.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice {
namespace ref_ops {
namespace {

// One row of a product: y [weight.out()].
void product(const LinearWeight& weight, const float* x, bool x_prepared, float* y) {
  const InputForm form = weight.input_form();
  std::vector<float> prepared;
  if (form != InputForm::kF32 && !x_prepared) {
    prepared.resize(static_cast<std::size_t>(input_floats(form, weight.in())));
    prepare_inputs(form, weight.in(), x, prepared.data());
    x = prepared.data();
  }
  const LinearJob job{.weight = &weight, .x = x, .ldx = 0, .y = y, .ldy = 0};
  scalar_linear(job, 1, 0, weight.out());
}

// Adds the bias of expert `index`, times a weight.
void add_to(std::vector<float>& y, const float* bias, std::size_t index, float weight) {
  for (std::size_t i = 0; bias != nullptr && i < y.size(); ++i) y[i] += weight * bias[index * y.size() + i];
}

// The down product of one expert for one row.
std::vector<float> expert_output(const ExpertWeights& expert, const ExpertBiases& biases, std::size_t index,
                                 const float* x, float weight, const Activation& activation) {
  const auto inter = static_cast<std::size_t>(expert.gate.out());
  std::vector<float> a(inter), b(inter), y(static_cast<std::size_t>(expert.down.out()));
  product(expert.gate, x, false, a.data());
  product(expert.up, x, false, b.data());
  add_to(a, biases.gate, index, 1.0F);
  add_to(b, biases.up, index, 1.0F);
  activation_scalar({.gate = a.data(),
                     .up = b.data(),
                     .row_weight = &weight,
                     .out = a.data(),
                     .dim = expert.gate.out(),
                     .ld = 0,
                     .activation = activation},
                    0, 1);
  product(expert.down, a.data(), false, y.data());
  add_to(y, biases.down, index, weight);
  return y;
}

void select_row(const IndexSelectArgs& args, int span, int row) {
  const std::int32_t visible = visible_entries(args, args.step->spans[static_cast<std::size_t>(span)], row);
  std::vector<std::int32_t> keys(static_cast<std::size_t>(visible) + IndexCandidates::kSlack), entries(keys.size());
  IndexCandidates all{.keys = keys.data(), .entries = entries.data(), .capacity = visible};
  if (args.scores != nullptr || !takes_all(args, visible))
    ref::index_scores({&args, span, row, row + 1, 0, visible, &all});
  std::int32_t* selected = args.selected + std::ptrdiff_t{row} * args.top_k;
  if (takes_all(args, visible)) {
    args.count[row] = std::max(0, visible - args.first_entry);
    std::iota(selected, selected + args.count[row], args.first_entry);
    return;
  }
  ref::keep_best(all, args.top_k);
  std::copy_n(all.entries, all.count, selected);
  args.count[row] = all.count;
}

}  // namespace

void embed(const Exec&, const EmbedArgs& args) {
  const int dim = args.table->in;
  float* out = args.out;
  for (const TokenId id : args.ids) {
    for (int copy = 0; copy < args.copies; ++copy, out += dim) args.table->read(id, 0, dim, out);
  }
}

void rms_norm(const Exec&, const RmsNormArgs& args) {
  ref::rms_norm(args, 0, args.rows);
}
void norm_inputs(const Exec&, const NormInputsArgs& args) {
  const RmsNormArgs& norm = args.norm;
  ref::rms_norm(norm, 0, norm.rows);
  for (const InputForm form : kPreparedForms) {
    const std::ptrdiff_t width = input_floats(form, norm.dim);
    for (int r = 0; args.y.form(form) != nullptr && r < norm.rows; ++r) {
      prepare_inputs(form, norm.dim, norm.y + r * norm.ldy, args.y.form(form) + r * width);
    }
  }
}
void layer_norm(const Exec&, const LayerNormArgs& args) {
  ref::layer_norm(args, 0, args.rows);
}
void rope_heads(const Exec&, const RopeHeadsArgs& args) {
  ref::rope_heads(args, 0, args.rows);
}
void hadamard(const Exec&, const HadamardArgs& args) {
  ref::hadamard(args, 0, args.rows);
}
void choose_experts(const Exec&, const RouteArgs& args) {
  ref::route(args, 0, args.rows);
}
void hc_collapse(const Exec&, const HcCollapseArgs& args) {
  ref::hc_collapse(args, 0, args.rows);
}
void hc_expand(const Exec&, const HcExpandArgs& args) {
  ref::hc_expand(args, 0, args.rows);
}
void merge_attention(const Exec&, const MergeAttentionArgs& args) {
  ref::merge_attention(args, 0, args.rows);
}

void add(const Exec&, const AddArgs& args) {
  for (std::ptrdiff_t t = 0; t < std::ptrdiff_t{args.rows} * args.copies; ++t) {
    for (int d = 0; d < args.dim; ++d) args.y[t * args.dim + d] += args.x[t / args.copies * args.dim + d];
  }
}
void add_bias(const Exec&, const AddBiasArgs& args) {
  for (std::ptrdiff_t i = 0; i < std::ptrdiff_t{args.rows} * args.dim; ++i) args.y[i] += args.bias[i % args.dim];
}
void scale(const Exec&, const ScaleArgs& args) {
  for (std::ptrdiff_t i = 0; i < std::ptrdiff_t{args.rows} * args.dim; ++i) args.x[i] *= args.factor;
}
void gather_rows(const Exec&, const GatherRowsArgs& args) {
  float* y = args.y;
  for (const std::int32_t row : args.from) y = std::copy_n(args.x + std::ptrdiff_t{row} * args.dim, args.dim, y);
}
void copy_heads(const Exec&, const CopyHeadsArgs& args) {
  for (int row = 0; row < args.rows; ++row) {
    for (int head = 0; head < args.heads; ++head) {
      const float* x = args.x + row * args.ldx + head * args.head_x;
      float* y = args.y + row * args.ldy + head * args.head_y;
      for (int d = 0; d < args.dims; ++d) y[d] = x[d];
      for (int d = args.dims; d < args.dims + args.zeros; ++d) y[d] = 0.0F;
    }
  }
}

void prepare_rows(const Exec&, const PrepareRowsArgs& args) {
  for (int r = 0; r < args.rows; ++r)
    prepare_inputs(args.form, args.in, args.x + r * args.ldx, args.to + r * args.ldto);
}

void linear(const Exec&, const LinearArgs& args) {
  for (const LinearJob& job : args.jobs) {
    for (int r = 0; r < args.rows; ++r) product(*job.weight, job.x_row(r), job.x_prepared, job.y + r * job.ldy);
  }
}

void hc_mix(const Exec& exec, const HcMixArgs& args) {
  const LinearWeight &first = args.weights->fn[0], &second = args.weights->fn[1];
  const int mixes = first.out() + second.out(), in = kHcStreams * args.dim;
  const LinearJob jobs[] = {{&first, args.x, in, args.mixes, mixes},
                            {&second, args.x, in, args.mixes + first.out(), mixes}};
  ref_ops::linear(exec, {args.rows, {jobs, second.out() > 0 ? 2U : 1U}});
  ref::hc_finish(args, 0, args.rows);
}

void experts(const Exec&, const ExpertsArgs& args) {
  for (int t = 0; t < args.rows; ++t) {
    const float* x = args.x.values + t * args.x.ld;
    float* y = args.y + std::ptrdiff_t{t} * args.hidden;
    bool first = true;
    const auto add = [&](const std::vector<float>& out) {
      for (int d = 0; d < args.hidden; ++d)
        y[d] = first ? out[static_cast<std::size_t>(d)] : y[d] + out[static_cast<std::size_t>(d)];
      first = false;
    };
    if (args.slots == 0) add(std::vector<float>(static_cast<std::size_t>(args.hidden), 0.0F));
    for (int s = 0; s < args.slots; ++s) {
      const std::ptrdiff_t at = std::ptrdiff_t{t} * args.slots + s;
      const auto expert = static_cast<std::size_t>(args.expert_ids[at]);
      add(expert_output(args.experts[expert], args.biases, expert, x, args.expert_weights[at], args.activation));
    }
    if (args.shared != nullptr) add(expert_output(*args.shared, args.shared_biases, 0, x, 1.0F, args.activation));
  }
}

void encode_rows(const Exec&, const EncodeRowsArgs& args) {
  for (int i = 0; i < args.count; ++i) {
    if (args.slots[i]) encode_row(args.plane->format, args.x + i * args.ldx, args.plane->row(args.slots[i]));
  }
}
void decode_rows(const Exec&, const DecodeRowsArgs& args) {
  for (int i = 0; i < args.count; ++i) {
    decode_row(args.plane->format, latent_row(*args.step, args.span, *args.plane, args.first + i),
               args.x + std::ptrdiff_t{i} * args.plane->format.dims);
  }
}
void simulate_rows(const Exec&, const SimulateRowsArgs& args) {
  for (int i = 0; i < args.count; ++i) simulate_row(args.codec, args.dims, args.rope_dims, args.x + i * args.ldx);
}

void compress(const Exec&, const CompressArgs& args) {
  for (std::size_t s = 0; s < args.step->spans.size(); ++s) ref::compress(args, static_cast<int>(s), 0, args.dim);
}

void select_entries(const Exec&, const IndexSelectArgs& args) {
  for (std::ptrdiff_t i = 0; args.scores != nullptr && i < args.rows * args.scores_stride; ++i) args.scores[i] = 0.0F;
  for (std::size_t s = 0; s < args.step->spans.size(); ++s) {
    const RowSpan& span = args.step->spans[s];
    for (int row = span.row_begin; row < span.row_begin + span.rows; ++row) select_row(args, static_cast<int>(s), row);
  }
}

void attend_keys(const Exec& exec, const AttendArgs& given) {
  AttendArgs args = given;
  args.fault_chunk_anchored_splits = exec.fault_chunk_anchored_splits;
  for (const PlaneView* rows : {args.latent, args.window}) {
    if (rows != nullptr && rows->format.codec == RowCodec::kF32) args.bf16 = false;
  }
  args.tiles = args.tiles && args.bf16;
  const int sharing = args.heads / args.key_heads;
  for (std::size_t s = 0; s < args.spans.size(); ++s) {
    const int begin = args.spans[s].row_begin, end = begin + args.spans[s].rows;
    for (int h = 0; h < args.heads; h += sharing) ref::attend(args, static_cast<int>(s), begin, end, h, h + sharing);
  }
}

void sample(const Exec&, const SampleArgs& args) {
  ref::sample(args, 0, args.rows);
}

void previous_rows(const Exec&, const PreviousRowsArgs& args) {
  const int dims = args.format.dims;
  for (std::size_t s = 0; s < args.step->spans.size(); ++s) {
    const RowSpan& span = args.step->spans[s];
    for (int i = 0; i < span.rows; ++i) {
      const std::ptrdiff_t row = span.row_begin + i;
      float* y = args.y + row * dims;
      if (i == 0) decode_row(args.format, args.state(span.state_in), y);
      if (i > 0) simulate_row(args.format.codec, dims, 0, std::copy_n(args.x + (row - 1) * dims, dims, y) - dims);
      if (args.x == nullptr) continue;
      const float* x = args.x + row * dims;
      const std::int32_t after = args.step->states_after[row];
      if (after >= 0) encode_row(args.format, x, args.state(after));
      if (args.boundaries == nullptr) continue;
      const std::int32_t page = boundary_page(args, *args.step, span, static_cast<int>(s), span.first_position + i);
      if (page >= 0) encode_row(args.format, x, args.boundaries->row(page, 0));
    }
  }
}

void take_ids(const Exec&, const TakeIdsArgs& args) {
  for (int row = 0; row < args.rows; ++row) {
    if (args.slots[row] >= 0) args.ids[row] = args.newest[args.slots[row]];
  }
}

void attend_expanded(const Exec&, const AttendExpandedArgs& args) {
  for (int head = 0; head < args.heads; ++head) {
    for (int row = 0; row < args.rows; row += 64) ref::attend_expanded(args, head, row, std::min(args.rows, row + 64));
  }
}

}  // namespace ref_ops

const OpTable& ref_op_table() {
#define SLUICE_OP(op, Args)                      \
  .op = [](const Exec& exec, const Args& args) { \
    const FlushDenormals flush;                  \
    ref_ops::op(exec, args);                     \
  },
  static constexpr PartTable kParts{SLUICE_PARTS(SLUICE_OP)};
  static constexpr OpTable kTable{.device = "ref",
                                  .parts = &kParts,
#define SLUICE_COMPOSED(op, Args) .op = composed::op,
                                  SLUICE_COMPOSED_OPS(SLUICE_COMPOSED) SLUICE_WHOLE_OPS(SLUICE_OP)
#undef SLUICE_COMPOSED
#undef SLUICE_OP
  };
  return kTable;
}

}  // namespace sluice
