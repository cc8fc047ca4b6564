// The order of AMX tiles (InputForm::kTiles of kernels/ops/linear.h), in scalar code.
// Used by ref_attend.cc and ref_linear.cc.
#pragma once

#include <cmath>

namespace sluice::ref {

// Adds to `sum` the slices of `count` products: for each slice the chains of its even and of its odd products, counted
// from where the slice begins. The first product is the `first`-th of its slice.
template <class X, class W>
float add_slices(const X& x, const W& w, int count, float sum, int first = 0) {
  constexpr int kSlice = 32;
  for (int begin = -first; begin < count; begin += kSlice) {
    float chains[2] = {};
    for (int k = begin < 0 ? 0 : begin; k < begin + kSlice && k < count; ++k) {
      float& chain = chains[(k + first) % 2];
      chain = std::fma(x(k), w(k), chain);
    }
    sum += chains[0] + chains[1];
  }
  return sum;
}

}  // namespace sluice::ref
