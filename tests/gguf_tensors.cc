// gguf_tensors FILE: a helper of tests/gguf_test.py.
//
// Writes every tensor of a GGUF file to stdout: a line of JSON, {"name", "dtype", "shape"}, and its values, row-major,
// as 4-byte floats (or integers for I32). With --official before FILE the tensors are those that the model's weight
// table sees, under their official names. A failure answers {"error": MESSAGE}.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "config/gguf/gguf_config.h"
#include "files/checkpoint.h"
#include "files/gguf/gguf_file.h"
#include "files/json.h"

namespace sluice {
namespace {

int fail(const Status& status) {
  std::string line = "{\"error\": ";
  append_json_string(line, status.message());
  fmt::print("{}}}\n", line);
  return 0;
}

void write(const TensorView& tensor) {
  std::string name;
  append_json_string(name, tensor.name);
  fmt::print("{{\"name\": {}, \"dtype\": \"{}\", \"shape\": [{}]}}\n", name, dtype_name(tensor.dtype),
             fmt::join(tensor.shape, ", "));
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  if (has_float_rows(tensor)) {
    read_rows(tensor, 0, tensor.elements() / tensor.row_length(), values.data());
  } else {
    std::memcpy(values.data(), tensor.data, tensor.bytes);
  }
  std::fwrite(values.data(), sizeof(float), values.size(), stdout);
}

int run(bool official, const std::string& path) {
  if (official) {
    const auto checkpoint = Checkpoint::open(path, gguf_names);
    if (!checkpoint.ok()) return fail(checkpoint.status());
    for (const TensorView* tensor : checkpoint->tensors()) write(*tensor);
    return 0;
  }
  const auto model = GgufModel::open(path);
  if (!model.ok()) return fail(model.status());
  for (const TensorView* tensor : (*model)->tensors()) write(*tensor);
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  const bool official = argc == 3 && std::string(argv[1]) == "--official";
  if (argc != 2 && !official) {
    std::fputs("usage: gguf_tensors [--official] FILE\n", stderr);
    return 2;
  }
  return sluice::run(official, argv[argc - 1]);
}
