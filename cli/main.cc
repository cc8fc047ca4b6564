// The program `sluice`: one subcommand per task. Exit codes: 0 success, 1 the task failed, 2 wrong usage.
#include <CLI/CLI.hpp>

#include "sluice_version.h"

int main(int argc, char** argv) {
  CLI::App app{"Sluice: inference for DeepSeek-V4-family models", "sluice"};
  app.set_version_flag("--version", "sluice " SLUICE_VERSION " (" SLUICE_COMMIT ")");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return 0;
}
