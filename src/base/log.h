// Logging: one line per event on stderr, "2026-01-31 12:00:00.123 info    text", at or above a chosen level.
//
//   log_info("loaded {} tensors in {:.1f} s", count, seconds);
//
// As JSON (set_log_format) a line is {"time":"...","level":"info","message":"text"}.
//
// Arguments are formatted only when the level is on. Lines are whole: messages of several threads never mix within one.
// Thread safety: everything here may be called from any thread.
// Used by many folders, among them bench, cli and config.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/status.h"

namespace sluice {

enum class LogLevel { kTrace, kDebug, kInfo, kWarning, kError, kOff };

// "trace", "debug", "info", "warning", "error" or "off"; anything else is an error that lists them.
Result<LogLevel> parse_log_level(std::string_view name);

void set_log_level(LogLevel level);  // the default is info
bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view text);

enum class LogFormat { kText, kJson };
std::span<const std::string_view> option_words(LogFormat format);  // base/option_words.h
void set_log_format(LogFormat format);                             // the default is text

// An event with named values: "text name=value name=value", or members of the line's JSON object.
struct LogField {
  std::string_view name;
  std::string value;
  bool is_text = true;  // false: a number, as JSON writes it
};
void log_event(LogLevel level, std::string_view text, std::span<const LogField> fields);

template <class... Args>
void log_at(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kDebug, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace sluice
