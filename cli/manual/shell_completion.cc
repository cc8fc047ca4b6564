#include <fmt/format.h>

#include <iterator>

#include "cli/manual/manual.h"

namespace sluice {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  return fmt::format("{}", fmt::join(words, between));
}

std::vector<std::string> command_names(const CommandText& program) {
  std::vector<std::string> names;
  for (const CommandText& command : program.commands) names.push_back(command.name);
  return names;
}

std::vector<std::string> flag_names(const CommandText& command) {
  std::vector<std::string> names;
  for (const FlagText& flag : command.flags()) names.insert(names.end(), flag.names.begin(), flag.names.end());
  return names;
}

// Names of the flags that want a value which is no file: nothing is offered behind them.
std::vector<std::string> plain_value_flags(const CommandText& command) {
  std::vector<std::string> names;
  for (const FlagText& flag : command.flags()) {
    if (!flag.value.empty() && !flag.takes_file()) names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return names;
}

std::string bash_completion(const CommandText& program) {
  std::string cases;
  for (const CommandText& command : program.commands) {
    fmt::format_to(std::back_inserter(cases), "    {})\n      flags=\"{}\"\n      valued=\" {} \"\n      ;;\n",
                   command.name, joined(flag_names(command)), joined(plain_value_flags(command)));
  }
  return fmt::format(R"(# bash completion for {0}
_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} flags="" valued=""
  COMPREPLY=()
  if [ "$COMP_CWORD" = 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "{1} {2}" -- "$current")
    return
  fi
  case ${{COMP_WORDS[1]}} in
{3}  esac
  if [[ $valued == *" $before "* ]]; then
    return
  elif [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -F _{0} {0}
)",
                     program.name, joined(command_names(program)), joined(flag_names(program)), cases);
}

// Returns the text as zsh and fish read it between single quotes.
std::string quoted(const std::string& text, const char* quote, const std::string& special = "") {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string::npos) out += '\\';
    if (c == '\'') {
      out += quote;
    } else {
      out += c;
    }
  }
  return out;
}

std::string zsh_completion(const CommandText& program) {
  const auto escape = [](const std::string& text) { return quoted(text, R"('\'')", "[]:\\"); };
  std::string commands, cases;
  for (const CommandText& command : program.commands) {
    fmt::format_to(std::back_inserter(commands), "    '{}:{}'\n", command.name, escape(command.help));
    fmt::format_to(std::back_inserter(cases), "    {})\n      _arguments \\\n", command.name);
    for (const FlagText& flag : command.flags()) {
      for (const std::string& name : flag.names) {
        const std::string value = flag.value.empty()  ? ""
                                  : flag.takes_file() ? ":file:_files"
                                                      : fmt::format(":{}: ", escape(flag.value));
        fmt::format_to(std::back_inserter(cases), "        '*{}[{}]{}' \\\n", name, escape(flag.help), value);
      }
    }
    cases += "        '*:file:_files'\n      ;;\n";
  }
  return fmt::format(R"(#compdef {0}
_{0}() {{
  local -a commands=(
{1}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{2}  esac
}}
_{0} "$@"
)",
                     program.name, commands, cases);
}

std::string fish_completion(const CommandText& program) {
  const auto escape = [](const std::string& text) { return quoted(text, R"(\')", "\\"); };
  std::string out = fmt::format("# fish completion for {}\n", program.name);
  for (const CommandText& command : program.commands) {
    fmt::format_to(std::back_inserter(out), "complete -c {} -n __fish_use_subcommand -f -a {} -d '{}'\n", program.name,
                   command.name, escape(command.help));
  }
  for (const CommandText& command : program.commands) {
    for (const FlagText& flag : command.flags()) {
      fmt::format_to(std::back_inserter(out), "complete -c {} -n '__fish_seen_subcommand_from {}'", program.name,
                     command.name);
      for (const std::string& name : flag.names) {
        const bool is_long = name.starts_with("--");
        fmt::format_to(std::back_inserter(out), " -{} {}", is_long ? "l" : "s", name.substr(is_long ? 2 : 1));
      }
      if (!flag.value.empty()) out += flag.takes_file() ? " -r -F" : " -x";
      fmt::format_to(std::back_inserter(out), " -d '{}'\n", escape(flag.help));
    }
  }
  return out;
}

}  // namespace

Result<std::string> shell_completion(const CommandText& program, const std::string& shell) {
  if (shell == "bash") return bash_completion(program);
  if (shell == "zsh") return zsh_completion(program);
  if (shell == "fish") return fish_completion(program);
  return invalid_argument(fmt::format("completion: expected bash, zsh or fish, found '{}'", shell));
}

}  // namespace sluice
