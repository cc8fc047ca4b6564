// Used by backend.cc.
#include "kernels/device/emulated_device.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "base/threads/mutex.h"

namespace sluice {
namespace {

constexpr std::byte kPoison{0xA5};
// At most 1/16 of the device's time may go to delays, and 1/32 to protection.
constexpr int kDelayPart = 16, kProtectionPart = 32;

void move_bytes(std::span<const ByteMove> moves) {
  for (const ByteMove& move : moves) {
    if (move.bytes > 0) std::memcpy(move.to, move.from, move.bytes);
  }
}

// Arguments kept for later, with the counts and addresses of the step's tables, which the host makes anew in the
// meantime.
template <class Args>
struct Later {
  explicit Later(const Args& given) : args(given) {
    if constexpr (requires { given.step; }) {
      tables = *given.step;
      // The host makes its spans anew in the meantime; an op that runs later may read the device's spans instead.
      tables.host_spans = tables.spans;
    }
  }
  Args get() const {
    Args now = args;
    if constexpr (requires { now.step; }) now.step = &tables;
    return now;
  }
  Args args;
  StepTables tables;
};

template <class Args>
void enqueue(const Exec& exec, const Args& args, void (*op)(const Exec&, const Args&)) {
  Exec on_worker = exec;
  on_worker.ops = nullptr;
  on_worker.device = nullptr;
  bool beside_last = false;
  if constexpr (requires { args.beside_last; }) beside_last = args.beside_last;
  static_cast<EmulatedDevice*>(exec.device)
      ->enqueue_op([on_worker, later = Later<Args>{args}, op] { op(on_worker, later.get()); }, beside_last);
}

}  // namespace

EmulatedDevice::EmulatedDevice(std::uint32_t seed) : random_(seed), worker_([this] { run(); }) {}

EmulatedDevice::~EmulatedDevice() {
  wait();
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  worker_.join();
  SLUICE_CHECK(maps_.empty(), "memory does not outlive its device");
}

Result<DeviceMemory> EmulatedDevice::map(std::size_t bytes, std::string_view what) {
  const std::size_t mapped = std::max<std::size_t>(bytes, 1);
  void* data = ::mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return resource_exhausted(fmt::format("cannot map {} bytes for {} ({})", bytes, what, std::strerror(errno)));
  }
  wait();  // the worker protects what is mapped
  const MutexLock lock(mutex_);
  maps_[static_cast<std::byte*>(data)] = mapped;
  if (accessible_) protect(true);  // protects the new map, too
  return DeviceMemory(this, static_cast<std::byte*>(data), bytes);
}

bool EmulatedDevice::holds(const void* at) const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(maps_, [at](const auto& map) { return at >= map.first && at < map.first + map.second; });
}

void EmulatedDevice::unmap(std::byte* data, std::size_t) {
  wait();
  const MutexLock lock(mutex_);
  ::munmap(data, maps_.at(data));
  maps_.erase(data);
}

// True if the work that took `spent` has taken less than one `part`th of all time.
bool EmulatedDevice::affords(int part, Clock::duration spent) const {
  constexpr auto kAtFirst = std::chrono::milliseconds(50);
  return part * spent <= kAtFirst + (Clock::now() - start_);
}

void EmulatedDevice::protect(bool accessible) {
  const Clock::time_point begin = Clock::now();
  accessible_ = accessible;
  for (const auto& [data, bytes] : maps_) {
    const int access = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
    SLUICE_CHECK(::mprotect(data, bytes, access) == 0, "the system protects memory that was mapped");
  }
  protecting_ += Clock::now() - begin;
}

void EmulatedDevice::enqueue(Work work) {
  if (recording_) {
    recording_ops_.push_back(std::move(work));
    recorded_op_ = false;
    return;
  }
  {
    const MutexLock lock(mutex_);
    release_held();
    queue_.push_back(std::move(work));
    ++enqueued_;
  }
  changed_.notify_all();
}

void EmulatedDevice::enqueue_op(Work work, bool beside_last) {
  if (recording_) {
    const auto place = recording_ops_.end() - (beside_last && recorded_op_ ? 1 : 0);
    recording_ops_.insert(place, std::move(work));
    recorded_op_ = true;
    return;
  }
  {
    const MutexLock lock(mutex_);
    if (beside_last && held_ != nullptr) {
      queue_.push_back(std::move(work));
    } else {
      release_held();
      held_ = std::move(work);
    }
    ++enqueued_;
  }
  changed_.notify_all();
}

void EmulatedDevice::release_held() {
  if (held_ != nullptr) queue_.push_back(std::exchange(held_, nullptr));
}

EmulatedDevice::Recording EmulatedDevice::recorded() {
  recording_ = recorded_op_ = false;
  return std::exchange(recording_ops_, {});
}

void EmulatedDevice::replay(const Recording& recording) {
  for (const Work& work : recording) enqueue(work);
}

void EmulatedDevice::enqueue_moves(std::span<const ByteMove> moves) {
  enqueue([moves = std::vector(moves.begin(), moves.end())] { move_bytes(moves); });
}
void EmulatedDevice::copy_all(std::span<const ByteMove> moves) {
  enqueue_moves(moves);
}
void EmulatedDevice::download_all(std::span<const ByteMove> moves) {
  enqueue_moves(moves);
  if (!broken_) return;
  wait();
  for (const ByteMove& move : moves) std::memset(move.to, 0xFF, move.bytes);
}

Status EmulatedDevice::status() const {
  return broken_ ? internal_error("the emulated device was told to break down") : Status();
}

void EmulatedDevice::upload_all(std::span<const ByteMove> moves) {
  for (const ByteMove& move : moves) {
    const auto staging = std::make_shared<std::vector<std::byte>>(move.from, move.from + move.bytes);
    enqueue([staging, to = move.to] {
      std::copy(staging->begin(), staging->end(), to);
      std::fill(staging->begin(), staging->end(), kPoison);
    });
  }
}

void EmulatedDevice::fill(std::byte* to, std::byte value, std::size_t bytes) {
  enqueue([to, value, bytes] { std::memset(to, static_cast<int>(value), bytes); });
}

Device::Mark EmulatedDevice::mark() {
  const MutexLock lock(mutex_);
  release_held();
  changed_.notify_all();
  return enqueued_;
}

void EmulatedDevice::wait_for(Mark mark) {
  MutexLock lock(mutex_);
  wanted_ = mark;
  reached_.wait(lock, [&]() SLUICE_REQUIRES(mutex_) { return done_ >= mark; });
}

void EmulatedDevice::run() {
  MutexLock lock(mutex_);
  while (true) {
    if (queue_.empty() && accessible_ && affords(kProtectionPart, protecting_)) protect(false);
    changed_.wait(lock, [&]() SLUICE_REQUIRES(mutex_) { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const Work work = std::move(queue_.front());
    queue_.pop_front();
    // Now and then the worker is late, with its memory protected; sometimes by much.
    if (const auto draw = random_() % 64; draw < 2 && affords(kDelayPart, delayed_)) {
      if (accessible_ && affords(kProtectionPart, protecting_)) protect(false);
      lock.unlock();
      const Clock::time_point begin = Clock::now();
      std::this_thread::sleep_for(std::chrono::microseconds(draw == 0 ? 500 : random_() % 100));
      delayed_ += Clock::now() - begin;
      lock.lock();
    }
    if (!accessible_) protect(true);
    lock.unlock();
    if (!broken_) work();
    lock.lock();
    if (++done_ >= wanted_) reached_.notify_all();
  }
}

const OpTable& emulated_op_table() {
  static constexpr OpTable kTable{.device = "emulated",
                                  .parts = nullptr,
#define SLUICE_OP(op, Args) \
  .op = [](const Exec& exec, const Args& args) { enqueue<Args>(exec, args, cpu_op_table().op); },
                                  SLUICE_OPS(SLUICE_OP)
#undef SLUICE_OP
  };
  return kTable;
}

}  // namespace sluice
