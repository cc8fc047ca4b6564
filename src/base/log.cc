#include "base/log.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <string>

namespace sluice {
namespace {

// In the order of LogLevel.
constexpr std::array<std::string_view, 6> kNames = {"trace", "debug", "info", "warning", "error", "off"};

std::atomic<LogLevel> lowest{LogLevel::kInfo};

std::string_view name_of(LogLevel level) {
  return kNames[static_cast<std::size_t>(level)];
}

// Local time, to the millisecond.
std::string time_text() {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  std::tm local{};
  localtime_r(&now.tv_sec, &local);
  char text[40];
  const std::size_t length = std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
  return fmt::format("{}.{:03}", std::string_view(text, length), now.tv_nsec / 1'000'000);
}

}  // namespace

Result<LogLevel> parse_log_level(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<LogLevel>(i);
  }
  return invalid_argument(fmt::format("log level '{}': expected one of {}", name, fmt::join(kNames, ", ")));
}

void set_log_level(LogLevel level) {
  lowest.store(level, std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) {
  return level >= lowest.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view text) {
  if (!log_enabled(level)) return;
  const std::string line = fmt::format("{} {:7} {}\n", time_text(), name_of(level), text);
  std::fwrite(line.data(), 1, line.size(), stderr);  // one call, and stderr has a lock: lines stay whole
}

}  // namespace sluice
