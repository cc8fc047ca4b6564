// Used by device.cc.
#include "kernels/cuda/runtime/kernel_tracer.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/threads/mutex.h"

namespace sluice {
namespace {

// The beginning of a kernel's record, the same since CUDA 8.
struct KernelRecord {
  std::uint32_t kind;
  std::uint32_t of_caches[3];
  std::uint64_t start, end, completed;
  std::uint32_t device, context, stream;
  std::int32_t grid[3], block[3];
  std::int32_t static_shared, dynamic_shared;
  std::uint32_t local_of_thread, local, correlation;
  std::int64_t grid_id;
  const char* name;
};
static_assert(offsetof(KernelRecord, start) == 16 && offsetof(KernelRecord, name) == 104);
constexpr std::uint32_t kKernels = 3, kConcurrentKernels = 10;  // CUPTI's kinds of records

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;

using Get = int (*)(std::uint8_t*, std::size_t, void**);
Mutex mutex;
std::vector<KernelTime> records SLUICE_GUARDED_BY(mutex);  // since start()
Get get_record = nullptr;

void give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer != nullptr ? kBufferBytes : 0;
  *most_records = 0;
}

void take_buffer(void* /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer, std::size_t /*bytes*/,
                 std::size_t valid) {
  const MutexLock lock(mutex);
  void* record = nullptr;
  while (get_record(buffer, valid, &record) == 0) {
    const auto* kernel = static_cast<const KernelRecord*>(record);
    if (kernel->kind != kKernels && kernel->kind != kConcurrentKernels) continue;
    records.push_back({kernel->name != nullptr ? kernel->name : "?", kernel->start, kernel->end});
  }
  std::free(buffer);
}

}  // namespace

struct KernelTracer::Library {
  int (*register_callbacks)(decltype(&give_buffer), decltype(&take_buffer)) = nullptr;
  int (*enable)(std::uint32_t kind) = nullptr;
  int (*disable)(std::uint32_t kind) = nullptr;
  int (*flush)(std::uint32_t how) = nullptr;
};

Result<KernelTracer*> KernelTracer::open() {
  constexpr const char* kFiles[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so",
                                    "/usr/local/cuda/lib64/libcupti.so",
                                    "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"};
  return open(kFiles);
}

Result<KernelTracer*> KernelTracer::open(std::span<const char* const> files) {
  static Library library;
  static KernelTracer tracer(&library);
  if (library.enable != nullptr) return &tracer;
  void* file = nullptr;
  for (const char* const name : files) {
    if (file == nullptr) file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (file == nullptr) {
    return unavailable(
        "--kernel-times: the library CUPTI (libcupti.so) is not found; install it, it comes with the CUDA toolkit, or "
        "name its folder in LD_LIBRARY_PATH");
  }
  const auto find = [&](auto& to, const char* name) {
    to = reinterpret_cast<std::decay_t<decltype(to)>>(dlsym(file, name));
    return to != nullptr;
  };
  Library found;
  if (!find(found.register_callbacks, "cuptiActivityRegisterCallbacks") || !find(found.enable, "cuptiActivityEnable") ||
      !find(found.disable, "cuptiActivityDisable") || !find(found.flush, "cuptiActivityFlushAll") ||
      !find(get_record, "cuptiActivityGetNextRecord")) {
    return unavailable("--kernel-times: the library CUPTI that is found lacks functions; install a newer one");
  }
  if (const int error = found.register_callbacks(&give_buffer, &take_buffer); error != 0) {
    return unavailable(fmt::format("--kernel-times: CUPTI cannot be used (error {})", error));
  }
  library = found;
  return &tracer;
}

Status KernelTracer::start() {
  {
    const MutexLock lock(mutex);
    records.clear();
  }
  if (const int error = library_->enable(kConcurrentKernels); error != 0) {
    return unavailable(fmt::format("--kernel-times: CUPTI refuses to trace kernels (error {})", error));
  }
  return {};
}

std::vector<KernelTime> KernelTracer::stop() {
  library_->flush(1);
  library_->disable(kConcurrentKernels);
  const MutexLock lock(mutex);
  return std::exchange(records, {});
}

}  // namespace sluice
