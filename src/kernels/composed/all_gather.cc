// all_gather on the host's threads.
// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>

#include "base/check.h"
#include "kernels/device/host_exchange.h"
#include "kernels/ops/ops.h"
#include "kernels/weights/input_forms.h"

namespace sluice::composed {
namespace {

// True if the shares' own rows in this form, one after the other, are the whole row in it.
bool joins(const AllGatherArgs& args, InputForm form) {
  return args.from.form(form) != nullptr && args.from.columns % kGatheredBlock == 0;
}

// Copies rows of `width` floats to their places in rows of `ld`.
void copy_share(int rows, int width, const float* from, std::ptrdiff_t ld_from, float* to, std::ptrdiff_t ld) {
  for (int t = 0; t < rows; ++t) std::copy_n(from + t * ld_from, width, to + t * ld);
}

// True if the values of `to` are needed, by readers or to make a form from them.
bool brings_values(const AllGatherArgs& args) {
  return !args.forms_only || std::ranges::any_of(kPreparedForms, [&](InputForm form) {
    return args.to.form(form) != nullptr && !joins(args, form);
  });
}

void copy_shares(const AllGatherArgs& args, std::span<const void* const> shown) {
  const bool values = brings_values(args);
  for (std::size_t r = 0; r < shown.size(); ++r) {
    const Rows& from = static_cast<const AllGatherArgs*>(shown[r])->from;
    const auto rank = static_cast<std::ptrdiff_t>(r);
    if (values) {
      copy_share(args.rows, from.columns, from.values, from.ld, args.to.values + rank * from.columns, args.to.ld);
    }
    for (const InputForm form : kPreparedForms) {
      if (args.to.form(form) == nullptr || !joins(args, form)) continue;
      const int width = input_floats(form, from.columns);
      copy_share(args.rows, width, from.form(form), width, args.to.form(form) + rank * width,
                 input_floats(form, args.to.columns));
    }
  }
}

}  // namespace

void all_gather(const Exec& exec, const AllGatherArgs& args) {
  SLUICE_CHECK(exec.group.exchange != nullptr && args.from.columns * exec.group.ranks == args.to.columns,
               "ranks of a group gather equal shares");
  const auto shape = static_cast<std::uint64_t>(args.rows) << 32 | static_cast<std::uint32_t>(args.to.columns);
  static_cast<HostExchange*>(exec.group.exchange)
      ->meet(exec.group.rank, shape, &args, [&](std::span<const void* const> shown) { copy_shares(args, shown); });
  for (const InputForm form : kPreparedForms) {
    if (args.to.form(form) == nullptr || joins(args, form)) continue;
    prepare_rows(exec, {form, args.rows, args.to.columns, args.to.values, args.to.ld, args.to.form(form),
                        input_floats(form, args.to.columns)});
  }
}

}  // namespace sluice::composed
