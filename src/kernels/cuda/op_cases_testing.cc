#include "kernels/cuda/op_cases_testing.h"

#include <bit>
#include <cstring>

#include "kernels/cuda/linear_layout.h"

namespace sluice {
namespace {

// The values that an op has written, copied.
struct Found {
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<std::byte>> bytes;
};

Found take(const OpCase& op_case) {
  Found found;
  for (const auto& span : op_case.floats) found.floats.emplace_back(span.begin(), span.end());
  for (const auto& span : op_case.bytes) found.bytes.emplace_back(span.begin(), span.end());
  return found;
}

void put_back(const Found& found, const OpCase& op_case) {
  for (std::size_t i = 0; i < found.floats.size(); ++i) {
    std::copy(found.floats[i].begin(), found.floats[i].end(), op_case.floats[i].begin());
  }
  for (std::size_t i = 0; i < found.bytes.size(); ++i) {
    std::copy(found.bytes[i].begin(), found.bytes[i].end(), op_case.bytes[i].begin());
  }
}

bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (a != a && b != b);
}
bool same(std::byte a, std::byte b) {
  return a == b;
}

template <class T>
::testing::AssertionResult same(const std::vector<T>& found, const std::vector<T>& expected, std::size_t output) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (same(found[i], expected[i])) continue;
    return ::testing::AssertionFailure() << "output " << output << ", value " << i << " of " << found.size() << ": "
                                         << ::testing::PrintToString(found[i]) << ", not "
                                         << ::testing::PrintToString(expected[i]);
  }
  return ::testing::AssertionSuccess();
}

template <class T>
bool same_bytes(const std::vector<std::vector<T>>& found, const std::vector<std::span<T>>& now) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::memcmp(found[i].data(), now[i].data(), now[i].size_bytes()) != 0) return false;
  }
  return true;
}

}  // namespace

::testing::AssertionResult same_as_reference(const OpCase& op_case, const Exec& exec,
                                             const std::function<void()>& wait) {
  ThreadPool one(1);
  const Found before = take(op_case);
  op_case.run(Exec{&one, &scalar_kernels(), &ref_op_table()}, false);
  const Found expected = take(op_case);
  put_back(before, op_case);
  op_case.run(exec, true);
  wait();
  const Found found = take(op_case);
  for (std::size_t i = 0; i < found.floats.size(); ++i) {
    if (auto result = same(found.floats[i], expected.floats[i], i); !result) return result << "; " << op_case.text;
  }
  for (std::size_t i = 0; i < found.bytes.size(); ++i) {
    if (auto result = same(found.bytes[i], expected.bytes[i], i); !result) return result << "; " << op_case.text;
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult same_each_time(const OpCase& op_case, const Exec& exec, const std::function<void()>& wait,
                                          int times) {
  const Found before = take(op_case);
  Found first;
  for (int i = 0; i < times; ++i) {
    put_back(before, op_case);
    op_case.run(exec, true);
    wait();
    if (i == 0) first = take(op_case);
    if (!same_bytes(first.floats, op_case.floats) || !same_bytes(first.bytes, op_case.bytes)) {
      return ::testing::AssertionFailure() << "run " << i << " differs from the first; " << op_case.text;
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace sluice
