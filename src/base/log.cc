#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <memory>
#include <string>

namespace sluice {
namespace {

// In the order of LogLevel.
constexpr std::array<std::string_view, 6> kNames = {"trace", "debug", "info", "warning", "error", "off"};
constexpr std::array<spdlog::level::level_enum, 6> kLevels = {spdlog::level::trace, spdlog::level::debug,
                                                              spdlog::level::info,  spdlog::level::warn,
                                                              spdlog::level::err,   spdlog::level::off};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  return kLevels[static_cast<std::size_t>(level)];
}

spdlog::logger& logger() {
  // Never destroyed, so that threads that outlive main() may still log.
  static auto* const instance = [] {
    auto* made = new spdlog::logger("sluice", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %-7l %v");
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

}  // namespace

Result<LogLevel> parse_log_level(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<LogLevel>(i);
  }
  return invalid_argument(fmt::format("log level '{}': expected one of {}", name, fmt::join(kNames, ", ")));
}

void set_log_level(LogLevel level) {
  logger().set_level(spdlog_level(level));
}

bool log_enabled(LogLevel level) {
  return logger().should_log(spdlog_level(level));
}

void log_line(LogLevel level, std::string_view text) {
  logger().log(spdlog_level(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace sluice
