// The reference numerics of the embedded model (tests/goldens), and the model to compare with them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/test_paths_testing.h"
#include "files/safetensors.h"
#include "kernels/device/isa.h"
#include "model/model.h"

namespace sluice {

// A folder with more positions may be given; the repository's has six of each prompt.
inline std::string golden_folder(const std::string& name) {
  const char* given = std::getenv("SLUICE_GOLDENS");
  return given != nullptr ? given : test_data_dir() + "/goldens/" + name;
}

class Golden {
 public:
  explicit Golden(const std::string& file, const std::string& folder = "sluice-tiny-v4")
      : file_(SafetensorsFile::open(fmt::format("{}/{}.safetensors", golden_folder(folder), file)).value()) {}

  template <class T>
  std::vector<T> read(const std::string& name) const {
    const TensorView* tensor = file_->find(name);
    if (tensor == nullptr) return sum<T>(name);
    std::vector<T> values(static_cast<std::size_t>(tensor->elements()));
    EXPECT_EQ(tensor->bytes, values.size() * sizeof(T)) << name;
    std::memcpy(values.data(), tensor->data, tensor->bytes);
    return values;
  }
  bool has(const std::string& name) const { return file_->find(name) != nullptr; }

 private:
  // `name` is stored as its difference from another tensor, as "NAME - OTHER": fewer bits, and the sum is exact, as
  // both are whole multiples of 2^-17 below 2^7.
  template <class T>
  std::vector<T> sum(const std::string& name) const {
    const auto stored = std::ranges::find_if(
        file_->tensors(), [&](const TensorView& tensor) { return tensor.name.starts_with(name + " - "); });
    EXPECT_NE(stored, file_->tensors().end()) << name;
    if (stored == file_->tensors().end()) return {};
    std::vector<T> values = read<T>(stored->name);
    const std::vector<T> other = read<T>(stored->name.substr(name.size() + 3));
    std::ranges::transform(values, other, values.begin(), std::plus<>());
    return values;
  }

  std::unique_ptr<SafetensorsFile> file_;
};

struct Loaded {
  ThreadPool pool{2};
  Exec exec{&pool, select_kernels("auto").value()};
  std::unique_ptr<Model> model;

  explicit Loaded(const EngineSetup& options) {
    auto loaded = load_model(exec, source_dir() + "/models/sluice-tiny-v4", options, {}, nullptr);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    model = std::move(loaded).value();
  }
};

inline EngineSetup options_of(const std::string& profile, const std::string& compute = "auto",
                              const std::string& kv = "auto", const std::string& index = "auto") {
  EngineSetup options;
  options.numerics.profile = profile;
  options.numerics.compute_dtype = compute;
  options.numerics.kv_cache_dtype = kv;
  options.numerics.index_cache_dtype = index;
  return options;
}

}  // namespace sluice
