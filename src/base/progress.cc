// Used by cli, engine, hub, kernels and model.
#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace sluice {
namespace {

constexpr int kWidth = 30;

}  // namespace

std::string format_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

ProgressBar::ProgressBar(std::string label, Unit unit)
    : ProgressBar(std::move(label), isatty(STDERR_FILENO) == 1, unit) {}

ProgressBar::ProgressBar(std::string label, bool draws, Unit unit)
    : label_(std::move(label)), unit_(unit), draws_(draws), start_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::update(std::size_t done, std::size_t total) {
  const auto now = std::chrono::steady_clock::now();
  if (!draws_ || total == 0 || (drawn_ && now - last_ < std::chrono::milliseconds(100) && done < total)) return;
  last_ = now;
  drawn_ = true;
  const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const double seconds = std::max(1e-3, std::chrono::duration<double>(now - start_).count());
  const auto filled = static_cast<std::size_t>(part * kWidth);
  const double rate = static_cast<double>(done) / seconds;
  const std::string amount = unit_ == Unit::kItems
                                 ? fmt::format("{} of {}  {:.1f}/s", done, total, rate)
                                 : fmt::format("{}  {}/s", format_bytes(static_cast<double>(done)), format_bytes(rate));
  const std::string line = fmt::format("\r{} {:3.0f} % [{}{}] {}\x1b[K", label_, part * 100, std::string(filled, '#'),
                                       std::string(kWidth - filled, '.'), amount);
  std::fputs(line.c_str(), stderr);  // fmt::print would throw if the disk is full
  std::fflush(stderr);
}

}  // namespace sluice
