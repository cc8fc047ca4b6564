// pull, list and rm.
#include <CLI/CLI.hpp>

#include "cli/commands/hub_commands.h"
#include "cli/flags/add_command.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/flag_table.h"

namespace sluice {

void add_hub_commands(CLI::App& app, Invocation& invocation) {
  {
    const auto [command, options] =
        add_command(app, invocation, "pull", "Fetch a model from the Hugging Face hub into its cache", run_pull);
    add_flags(command, kOwnFlags,
              {{"NAME",
                &options.name,
                "",
                "ORG/MODEL, ORG/MODEL@REVISION, or ORG/MODEL:QUANTISATION of a repository of GGUF files",
                {.is_required = true}}});
    add_log_level_flag(command, invocation.log_level);
  }
  {
    const auto [command, options] =
        add_command(app, invocation, "list", "List the models of the Hugging Face cache", run_list);
    add_log_level_flag(command, invocation.log_level);
  }
  const auto [command, options] =
      add_command(app, invocation, "rm", "Remove a model from the Hugging Face cache", run_remove);
  add_flags(command, kOwnFlags,
            {{"NAME",
              &options.name,
              "",
              "ORG/MODEL for all of it, ORG/MODEL@REVISION for one revision",
              {.is_required = true}}});
  add_log_level_flag(command, invocation.log_level);
}

}  // namespace sluice
