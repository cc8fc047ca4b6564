// Used by download.h.
#include "hub/transfer_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/log.h"
#include "base/progress.h"

namespace sluice {

std::string format_time_left(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

TransferProgress::TransferProgress(std::string label, std::uint64_t there, std::uint64_t total)
    : label_(std::move(label)),
      on_terminal_(isatty(STDERR_FILENO) == 1),
      there_(there),
      total_(total),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

TransferProgress::~TransferProgress() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

std::string TransferProgress::text_locked() const {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double rate = static_cast<double>(fetched_) / std::max(seconds, 1e-3);
  const std::uint64_t done = std::min(total_, there_ + fetched_);
  const std::string left = fetched_ == 0 ? "" : ", " + format_time_left(static_cast<double>(total_ - done) / rate);
  return fmt::format("{} of {}, {:.0f} %, {}/s{}{}", format_bytes(static_cast<double>(done)),
                     format_bytes(static_cast<double>(total_)),
                     total_ == 0 ? 100 : 100 * static_cast<double>(done) / static_cast<double>(total_),
                     format_bytes(rate), left, left.empty() ? "" : " left");
}

std::string TransferProgress::text() const {
  const std::scoped_lock lock(mutex_);
  return text_locked();
}

void TransferProgress::add(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  fetched_ += bytes;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < (on_terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10))) return;
  last_ = now;
  if (!on_terminal_) return log_info("{}: {}", label_, text_locked());
  drawn_ = true;
  const std::string line = fmt::format("\r{}: {}\x1b[K", label_, text_locked());
  std::fputs(line.c_str(), stderr);  // fmt::print would throw where the disk is full
  std::fflush(stderr);
}

void TransferProgress::take_back(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t from_disk = std::min(bytes, there_);
  there_ -= from_disk;
  fetched_ -= std::min(fetched_, bytes - from_disk);
}

}  // namespace sluice
