// Used by cli/main.cc, engine/load.cc, engine/reload.cc and mapped_file.h.
#include "base/storage/mapping_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "base/threads/mutex.h"

namespace sluice {

// The data that the handler reads. Places are never freed, and the range of one is empty while it is written.
struct GuardedRange::Place {
  std::atomic<std::uintptr_t> begin{0}, end{0};  // end is 0: the entry is free
  std::atomic<bool> lost{false};
  const std::string* name = nullptr;  // the handler does not read it
};

namespace {

using Place = GuardedRange::Place;

struct Block {
  std::array<Place, 256> places;
  std::atomic<Block*> next{nullptr};
};

constinit Block first_block;
Mutex places_mutex;  // held by writers of places
struct sigaction action_before;

// Calls visit(place) until it returns true.
template <class Visit>
Place* find_place(const Visit& visit) {
  for (Block* block = &first_block; block != nullptr; block = block->next.load(std::memory_order_acquire)) {
    for (Place& place : block->places) {
      if (visit(place)) return &place;
    }
  }
  return nullptr;
}

std::vector<std::string>& lost_before() {
  static std::vector<std::string> names;  // names of ranges that are gone; places_mutex guards it
  return names;
}

bool holds(const Place& place, std::uintptr_t address) {
  const std::uintptr_t begin = place.begin.load(std::memory_order_acquire);
  const std::uintptr_t end = place.end.load(std::memory_order_acquire);
  return begin <= address && address < end && place.begin.load(std::memory_order_acquire) == begin;
}

// Sets the mark before the zeros: a thread that reads the zeros without a fault of its own then finds the mark.
bool replace_by_zeros(Place& place) {
  place.lost.store(true, std::memory_order_seq_cst);
  const std::uintptr_t begin = place.begin.load(), end = place.end.load();
  return ::mmap(reinterpret_cast<void*>(begin), end - begin, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

// Does what would happen without our handler. The signal is blocked in here, so that a raised one comes when this
// returns.
void pass_on(int signal, siginfo_t* info, void* context) {
  if ((action_before.sa_flags & SA_SIGINFO) != 0) return action_before.sa_sigaction(signal, info, context);
  if (action_before.sa_handler == SIG_IGN && info->si_code <= 0) return;  // ignored, and sent by a process
  if (action_before.sa_handler != SIG_DFL && action_before.sa_handler != SIG_IGN) {
    return action_before.sa_handler(signal);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  Place* place = nullptr;
  if (info->si_code == BUS_ADRERR) {
    place = find_place([address](const Place& p) { return holds(p, address); });
  }
  if (place == nullptr || !replace_by_zeros(*place)) pass_on(signal, info, context);
  errno = error;
}

}  // namespace

void guard_mappings() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, nullptr, &action_before);  // known before our handler may run
    ::sigaction(SIGBUS, &action, nullptr);
  });
}

std::vector<std::string> lost_ranges() {
  const MutexLock lock(places_mutex);
  std::vector<std::string> names = lost_before();
  find_place([&names](const Place& place) {
    if (place.end.load() != 0 && place.lost.load()) names.push_back(*place.name);
    return false;
  });
  return names;
}

void forget_lost_ranges() {
  const MutexLock lock(places_mutex);
  lost_before().clear();
}

GuardedRange::GuardedRange(const void* begin, std::size_t bytes, std::string name) : name_(std::move(name)) {
  const MutexLock lock(places_mutex);
  place_ = find_place([](const Place& place) { return place.end.load() == 0; });
  if (place_ == nullptr) {
    auto* block = new Block;
    block->next.store(first_block.next.load(), std::memory_order_relaxed);
    first_block.next.store(block, std::memory_order_release);
    place_ = block->places.data();
  }
  // A read near the end may reach to the end of its page.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  place_->name = &name_;
  place_->lost.store(false);
  place_->begin.store(address, std::memory_order_release);
  place_->end.store(address + (bytes + page - 1) / page * page, std::memory_order_release);
}

GuardedRange::~GuardedRange() {
  const MutexLock lock(places_mutex);
  place_->end.store(0, std::memory_order_release);
  place_->begin.store(0, std::memory_order_release);
  if (place_->lost.load()) lost_before().push_back(std::move(name_));
}

bool GuardedRange::lost() const {
  return place_->lost.load(std::memory_order_seq_cst);
}

}  // namespace sluice
