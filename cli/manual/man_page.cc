#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "cli/manual/manual.h"
#include "cli/version.h"

namespace sluice {
namespace {

// Text as troff wants it: a hyphen that may be typed, a backslash, and nothing at a line's start that is a request.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool line_start = out.empty() || out.back() == '\n';
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '-' || c == '\\') out += '\\';
    out += c == '\\' ? 'e' : c;
  }
  return out;
}

std::string page_name(const CommandText& program, const CommandText& command) {
  return &program == &command ? program.name : program.name + "-" + command.name;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

void append_flag(std::string& out, const FlagText& flag) {
  out += ".TP\n";
  for (std::size_t i = 0; i < flag.names.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "{}\\fB{}\\fR", i > 0 ? ", " : "", escaped(flag.names[i]));
  }
  if (!flag.value.empty()) fmt::format_to(std::back_inserter(out), " \\fI{}\\fR", escaped(flag.value));
  fmt::format_to(std::back_inserter(out), "\n{}\n", flag.help.empty() ? "The opposite." : escaped(flag.help));
}

void append_usage(std::string& out, const CommandText& program, const CommandText& command) {
  fmt::format_to(std::back_inserter(out), ".SH SYNOPSIS\n.B {}\n", program.name);
  if (&program == &command) {
    out += ".I COMMAND\n[\\fIOPTIONS\\fR]\n";
    return;
  }
  fmt::format_to(std::back_inserter(out), ".B {}\n[\\fIOPTIONS\\fR]\n", command.name);
  for (const FlagText& flag : command.positionals) {
    fmt::format_to(std::back_inserter(out), "[\\fI{}\\fR]\n", escaped(flag.names.front()));
  }
}

constexpr const char* kFiles =
    ".SH FILES\n"
    ".TP\n.I $XDG_CACHE_HOME/sluice\n"
    "Known models that were brought and weights in the kernels' form; without that variable ~/.cache/sluice.\n"
    ".TP\n.I ../share/sluice/models\n"
    "The embedded model, found relative to the program.\n"
    ".TP\n.I /etc/default/sluice\n"
    "SLUICE_ARGS, the arguments of the server that systemd starts (sluice.service).\n";

}  // namespace

std::string man_page(const CommandText& program, const CommandText& command) {
  const std::string name = page_name(program, command);
  std::string out = fmt::format(".TH {} 1 \"\" \"Sluice {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n",
                                escaped(upper(name)), program_version(), escaped(name), escaped(command.help));
  append_usage(out, program, command);
  fmt::format_to(std::back_inserter(out), ".SH DESCRIPTION\n{}.\n", escaped(command.help));
  if (!command.commands.empty()) {
    out += ".SH COMMANDS\n";
    for (const CommandText& c : command.commands) {
      fmt::format_to(std::back_inserter(out), ".TP\n.BR {0}\\-{1} (1)\n{2}\n", program.name, c.name, escaped(c.help));
    }
  }
  if (!command.positionals.empty()) {
    out += ".SH ARGUMENTS\n";
    for (const FlagText& flag : command.positionals) append_flag(out, flag);
  }
  if (!command.groups.empty()) out += ".SH OPTIONS\n";
  for (const FlagGroup& group : command.groups) {
    if (group.title != "Options") fmt::format_to(std::back_inserter(out), ".SS {}\n", escaped(group.title));
    for (const FlagText& flag : group.flags) append_flag(out, flag);
  }
  fmt::format_to(std::back_inserter(out), ".SH NOTES\n{}\n", escaped(program.footer));
  if (&program == &command) {
    out += kFiles;
  } else {
    fmt::format_to(std::back_inserter(out), ".SH SEE ALSO\n.BR {} (1)\n", program.name);
  }
  return out;
}

}  // namespace sluice
