// Called through the table of ops (kernels/ops/ops.h).
#include "kernels/ops/project.h"

#include <vector>

#include "kernels/composed/composed_rows.h"
#include "kernels/ops/ops.h"

namespace sluice::composed {

void products_of(const ProjectArgs& args, std::vector<LinearJob>& jobs) {
  jobs.clear();
  for (const Product& product : std::span(args.products.data(), static_cast<std::size_t>(args.count))) {
    SLUICE_CHECK(args.x.parts == 1 || args.x.parts == static_cast<int>(product.weights.size()),
                 "a weight for each part of the input");
    for (std::size_t i = 0; i < product.weights.size(); ++i) {
      const auto at = static_cast<std::ptrdiff_t>(i);
      SLUICE_CHECK(product.weights[i].in() == args.x.columns, "a weight multiplies the whole of its part");
      jobs.push_back(product_of(product.weights[i], args.x, args.x.parts > 1 ? static_cast<int>(i) : 0,
                                product.y.values + at * product.y_step, product.y.ld));
    }
  }
}

void finish_product(const Exec& exec, int rows, const Product& product) {
  const Rows& y = product.y;
  if (product.bias != nullptr) add_bias(exec, {rows, y.columns, product.bias, y.values});
  if (product.addend != nullptr) {
    add(exec, {rows / product.shared, y.columns, product.addend, y.values, product.shared});
  }
  if (product.norm != nullptr) {
    norm_to(exec, rows, y.values, y.ld, product.norm, product.norm_eps, y);
  } else {
    make_forms(exec, rows, y);
  }
}

void project(const Exec& exec, const ProjectArgs& args) {
  thread_local std::vector<LinearJob> jobs;  // reused, so that later steps allocate nothing
  products_of(args, jobs);
  linear(exec, {args.rows, jobs});
  for (int i = 0; i < args.count; ++i) finish_product(exec, args.rows, args.products[static_cast<std::size_t>(i)]);
}

}  // namespace sluice::composed
