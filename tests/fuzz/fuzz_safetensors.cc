// The header of a safetensors file: its length, its JSON, its tensors within the file.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <span>

#include "files/safetensors.h"
#include "fuzz_target.h"

namespace sluice {
namespace {

// A file in memory, written again for each input.
class MemoryFile {
 public:
  MemoryFile() : file_(memfd_create("safetensors", MFD_CLOEXEC)) { fuzz_expect(file_ >= 0, "memfd_create"); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }
  void write(std::string_view bytes) const {
    const auto size = static_cast<ssize_t>(bytes.size());
    fuzz_expect(ftruncate(file_, size) == 0 && pwrite(file_, bytes.data(), bytes.size(), 0) == size, "memory file");
  }

 private:
  int file_;
};

// Begins in the file and ends after it; the mapping's last page would not tell.
bool leaves(std::span<const std::byte> file, const TensorView& tensor) {
  const std::byte* end = file.data() + file.size();
  return tensor.data >= file.data() && tensor.data <= end && tensor.bytes > static_cast<std::size_t>(end - tensor.data);
}

void check(std::string_view input) {
  static const MemoryFile memory;
  memory.write(input);
  const auto file = SafetensorsFile::open(memory.path());
  if (!file.ok()) return fuzz_expect(!file.status().message().empty(), "an error without a message");
  for (const TensorView& tensor : (*file)->tensors()) {
    fuzz_expect((*file)->find(tensor.name) == &tensor, tensor.name);
    fuzz_expect(tensor.data != nullptr, tensor.name);
    fuzz_expect(!leaves((*file)->mapping().bytes(), tensor), tensor.name);
    std::size_t sum = 0;  // a sanitizer sees a view that leaves the mapping
    for (std::size_t i = 0; i < tensor.bytes; i += 1 + tensor.bytes / 64)
      sum += static_cast<std::size_t>(tensor.data[i]);
    if (tensor.bytes > 0) sum += static_cast<std::size_t>(tensor.data[tensor.bytes - 1]);
    [[maybe_unused]] volatile std::size_t used = sum;
    if (!has_float_rows(tensor) || tensor.bytes == 0) continue;
    std::vector<float> row(static_cast<std::size_t>(tensor.row_length()));
    read_rows(tensor, tensor.elements() / tensor.row_length() - 1, 1, row.data());
  }
}

}  // namespace

FuzzTarget fuzz_target() {
  return {.name = "safetensors",
          .words = {"\"dtype\"",
                    "\"shape\"",
                    "\"data_offsets\"",
                    "\"__metadata__\"",
                    "\"F32\"",
                    "\"BF16\"",
                    "\"F8_E4M3\"",
                    "\"F8_E8M0\"",
                    "\"F4\"",
                    "\"I64\"",
                    "\"U8\"",
                    "\"F16\"",
                    "\"BOOL\"",
                    "[0,0]",
                    "[]",
                    "{}",
                    "null",
                    ",",
                    "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},",
                    " ",
                    "\\u0000",
                    "\\ud800"},
          .check = check};
}

}  // namespace sluice
