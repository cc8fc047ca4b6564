// The commands man, completion and api.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/exit_code.h"
#include "cli/manual/manual.h"
#include "serve/api/api_document.h"
#include "telemetry/metric_table.h"

namespace sluice {
namespace {

int print(const Result<std::string>& text) {
  if (!text.ok()) return report(text.status());
  std::fputs(text->c_str(), stdout);
  return kExitOk;
}

Result<std::string> page_of(const CommandText& program, const std::string& name) {
  if (name.empty()) return man_page(program, program);
  const CommandText* command = program.command(name);
  if (command == nullptr) return invalid_argument("man: '" + name + "' is no command; see sluice --help");
  return man_page(program, *command);
}

}  // namespace

void add_manual_commands(CLI::App& app, Invocation& invocation) {
  auto word = std::make_shared<std::string>();
  CLI::App& man = *app.add_subcommand("man", "Write the manual page of a command, or of the program (| man -l -)");
  man.add_option("COMMAND", *word, "Whose page; by default the program's")->option_text(" ");
  man.callback([&, word] { invocation.run = [&app, word] { return print(page_of(describe(app), *word)); }; });

  CLI::App& completion = *app.add_subcommand("completion", "Write what completes commands and flags in a shell");
  completion.add_option("SHELL", *word, "bash, zsh or fish")->required()->option_text(" ");
  completion.callback(
      [&, word] { invocation.run = [&app, word] { return print(shell_completion(describe(app), *word)); }; });

  CLI::App& api = *app.add_subcommand("api", "Write the fields of requests to the server as a page of Markdown");
  auto openapi = std::make_shared<bool>(false);
  api.add_flag("--openapi", *openapi, "As an OpenAPI document, as GET /openapi.json answers");
  auto metrics = std::make_shared<bool>(false);
  api.add_flag("--metrics", *metrics, "What GET /metrics tells")->excludes("--openapi");
  api.callback([&, openapi, metrics] {
    invocation.run = [openapi, metrics] {
      return print(*metrics ? metrics_markdown() : *openapi ? openapi_json() + "\n" : api_markdown());
    };
  });
}

}  // namespace sluice
