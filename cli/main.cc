// The program `sluice`: one subcommand per task. docs/cli.md lists them with their exit codes.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/storage/mapping_guard.h"
#include "cli/commands/commands.h"
#include "cli/exit_code.h"
#include "cli/usage_error.h"
#include "cli/version.h"

namespace {

constexpr const char* kFooter =
    "Answers go to standard output, progress and logs to standard error.\n"
    "Exit codes: 0 success, 1 the task failed, 2 wrong usage or bad input, 3 short of a resource, 130 interrupted.";

// Returns failure if a file was cut while it was read: any result computed from it is worthless.
int report_lost(int code) {
  const std::vector<std::string> lost = sluice::lost_ranges();
  if (lost.empty() || code == sluice::kExitResources) return code;  // the error has been printed
  const int failed = sluice::report(sluice::unavailable(
      lost.front() +
      ": could not be read to its end: it was cut meanwhile, or the disk has failed; nothing that was made of it "
      "can be relied on"));
  return code != 0 ? code : failed;
}

int run(const sluice::Invocation& invocation) {
  const sluice::Result<sluice::LogLevel> level = sluice::parse_log_level(invocation.log_level);
  if (!level.ok()) return sluice::report(level.status().with_context("--log-level"));
  sluice::set_log_level(*level);
  sluice::guard_mappings();
  const int code = report_lost(invocation.run());
  if (std::fflush(stdout) == 0 || code != 0) return code;
  return sluice::report(sluice::internal_error("standard output: not everything could be written"));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Sluice: inference for DeepSeek-V2 to V4, Llama and Qwen models", "sluice"};
  app.set_version_flag("--version", [] { return sluice::version_text(); }, "Version, commit, ISA and profile");
  app.require_subcommand(1);
  app.footer(kFooter);
  sluice::Invocation invocation;
  sluice::add_text_commands(app, invocation);
  sluice::add_model_commands(app, invocation);
  sluice::add_hub_commands(app, invocation);
  sluice::add_simulate_command(app, invocation);
  sluice::add_bench_command(app, invocation);
  sluice::add_manual_commands(app, invocation);
  for (CLI::App* command : app.get_subcommands({})) command->footer(kFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return sluice::report(sluice::usage_error(app, error));
  }
  try {
    return run(invocation);
  } catch (const std::bad_alloc&) {
    return sluice::report(sluice::resource_exhausted("out of memory"));
  } catch (const std::exception& error) {
    return sluice::report(sluice::internal_error(error.what()));
  }
}
