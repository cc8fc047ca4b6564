// The program's commands and flags as text: the source of the manual pages and of shell completions, so that neither
// can differ from `--help`.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace sluice {

struct FlagText {
  std::vector<std::string> names;  // as typed, short ones first: "-p", "--prompt"; a positional has one name
  std::string value;               // "FILE", "N [64]"; empty: takes none
  std::string help;
  bool positional = false;

  bool takes_file() const;  // its value is a file or folder
};

struct FlagGroup {
  std::string title;  // "Options", "Engine"
  std::vector<FlagText> flags;
};

struct CommandText {
  std::string name;  // "serve"; of the program itself "sluice"
  std::string help, footer;
  std::vector<FlagText> positionals;
  std::vector<FlagGroup> groups;      // in the order of --help; then those of commands within it (`bench serve`)
  std::vector<CommandText> commands;  // only the program itself has them

  std::vector<FlagText> flags() const;  // the flags of all groups
  const CommandText* command(const std::string& name) const;
};

// `app`: the program, complete with its commands.
CommandText describe(const CLI::App& app);

}  // namespace sluice
