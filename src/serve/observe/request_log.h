// The line that a request leaves in the log: who, what, with which result, tokens and times. No text of prompt or
// answer unless the record has it (--log-text).
// Used by serve/server.cc.
#pragma once

#include <string_view>

#include "serve/http/http.h"

namespace sluice {

// `route`: the path of the route that it belongs to. Health checks and scrapers come every few seconds: theirs are on
// level debug unless they fail.
void log_request(const HttpSummary& summary, std::string_view route);

}  // namespace sluice
