// add_command: a subcommand, and the options that its flags fill.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands/commands.h"

namespace sluice {

template <class Options>
struct AddedCommand {
  CLI::App& command;
  Options& options;  // must live as long as the command
};

// After parsing, `run` runs it, unless it was one of its own subcommands that was given.
template <class Options>
AddedCommand<Options> add_command(CLI::App& app, Invocation& invocation, const std::string& name,
                                  const std::string& text, int (*run)(const Options&)) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = *app.add_subcommand(name, text);
  command.callback([&invocation, &command, options, run] {
    if (command.get_subcommands().empty()) invocation.run = [options, run] { return run(*options); };
  });
  return {command, *options};
}

}  // namespace sluice
