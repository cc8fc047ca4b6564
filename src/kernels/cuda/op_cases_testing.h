// Random cases of every op, to compare the kernels of a CUDA device, or their emulation, with the reference ops bit for
// bit. Shapes, strides and arguments are random, and among them are those of real models.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/ops/linear.h"
#include "kernels/ops/ops.h"
#include "kernels/ops/parts.h"
#include "kernels/tests/linear_testing.h"
#include "kernels/tests/op_testing.h"

namespace sluice {

// Memory that the host and the device under test both reach. It lives as long as its cases.
class CaseMemory {
 public:
  virtual ~CaseMemory() = default;

  // True if kernels run on the host, where the largest shapes would take a minute each.
  virtual bool of_host() const { return false; }
  // Maps bytes of 0xFF: NaN as floats, -1 as integers.
  template <class T>
  std::span<T> poisoned(std::size_t count) {
    std::byte* bytes = allocate(std::max<std::size_t>(count, 1) * sizeof(T));
    std::fill_n(bytes, count * sizeof(T), std::byte{0xFF});
    return {reinterpret_cast<T*>(bytes), count};
  }
  // Returns a copy of `values`.
  template <class Values>
  auto put(const Values& values) {
    using T = std::remove_cvref_t<decltype(*values.data())>;
    static_assert(std::is_trivially_copyable_v<T>);
    auto* to = reinterpret_cast<T*>(allocate(std::max<std::size_t>(values.size(), 1) * sizeof(T)));
    std::copy(values.begin(), values.end(), to);
    return std::span<T>(to, values.size());
  }
  // Makes an object that the memory owns, on the host.
  template <class T, class... Args>
  T& keep(Args&&... args) {
    auto owned = std::make_shared<T>(std::forward<Args>(args)...);
    kept_.push_back(owned);
    return *owned;
  }

 protected:
  virtual std::byte* allocate(std::size_t bytes) = 0;

 private:
  std::vector<std::shared_ptr<void>> kept_;
};

// Memory on the heap, each piece by itself, so that a sanitizer sees reads outside of it.
class HostCaseMemory final : public CaseMemory {
 public:
  bool of_host() const override { return true; }

 private:
  std::byte* allocate(std::size_t bytes) override {
    pieces_.emplace_back(new (std::align_val_t{64}) std::byte[bytes]);
    return pieces_.back().get();
  }
  struct Free {
    void operator()(std::byte* piece) const { ::operator delete[](piece, std::align_val_t{64}); }
  };
  std::vector<std::unique_ptr<std::byte[], Free>> pieces_;
};

struct OpCase {
  std::string text;  // the shapes
  // Calls the op. Its weights are those of the reference, or packed for CUDA.
  std::function<void(const Exec& exec, bool packed)> run;
  // All that the op writes; values that it adds to or leaves alone have been set before. NaNs of floats are equal.
  std::vector<std::span<float>> floats;
  std::vector<std::span<std::byte>> bytes;
};

// The shapes of a case: any, most of them small and odd, or those of DeepSeek V3, V4 Flash and V4 Pro.
enum class CaseSizes { kAny, kOfficial };
template <class T = int>
T pick(Random& random, CaseSizes sizes, const std::vector<T>& any, const std::vector<T>& official) {
  return random.pick(sizes == CaseSizes::kOfficial ? official : any);
}

struct OpCases {
  const char* op;
  OpCase (*make)(Random& random, CaseMemory& memory, CaseSizes sizes);
};
// All ops, by the files that make them.
std::vector<OpCases> row_cases();
std::vector<OpCases> linear_cases();
std::vector<OpCases> state_cases();
std::vector<OpCases> store_cases();
std::vector<OpCases> layer_cases();
std::vector<OpCases> experts_cases();
std::vector<OpCases> attention_cases();
std::vector<OpCases> choice_cases();

inline std::vector<OpCases> all_op_cases() {
  std::vector<OpCases> all;
  for (const auto& cases : {row_cases(), linear_cases(), state_cases(), store_cases(), layer_cases(), experts_cases(),
                            attention_cases(), choice_cases()})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

// Runs a case with `exec`, after it has run with the reference ops on the same memory. `wait` returns when the device
// is done.
::testing::AssertionResult same_as_reference(const OpCase& op_case, const Exec& exec,
                                             const std::function<void()>& wait);
// Runs a case `times` times, from the same memory: every time it must write the same bytes.
::testing::AssertionResult same_each_time(const OpCase& op_case, const Exec& exec, const std::function<void()>& wait,
                                          int times);

// A weight in both forms.
struct CaseWeight {
  LinearWeight reference, packed;
  const LinearWeight& in(bool wants_packed) const { return wants_packed ? packed : reference; }
};
// A weight packed by cuda_linear_packing(). `in` may be rounded up to whole blocks (RandomWeight). transposed: for
// integer codes, which are then [in, out].
CaseWeight& random_weight(Random& random, CaseMemory& memory, const WeightForm& spec, int out, int in, InputForm wanted,
                          bool transposed = false);

// Prepares rows of inputs in a form that is not kF32, contiguous.
void prepare_on_host(InputForm form, int rows, int in, const float* x, std::ptrdiff_t ldx, float* to);
// Copies the tables of a step to where the device reaches them.
const StepTables& put_step(CaseMemory& memory, const StepTables& host);
// A plane of random bytes.
PlaneView& random_plane(Random& random, CaseMemory& memory, const RowFormat& format, int rows_per_page, int pages);
// A step of some spans with windows to pool: all of the arguments but `pooled`. Its tables have Window planes, too.
struct CompressorCase {
  CompressArgs args;
  int pages = 1, latent_pages = 0;  // pages of a Window plane, and of a Latent plane
  std::span<float> states;
  std::span<std::byte> boundaries;
  std::string text;
};
CompressorCase random_compressor(Random& random, CaseMemory& memory, CaseSizes sizes);

// The CUDA kernels compiled for the CPU (kernels/cuda/launch.h): each op runs its grids before it returns.

const OpTable& cuda_emulated_op_table();

}  // namespace sluice
