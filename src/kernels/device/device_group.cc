// Used by engine/runner/device_choice.h and model/ranked_model.h.
#include "kernels/device/device_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice {
namespace {

SampleArgs args_of(const DeviceGroup& group, int rank, const SampleArgs& args) {
  SampleArgs own = args;
  own.logits = group.of(rank, args.logits), own.params = group.of(rank, args.params);
  own.out = group.of(rank, args.out), own.newest = group.of(rank, args.newest), own.masks = group.of(rank, args.masks);
  return own;
}

TakeIdsArgs args_of(const DeviceGroup& group, int rank, const TakeIdsArgs& args) {
  return {args.rows, group.of(rank, args.slots), group.of(rank, args.newest), group.of(rank, args.ids)};
}

template <class Args>
void enqueue_on_all(const Exec& exec, const Args& args, void (*op)(const Exec&, const Args&)) {
  auto& group = static_cast<DeviceGroup&>(*exec.device);
  for (int rank = 0; rank < group.ranks(); ++rank) {
    group.device(rank).make_current();
    op(group.rank_exec(exec, rank), args_of(group, rank, args));
  }
}

}  // namespace

DeviceGroup::DeviceGroup(std::vector<std::unique_ptr<Device>> devices, std::unique_ptr<Exchange> exchange,
                         const OpTable* rank_ops)
    : devices_(std::move(devices)), exchange_(std::move(exchange)), rank_ops_(rank_ops) {
  for (int rank = 1; rank < ranks(); ++rank) {
    pools_.push_back(std::make_unique<ThreadPool>(1));
    threads_.emplace_back([this, rank] { work(rank); });
  }
}

DeviceGroup::~DeviceGroup() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  SLUICE_CHECK(maps_.empty(), "memory does not outlive its device");
}

Exec DeviceGroup::rank_exec(const Exec& exec, int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  Exec own = exec;
  own.ops = rank_ops_;
  own.device = devices_[index].get();
  own.group = {rank, ranks(), exchange_.get()};
  if (rank > 0) own.pool = pools_[index - 1].get();
  return own;
}

const std::byte* DeviceGroup::place(int rank, const std::byte* address) const {
  auto map = maps_.upper_bound(address);
  if (rank == 0 || map == maps_.begin()) return address;
  --map;
  const std::size_t offset = static_cast<std::size_t>(address - map->first);
  const std::vector<DeviceMemory>& memory = map->second;
  return offset < std::max<std::size_t>(memory.front().size(), 1)
             ? memory[static_cast<std::size_t>(rank)].data() + offset
             : address;
}

void DeviceGroup::each(const std::function<void(int)>& of_rank) {
  {
    const MutexLock lock(mutex_);
    function_ = &of_rank;
    running_ = ranks() - 1;
    ++calls_;
  }
  changed_.notify_all();
  in_each_ = true;
  devices_.front()->make_current();
  of_rank(0);
  devices_.front()->mark();
  in_each_ = false;
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() SLUICE_REQUIRES(mutex_) { return running_ == 0; });
}

void DeviceGroup::work(int rank) {
  MutexLock lock(mutex_);
  for (std::uint64_t seen = 0;; ++seen) {
    changed_.wait(lock, [&]() SLUICE_REQUIRES(mutex_) { return stop_ || calls_ > seen; });
    if (stop_) return;
    const std::function<void(int)>& of_rank = *function_;
    lock.unlock();
    device(rank).make_current();
    of_rank(rank);
    device(rank).mark();  // starts a batch's work that is held back, as rank 0 may wait for it
    lock.lock();
    if (--running_ == 0) changed_.notify_all();
  }
}

Result<DeviceMemory> DeviceGroup::map(std::size_t bytes, std::string_view what) {
  std::vector<DeviceMemory> memory;
  for (const auto& device : devices_) {
    auto mapped = device->map(bytes, what);
    if (!mapped.ok()) {
      return resource_exhausted(fmt::format("rank {} of {}: {}", memory.size(), ranks(), mapped.status().message()));
    }
    memory.push_back(std::move(mapped).value());
  }
  std::byte* const first = memory.front().data();
  maps_[first] = std::move(memory);
  return DeviceMemory(this, first, bytes);
}

void DeviceGroup::unmap(std::byte* data, std::size_t /*bytes*/) {
  wait();  // waits until all ranks are done, before the first rank's memory is freed
  maps_.erase(data);
}

std::size_t DeviceGroup::free_bytes() const {
  std::size_t least = devices_.front()->free_bytes();
  for (const auto& device : devices_) least = std::min(least, device->free_bytes());
  return least;
}

void DeviceGroup::expect_pieces(std::byte* at, std::size_t bytes, std::size_t piece_bytes) {
  for (int rank = 0; rank < ranks(); ++rank) device(rank).expect_pieces(of(rank, at), bytes, piece_bytes);
}

void DeviceGroup::copy_all(std::span<const ByteMove> moves) {
  for (int rank = 0; rank < ranks(); ++rank) {
    moved_.clear();
    for (const ByteMove& move : moves) moved_.push_back({of(rank, move.to), of(rank, move.from), move.bytes});
    device(rank).copy_all(moved_);
  }
}

void DeviceGroup::upload_all(std::span<const ByteMove> moves) {
  for (int rank = 0; rank < ranks(); ++rank) upload_to(rank, moves);
}

void DeviceGroup::upload_to(int member, std::span<const ByteMove> moves) {
  moved_.clear();
  for (const ByteMove& move : moves) moved_.push_back({of(member, move.to), move.from, move.bytes});
  device(member).upload_all(moved_);
}

void DeviceGroup::download_from(int member, std::span<const ByteMove> moves) {
  moved_.clear();
  for (const ByteMove& move : moves) moved_.push_back({move.to, of(member, move.from), move.bytes});
  device(member).download_all(moved_);
}

void DeviceGroup::fill(std::byte* to, std::byte value, std::size_t bytes) {
  for (int rank = 0; rank < ranks(); ++rank) device(rank).fill(of(rank, to), value, bytes);
}

void DeviceGroup::wait() {
  if (in_each_) return devices_.front()->wait();
  std::vector<Mark> marks;
  for (const auto& device : devices_) marks.push_back(device->mark());
  wait_for(marks.front());
  for (std::size_t rank = 1; rank < marks.size(); ++rank) devices_[rank]->wait_for(marks[rank]);
}

void DeviceGroup::wait_for(Mark mark) {
  if (in_each_) return devices_.front()->wait_for(mark);
  devices_.front()->wait_watching(mark, [this] {
    for (int rank = 1; rank < ranks(); ++rank) device(rank).note_failure();
  });
}

Device::Mark DeviceGroup::mark() {
  for (int rank = 1; rank < ranks() && !in_each_; ++rank) device(rank).mark();
  return devices_.front()->mark();
}

void DeviceGroup::begin_batch() {
  for (const auto& device : devices_) device->begin_batch();
}

void DeviceGroup::end_batch() {
  for (const auto& device : devices_) device->end_batch();
}

// If a rank's device failed, the others wait for it in vain: then the status gives both reasons.
Status DeviceGroup::status() const {
  const Status met = exchange_->status();
  for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
    const Status status = devices_[rank]->status();
    if (status.ok()) continue;
    return internal_error(fmt::format("rank {} of {}: {}{}{}", rank, devices_.size(), status.message(),
                                      met.ok() ? "" : "; ", met.message()));
  }
  return met;
}

const OpTable& DeviceGroup::ops() {
  static const OpTable table = [] {
    OpTable ops{};
    ops.device = "a group of devices";
    ops.sample = [](const Exec& exec, const SampleArgs& args) { enqueue_on_all(exec, args, &sluice::sample); };
    ops.take_ids = [](const Exec& exec, const TakeIdsArgs& args) { enqueue_on_all(exec, args, &sluice::take_ids); };
    return ops;
  }();
  return table;
}

}  // namespace sluice
