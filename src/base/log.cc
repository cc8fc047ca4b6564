// Used by many folders, among them bench, cli and config.
#include "base/log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <string>

#include "base/utf8.h"

namespace sluice {
namespace {

// In the order of LogLevel.
constexpr std::array<std::string_view, 6> kNames = {"trace", "debug", "info", "warning", "error", "off"};

std::atomic<LogLevel> lowest{LogLevel::kInfo};
std::atomic<LogFormat> form{LogFormat::kText};

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

// Appends a JSON string. Bytes that are no UTF-8 become U+FFFD, as everywhere in a line, so that every reader of the
// log can read it.
void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : to_valid_utf8(text)) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < ' ') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  out += '"';
}

// Values that one could not tell from what surrounds them are quoted.
void append_value(std::string& out, std::string_view value) {
  const bool plain = !value.empty() && value.find_first_of(" \"=\\") == value.npos &&
                     std::ranges::all_of(value, [](unsigned char c) { return c > ' ' && c < 0x7F; });
  if (plain) {
    out += value;
  } else {
    append_quoted(out, value);
  }
}

// It is one call, and stderr has a lock, so lines stay whole. A line that cannot be written is lost, as there is no
// other place to report it.
void write_line(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stderr);
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

// The argument only selects the overload.
std::span<const std::string_view> option_words(LogFormat /*format*/) {
  static constexpr std::string_view kWords[] = {"text", "json"};
  return kWords;
}

void set_log_format(LogFormat format) {
  form.store(format, std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view text) {
  log_event(level, text, {});
}

void log_event(LogLevel level, std::string_view text, std::span<const LogField> fields) {
  if (!log_enabled(level)) return;
  std::string line;
  if (form.load(std::memory_order_relaxed) == LogFormat::kJson) {
    line = fmt::format(R"({{"time":"{}","level":"{}","message":)", time_text(), name_of(level));
    append_quoted(line, text);
    for (const LogField& field : fields) {
      line += fmt::format(",\"{}\":", field.name);
      if (field.is_text) {
        append_quoted(line, field.value);
      } else {
        line += field.value;
      }
    }
    line += "}\n";
  } else {
    line = fmt::format("{} {:7} {}", time_text(), name_of(level), to_valid_utf8(text));
    for (const LogField& field : fields) {
      line += fmt::format(" {}=", field.name);
      append_value(line, field.value);
    }
    line += '\n';
  }
  write_line(line);
}

}  // namespace sluice
