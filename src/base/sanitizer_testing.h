// Whether a sanitizer watches this build, for tests whose cases are many. A sanitizer looks at accesses, not at values:
// it finds in the first cases that pass a piece of code what it finds in all, and its build takes ten times as long for
// each. So such a test takes every kernel, format and branch there, but fewer random cases, and fewer rows of large
// shapes; the release build has them all.
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
