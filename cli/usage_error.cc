#include "cli/usage_error.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {
namespace {

// Returns the command that was being read.
const CLI::App& command_of(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

std::string words_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : words_of(*parent) + " " + command.get_name();
}

// Shortens bounds that the library writes as "0.500000".
std::string_view without_zeros(std::string_view number) {
  if (number.find('.') == std::string_view::npos) return number;
  while (number.ends_with('0')) number.remove_suffix(1);
  if (number.ends_with('.')) number.remove_suffix(1);
  return number;
}

std::string_view kind_of_value(const CLI::Option* option) {
  const std::string type = option == nullptr ? "" : option->get_type_name();
  if (type.starts_with("FLOAT")) return "a number";
  if (type.starts_with("INT")) return "a whole number";
  if (type.starts_with("UINT")) return "a whole number from 0 on";
  return "another value";
}

// Removes and returns the part of `text` before `mark`, and the mark. Without a mark it removes and returns all.
std::string_view take_until(std::string_view& text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  const std::string_view taken = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + mark.size());
  return taken;
}

// Rewrites the library's message for a value that a check refused.
std::string refused_value(std::string_view text) {
  const std::string_view whole = text;
  if (text.find(" unit not recognized") != std::string_view::npos) {
    return fmt::format("expected a size such as 512MiB or 4GB, found the unit '{}'",
                       take_until(text, " unit not recognized"));
  }
  if (text.starts_with("Value ") && text.find(" not in range ") != std::string_view::npos) {
    text.remove_prefix(std::string_view("Value ").size());
    const std::string_view found = take_until(text, " not in range "), least = take_until(text, " to ");
    return fmt::format("expected {} to {}, found {}", without_zeros(least), without_zeros(text), found);
  }
  if (text.find(" not in {") != std::string_view::npos) {
    const std::string_view found = take_until(text, " not in {");
    std::string choices;
    for (std::string_view left = text.substr(0, text.find('}')); !left.empty();) {
      choices += (choices.empty() ? "" : ", ");
      choices += take_until(left, ",");
    }
    return fmt::format("expected one of {}, found '{}'", choices, found);
  }
  return std::string(whole);
}

std::string message_of(const CLI::App& app, const CLI::App& command, const CLI::ParseError& error) {
  if (const std::vector<std::string> words = app.remaining(/*recurse=*/true); !words.empty()) {
    const bool is_flag = words.front().starts_with("-");
    if (is_flag) return fmt::format("'{}': no such flag", words.front());
    return fmt::format("'{}': {}", words.front(), &command == &app ? "no such command" : "one argument too many");
  }
  const std::string what = error.what();
  std::string_view text = what;
  constexpr std::string_view kNotConverted = "Could not convert: ";
  if (text.starts_with(kNotConverted)) {
    text.remove_prefix(kNotConverted.size());
    const std::string_view name = take_until(text, " = ");
    return fmt::format("{}: expected {}, found '{}'", name,
                       kind_of_value(command.get_option_no_throw(std::string(name))), text);
  }
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr && text.find(": ") != std::string_view::npos) {
    const std::string_view name = take_until(text, ": ");
    return fmt::format("{}: {}", name, refused_value(text));
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && text.ends_with(" missing")) {
    return fmt::format("{}: expected a value, found none", take_until(text, ": "));
  }
  return text == "A subcommand is required" ? "expected a command" : what;
}

}  // namespace

Status usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = command_of(app);
  return invalid_argument(fmt::format("{}; see {} --help", message_of(app, command, error), words_of(command)));
}

}  // namespace sluice
