// HubName: a model of the hub as a user names it, "ORG/MODEL", "ORG/MODEL@REVISION" or "ORG/MODEL:QUANTISATION"; and
// the addresses and paths that names and the hub's answers may have.
// Thread safety: pure functions.
// Used by cli, cli/commands and hub.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "net/server_url.h"
#include "sluice/status.h"

namespace sluice {

struct HubName {
  std::string id = {};            // "org/model"
  std::string revision = "main";  // a branch, a tag or a commit
  std::string quantisation = {};  // one of several in a GGUF repository; "": the only one

  std::string text() const;  // as the user would type it
};

// Returns whether the text has the form of a name, whether there is such a model or not.
bool is_hub_name(std::string_view text);
// Fails with the part that is wrong.
Result<HubName> parse_hub_name(std::string_view text);

// Checks the path of a file in a repository: relative, without "..", and no name that a file system would take amiss.
Status check_hub_path(std::string_view path);

// A URL in two parts. The server's prefix is empty: the target has the whole path and the query.
struct WebAddress {
  ServerUrl server = {};
  std::string target = {};
};
Result<WebAddress> parse_web_address(std::string_view text);
// The address that a redirect from `from` leads to.
Result<WebAddress> follow_location(const WebAddress& from, std::string_view location);

// Escapes what a path of a URL may not have; slashes stay.
std::string escape_path(std::string_view path);

}  // namespace sluice
