// The error for a wrong command line, in the form of every other error: the flag, what was expected, what was found,
// and whose --help lists the rest.
#pragma once

#include "sluice/status.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace sluice {

Status usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace sluice
