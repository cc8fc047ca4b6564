#include "kernels/cuda/device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/progress.h"
#include "base/threads/thread_pool.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/runtime/fault.h"
#include "kernels/cuda/runtime/kernel_tracer.h"
#include "kernels/cuda/runtime/launch_graphs.h"
#include "kernels/cuda/runtime/staging.h"

namespace sluice {

namespace {

constexpr int kLeastMajor = 8;  // the least compute capability

// A batch is started in pieces of these many kernels, then the rest: the GPU runs the first kernels while the host
// still adds the others. Otherwise, when each step waits for the one before, the GPU would wait for the host.
constexpr std::array<std::size_t, 2> kFirstPieces{32, 128};

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

class Gpu final : public CudaDevice {
 public:
  explicit Gpu(int number) : number_(number) {}
  ~Gpu() override;
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  Status open();

  const char* name() const override { return "cuda"; }
  const std::string& gpu() const override { return text_; }
  int number() const override { return number_; }
  void join(std::function<void(const Status&)> failed) override { tell_group_ = std::move(failed); }
  std::size_t free_bytes() const override;
  std::size_t total_bytes() const override { return total_bytes_; }
  void* stream() override {
    use();
    return stream_;
  }
  std::byte* workspace() override { return workspace_.data(); }
  std::size_t workspace_bytes() const override { return workspace_.size(); }
  Status prepare_sm90() override;
  int processors() const override { return processors_; }
  void enqueue(const KernelLaunch& launch, StepStage stage) override;
  Status begin_kernel_times() override;
  std::vector<KernelTime> end_kernel_times() override;
  bool starts_beside() const override { return early_ && behind_kernel_ && last_starts_next_; }
  const void* last_kernel() const override { return behind_kernel_ ? last_kernel_ : nullptr; }
  void start_as_graphs(bool graphs) override { graphs_allowed_ = graphs; }
  std::size_t graph_starts() const override { return graph_starts_; }
  void make_current() override { use(); }
  void begin_batch() override {
    batch_ = graphs_allowed_;
    pieces_ = 0;
  }
  void end_batch() override {
    start_batch();
    batch_ = false;
  }
  void start_kernels_early(bool early) override { early_ = early; }
  void plant_fault() override {
    use_for_other_work();
    enqueue_trap(stream_);
  }

  Result<DeviceMemory> map(std::size_t bytes, std::string_view what) override;
  void copy_all(std::span<const ByteMove> moves) override;
  void upload_all(std::span<const ByteMove> moves) override;
  void download_all(std::span<const ByteMove> moves) override;
  void fill(std::byte* to, std::byte value, std::size_t bytes) override;
  Mark mark() override;
  void wait_for(Mark mark) override;
  void wait() override;
  void wait_watching(Mark mark, const std::function<void()>& watch) override;
  void note_failure() override;
  Status status() const override { return status_; }

 private:
  void unmap(std::byte* data, std::size_t bytes) override;
  // The current device is the thread's, and the engine's thread is not the one that loads.
  void use() const { cudaSetDevice(number_); }
  // Makes the device current for work that is not a kernel of launch().
  void use_for_other_work() {
    start_batch();
    use();
    behind_kernel_ = false;
  }
  void start_batch();  // starts the kernels of the batch that were added so far
  // Called before a kernel of a group starts by itself: keeps the GPU at most kPaces * kPace kernels behind the host. A
  // full queue would hold this thread within the driver. The other rank's thread wants the driver, too, and this GPU
  // may wait for its kernels. Returns whether an event follows the last kernel now.
  bool pace();
  // Returns false once anything has failed.
  bool check(cudaError_t error, const char* what);

  int number_;
  std::string text_;
  std::size_t total_bytes_ = 0;
  int processors_ = 1, major_ = 0, minor_ = 0;
  std::atomic<bool> behind_kernel_ = false;  // true if the last work in the stream is a kernel of enqueue()
  // At most kPaces * kPace kernels: the driver's queue holds about 1,000.
  static constexpr unsigned kPace = 128, kPaces = 4;
  std::array<cudaEvent_t, kPaces> paces_{};  // events after every kPace kernels, the latest ones
  unsigned paced_ = 0;
  bool early_ = true, graphs_allowed_ = true, batch_ = false;
  bool last_starts_next_ = false;  // KernelLaunch::starts_next of the last kernel of enqueue()
  const void* last_kernel_ = nullptr;
  LaunchGraphs launches_;           // the kernels of the batch's piece
  KernelTracer* tracer_ = nullptr;  // set while kernels are traced
  std::vector<std::pair<const void*, StepStage>> traced_;
  std::size_t pieces_ = 0;  // the pieces of the batch that have been started
  std::size_t graph_starts_ = 0;
  cudaStream_t stream_ = nullptr;
  Staging staging_;
  DeviceMemory workspace_;
  Status status_;
  std::function<void(const Status&)> tell_group_;  // null: the device is alone
  // Mark m's event is events_[m % size]. If it was recorded again for a later mark, waiting for it waits for m, too.
  std::array<cudaEvent_t, 64> events_{};
  Mark marks_ = 0;
};

Status Gpu::open() {
  cudaDeviceProp properties{};
  const auto failed = [&](cudaError_t error, const char* what) {
    return unavailable(fmt::format("--device cuda:{}: {}: {}", number_, what, cudaGetErrorString(error)));
  };
  if (const auto error = cudaGetDeviceProperties(&properties, number_)) return failed(error, "asking what it is");
  text_ = fmt::format("GPU {} ({})", number_, properties.name);
  total_bytes_ = properties.totalGlobalMem;
  processors_ = std::max(1, properties.multiProcessorCount);
  major_ = properties.major;
  minor_ = properties.minor;
  if (properties.major < kLeastMajor) {
    return unavailable(fmt::format("--device cuda:{}: {} has compute capability {}.{}, expected {}.0 or later", number_,
                                   text_, properties.major, properties.minor, kLeastMajor));
  }
  if (const auto error = cudaSetDevice(number_)) return failed(error, "choosing it");
  if (const auto error = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)) return failed(error, "its stream");
  if (const auto error =
          staging_.take(number_, stream_, [this](cudaError_t e, const char* what) { return check(e, what); })) {
    return failed(error, "pinned memory for its copies");
  }
  for (cudaEvent_t& event : events_) {
    if (const auto error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming)) return failed(error, "its events");
  }
  SLUICE_ASSIGN_OR_RETURN(workspace_, map(kCudaWorkspaceBytes, "the workspace of ops"));
  wait();
  return status_;
}

Status Gpu::prepare_sm90() {
  // Room for the experts' rows of thousands of tokens at once, so that each weight is read for many of them.
  constexpr std::size_t kWorkspaceBytes = std::size_t{5} << 28;
  if (major_ != 9 || minor_ != 0) {
    return unavailable(
        fmt::format("--profile sm90: {} has compute capability {}.{}, expected 9.0 (H100, H200); choose another "
                    "profile, of which default is the fastest",
                    text_, major_, minor_));
  }
  wait();
  workspace_ = DeviceMemory();
  SLUICE_ASSIGN_OR_RETURN(workspace_, map(kWorkspaceBytes, "the workspace of ops"));
  wait();
  return status_;
}

Gpu::~Gpu() {
  use();
  if (stream_ != nullptr) wait();
  workspace_ = DeviceMemory();
  for (const std::span<cudaEvent_t> events : {std::span<cudaEvent_t>(events_), std::span<cudaEvent_t>(paces_)}) {
    for (cudaEvent_t event : events) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

std::size_t Gpu::free_bytes() const {
  use();
  std::size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
}

bool Gpu::check(cudaError_t error, const char* what) {
  if (error != cudaSuccess && status_.ok()) {
    status_ = internal_error(fmt::format("{} failed ({}: {}); it cannot be used any more: start the program again",
                                         text_, what, cudaGetErrorString(error)));
    if (tell_group_) tell_group_(status_);
  }
  return status_.ok();
}

Result<DeviceMemory> Gpu::map(std::size_t bytes, std::string_view what) {
  use();
  if (!status_.ok()) return status_;
  void* data = nullptr;
  if (const auto error = cudaMalloc(&data, std::max<std::size_t>(bytes, 1))) {
    cudaGetLastError();  // clears the error, so that a later check does not take it for a failure of the device
    return resource_exhausted(fmt::format("cannot map {} for {} on {}: {} of {} are free ({})",
                                          format_bytes(static_cast<double>(bytes)), what, text_,
                                          format_bytes(static_cast<double>(free_bytes())),
                                          format_bytes(static_cast<double>(total_bytes_)), cudaGetErrorString(error)));
  }
  fill(static_cast<std::byte*>(data), std::byte{0}, bytes);
  return DeviceMemory(this, static_cast<std::byte*>(data), bytes);
}

void Gpu::unmap(std::byte* data, std::size_t) {
  wait();
  cudaFree(data);
}

Status Gpu::begin_kernel_times() {
  SLUICE_ASSIGN_OR_RETURN(KernelTracer * tracer, KernelTracer::open());
  wait();
  SLUICE_RETURN_IF_ERROR(tracer->start());
  launches_.forget();
  traced_.clear();
  tracer_ = tracer;
  return {};
}

std::vector<KernelTime> Gpu::end_kernel_times() {
  if (tracer_ == nullptr) return {};
  wait();
  std::vector<KernelTime> records = std::exchange(tracer_, nullptr)->stop();
  std::vector<EnqueuedKernel> enqueued;
  for (const auto& [function, stage] : traced_) {
    const char* name = nullptr;
    if (cudaFuncGetName(&name, function) != cudaSuccess) name = "?";
    enqueued.push_back({name, stage});
  }
  return join_kernels(std::move(records), enqueued);
}

void Gpu::enqueue(const KernelLaunch& launch, StepStage stage) {
  if (tracer_ != nullptr) traced_.emplace_back(launch.function, stage);
  const bool paced = !batch_ && pace();
  const bool early = behind_kernel_.exchange(true) && early_ && launch.waits && !paced;
  last_starts_next_ = launch.starts_next;
  last_kernel_ = launch.function;
  if (batch_) {
    launches_.add(launch, early);
    // In a group nothing starts before all kernels are there. Making a graph could wait for kernels of this GPU, and
    // these wait for another rank, whose thread may want the driver meanwhile.
    if (tell_group_) return;
    if (pieces_ == kFirstPieces.size() || launches_.size() < kFirstPieces[pieces_]) return;
    start_batch();
    behind_kernel_ = false;  // the next piece is the same list whether this one was a graph or not
    return;
  }
  use();
  LaunchGraphs::start(stream_, launch, early);
}

bool Gpu::pace() {
  if (!tell_group_ || paced_++ % kPace != 0 || !status_.ok()) return false;
  use();
  cudaEvent_t& place = paces_[paced_ / kPace % kPaces];
  if (place == nullptr) {
    if (!check(cudaEventCreateWithFlags(&place, cudaEventDisableTiming), "making an event")) return false;
  } else if (!check(cudaEventSynchronize(place), "an op")) {
    return false;
  }
  return check(cudaEventRecord(place, stream_), "recording an event");
}

void Gpu::start_batch() {
  if (launches_.empty()) return;
  ++pieces_;
  use();
  bool as_graph = false;
  launches_.start_all(stream_, &as_graph, [this] { return pace(); });
  if (!as_graph) return;
  behind_kernel_ = false;
  ++graph_starts_;
}

void Gpu::copy_all(std::span<const ByteMove> moves) {
  use_for_other_work();
  for (const ByteMove& move : moves) {
    if (!status_.ok()) return;
    if (move.bytes > 0) {
      check(cudaMemcpyAsync(move.to, move.from, move.bytes, cudaMemcpyDeviceToDevice, stream_), "a copy");
    }
  }
}

void Gpu::upload_all(std::span<const ByteMove> moves) {
  use_for_other_work();
  if (status_.ok()) staging_.upload(moves);
}

void Gpu::download_all(std::span<const ByteMove> moves) {
  use_for_other_work();
  for (const ByteMove& move : moves) {
    if (status_.ok()) {
      staging_.download(move);
    } else {
      std::fill_n(move.to, move.bytes, std::byte{0xFF});
    }
  }
}

void Gpu::fill(std::byte* to, std::byte value, std::size_t bytes) {
  use_for_other_work();
  if (status_.ok() && bytes > 0) {
    check(cudaMemsetAsync(to, std::to_integer<int>(value), bytes, stream_), "filling memory");
  }
}

Device::Mark Gpu::mark() {
  use_for_other_work();
  ++marks_;
  // The errors of kernels that were started are this thread's alone: another thread that waits does not see them.
  if (status_.ok()) check(cudaGetLastError(), "starting a kernel");
  if (status_.ok()) check(cudaEventRecord(events_[marks_ % events_.size()], stream_), "recording an event");
  return staging_.next_turn();
}

void Gpu::wait_for(Mark mark) {
  use();
  SLUICE_CHECK(mark <= marks_, "a mark is waited for after it is set");
  if (status_.ok()) check(cudaGetLastError(), "starting a kernel");
  if (status_.ok() && mark > 0) check(cudaEventSynchronize(events_[mark % events_.size()]), "an op");
  status_.ok() ? staging_.deliver(mark) : staging_.give_up();
}

void Gpu::wait_watching(Mark mark, const std::function<void()>& watch) {
  use();
  if (status_.ok()) check(cudaGetLastError(), "starting a kernel");
  const cudaEvent_t event = events_[mark % events_.size()];
  while (status_.ok() && mark > 0 && cudaEventQuery(event) == cudaErrorNotReady) {
    cudaGetLastError();  // clears the error "not ready", which is no failure of a kernel
    watch();
  }
  use();  // `watch` may have made another device current
  wait_for(mark);
}

void Gpu::note_failure() {
  if (!status_.ok()) return;
  const cudaError_t error = cudaStreamQuery(stream_);
  if (error != cudaSuccess) cudaGetLastError();
  if (error != cudaErrorNotReady) check(error, "an op");
}

void Gpu::wait() {
  start_batch();
  use();
  if (status_.ok()) check(cudaGetLastError(), "starting a kernel");
  if (status_.ok()) check(cudaStreamSynchronize(stream_), "an op");
  status_.ok() ? staging_.deliver(marks_ + 1) : staging_.give_up();
}

// Returns how many GPUs there are, or why there is none.
Result<int> count_gpus() {
  int driver = 0, gpus = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return unavailable("--device cuda: this machine has no NVIDIA driver (libcuda.so.1)");
  }
  if (driver / 1000 < CUDART_VERSION / 1000) {
    return unavailable(
        fmt::format("--device cuda: the NVIDIA driver supports CUDA {}, this program needs {}.0: "
                    "install a newer driver",
                    version_text(driver), CUDART_VERSION / 1000));
  }
  const cudaError_t error = cudaGetDeviceCount(&gpus);
  if (error == cudaErrorNoDevice || (error == cudaSuccess && gpus == 0)) {
    return unavailable("--device cuda: the driver shows no GPU (CUDA_VISIBLE_DEVICES?)");
  }
  if (error != cudaSuccess) return unavailable(fmt::format("--device cuda: {}", cudaGetErrorString(error)));
  return gpus;
}

CudaDevice& device_of(const Exec& exec) {
  return static_cast<CudaDevice&>(*exec.device);
}

}  // namespace

Result<std::unique_ptr<CudaDevice>> open_cuda_device(int number) {
  SLUICE_ASSIGN_OR_RETURN(const int gpus, count_gpus());
  if (number < 0 || number >= gpus) {
    return invalid_argument(fmt::format("--device cuda:{}: expected 0 to {}, as there {} {} GPU{}", number, gpus - 1,
                                        gpus == 1 ? "is" : "are", gpus, gpus == 1 ? "" : "s"));
  }
  auto gpu = std::make_unique<Gpu>(number);
  SLUICE_RETURN_IF_ERROR(gpu->open());
  return std::unique_ptr<CudaDevice>(std::move(gpu));
}

bool has_cuda_device() {
  return count_gpus().ok();
}

std::byte* cuda_workspace(const Exec& exec) {
  return device_of(exec).workspace();
}

std::size_t cuda_workspace_bytes(const Exec& exec) {
  return device_of(exec).workspace_bytes();
}

int cuda_processors(const Exec& exec) {
  return device_of(exec).processors();
}

void cuda_enqueue(const Exec& exec, const KernelLaunch& launch) {
  const PoolMeter* meter = exec.pool != nullptr ? exec.pool->meter() : nullptr;
  device_of(exec).enqueue(launch, meter != nullptr ? meter->stage() : StepStage::kRest);
}

bool cuda_starts_beside(const Exec& exec) {
  return device_of(exec).starts_beside();
}

}  // namespace sluice
