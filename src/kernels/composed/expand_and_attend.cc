// Called through the table of ops (kernels/ops/ops.h).
#include "kernels/ops/expand_and_attend.h"

#include <vector>

#include "kernels/composed/composed_rows.h"
#include "kernels/ops/ops.h"

namespace sluice::composed {
namespace {

// Expands the keys and values of heads [head, head + count) into args.expanded: [count, keys, expanded_row_floats].
void expand(const Exec& exec, const ExpandAndAttendArgs& args, int keys, int head, int count) {
  const int key_dims = args.key_dims, offset = expanded_value_offset(key_dims), rotary = args.rotary();
  const int latent_dim = args.rank + rotary, row = expanded_row_floats(key_dims, args.value_dims);
  const std::ptrdiff_t head_floats = std::ptrdiff_t{keys} * row;
  thread_local std::vector<LinearJob> jobs;
  jobs.clear();
  for (int h = 0; h < count; ++h) {
    const auto of = static_cast<std::size_t>(head + h);
    jobs.push_back({&args.k_expand[of], args.latents, latent_dim, args.expanded + h * head_floats, row});
    jobs.push_back({&args.v_up[of], args.latents, latent_dim, args.expanded + h * head_floats + offset, row});
  }
  linear(exec, {keys, jobs});
  copy_heads(exec, {keys, count, rotary, args.latents + args.rank, 0, latent_dim, args.expanded + key_dims - rotary,
                    head_floats, row, /*zeros=*/offset - key_dims});
}

// Attends from the span's rows to the keys at positions [first, last).
void attend_piece(const Exec& exec, const ExpandAndAttendArgs& args, Position first, Position last, float* out,
                  float* lse) {
  const RowSpan& span = args.span;
  const int keys = last - first, heads = args.heads;
  decode_rows(exec, {args.step, span, args.latent, first, keys, args.latents});
  AttendExpandedArgs piece;
  piece.rows = span.rows, piece.key_dims = args.key_dims, piece.value_dims = args.value_dims;
  piece.ldq = heads * args.key_dims, piece.ldo = heads * args.value_dims, piece.ld_lse = heads;
  piece.scale = args.scale;
  piece.keys = keys, piece.visible = span.first_position + 1 - first;
  piece.kv = args.expanded;
  const int group = ExpandAndAttendArgs::heads_at_once(heads, keys, args.key_dims, args.value_dims);
  for (int head = 0; head < heads; head += group) {
    piece.heads = std::min(group, heads - head);
    expand(exec, args, keys, head, piece.heads);
    piece.q = args.q + span.row_begin * piece.ldq + head * args.key_dims;
    piece.out = out + head * args.value_dims;
    piece.lse = lse + head;
    attend_expanded(exec, piece);
  }
}

}  // namespace

void expand_and_attend(const Exec& exec, const ExpandAndAttendArgs& args) {
  const RowSpan& span = args.span;
  const std::ptrdiff_t ldq = std::ptrdiff_t{args.heads} * args.key_dims;
  form_heads(exec, args.query, span.rows, args.heads, args.key_dims, args.q + span.row_begin * ldq, ldq,
             args.step->positions.data() + span.row_begin);
  float* out = args.out + std::ptrdiff_t{span.row_begin} * args.heads * args.value_dims;
  const Position own = span.first_position, end = own + span.rows;
  for (Position first = 0, last = 0; first < end; first = last) {
    last = first < own ? std::min(own, first + args.prefix_chunk) : end;
    if (first == 0) {
      attend_piece(exec, args, first, last, out, args.lse);
      continue;
    }
    attend_piece(exec, args, first, last, args.piece, args.piece_lse);
    merge_attention(exec, {span.rows * args.heads, args.value_dims, args.piece, args.piece_lse, out, args.lse});
  }
}

}  // namespace sluice::composed
