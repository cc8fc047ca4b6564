// Another program, run to its end.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sluice/status.h"

namespace sluice {

struct ChildCommand {
  std::vector<std::string> words;                  // the program, found along PATH, and its arguments
  std::map<std::string, std::string> environment;  // beside the own one
};

struct ChildEnd {
  bool found = true;  // whether there is such a program
  bool ok = false;    // it ended by itself, with code 0
  std::string said;   // what it wrote to standard output and standard error, which are not ours
};

// Standard input is empty. `tick` is called about twenty times a second while it runs. When SIGINT or SIGTERM come
// (interrupt.h; an InterruptScope must be there) the program is ended too and the status is kCancelled. If this
// process dies, so does the program. For processes with one thread.
Result<ChildEnd> run_child(const ChildCommand& command, const std::function<void()>& tick);

}  // namespace sluice
