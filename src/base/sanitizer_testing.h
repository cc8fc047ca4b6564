// Tells whether a sanitizer watches this build, for tests with many cases. A sanitizer checks accesses, not values: the
// first cases that pass a piece of code show all its faults, and each case takes ten times as long. So such a test runs
// every kernel, format and branch there, but fewer random cases, and fewer rows of large shapes; the release build runs
// them all.
#pragma once

namespace sluice {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The number of `all` random cases that a test runs: under a sanitizer a tenth, but four at least.
template <class T>
constexpr T random_cases(T all) {
  const T least = all < 4 ? all : T{4};
  return !kSanitized ? all : all / 10 < least ? least : all / 10;
}

}  // namespace sluice
