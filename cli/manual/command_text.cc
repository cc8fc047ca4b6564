#include "cli/manual/command_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace sluice {
namespace {

FlagText describe_flag(const CLI::Option& option) {
  FlagText text;
  text.positional = option.get_positional();
  text.help = option.get_description();
  if (text.positional) {
    text.names = {option.get_name(true)};
    return text;
  }
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  const std::string& shown = option.get_option_text();
  if (option.get_expected_max() > 0) {
    text.value = shown.empty() ? option.get_type_name() : shown;
  } else if (!shown.empty()) {
    text.help += " " + shown;  // the default of a flag without a value: "[on]"
  }
  return text;
}

}  // namespace

bool FlagText::takes_file() const {
  const std::string kind = positional ? names.front() : value.substr(0, value.find(' '));
  return kind == "MODEL" || kind == "FILE" || kind == "DIR" || kind == "CONFIG" || kind == "OUT";
}

std::vector<FlagText> CommandText::flags() const {
  std::vector<FlagText> all;
  for (const FlagGroup& group : groups) all.insert(all.end(), group.flags.begin(), group.flags.end());
  return all;
}

const CommandText* CommandText::command(const std::string& wanted) const {
  const auto found =
      std::find_if(commands.begin(), commands.end(), [&](const CommandText& c) { return c.name == wanted; });
  return found == commands.end() ? nullptr : &*found;
}

CommandText describe(const CLI::App& app) {
  CommandText text{.name = app.get_name(),
                   .help = app.get_description(),
                   .footer = app.get_footer(),
                   .positionals = {},
                   .groups = {},
                   .commands = {}};
  for (const std::string& title : app.get_groups()) {
    FlagGroup group{.title = title, .flags = {}};
    for (const CLI::Option* option : app.get_options([&](const CLI::Option* o) { return o->get_group() == title; })) {
      FlagText flag = describe_flag(*option);
      (flag.positional ? text.positionals : group.flags).push_back(std::move(flag));
    }
    if (!title.empty() && !group.flags.empty())
      text.groups.push_back(std::move(group));  // groups without a title are hidden
  }
  const auto of_user = [](const CLI::App* command) { return !command->get_group().empty(); };
  for (const CLI::App* command : app.get_subcommands(of_user)) {
    CommandText inner = describe(*command);
    if (app.get_parent() == nullptr) {
      text.commands.push_back(std::move(inner));
      continue;
    }
    for (FlagGroup& group : inner.groups) {
      group.title = group.title == "Options" ? inner.name + ": " + inner.help : inner.name + ": " + group.title;
      text.groups.push_back(std::move(group));
    }
  }
  return text;
}

}  // namespace sluice
