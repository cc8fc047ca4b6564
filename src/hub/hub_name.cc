// Used by cli, cli/commands and hub.
#include "hub/hub_name.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "files/hub_cache.h"
#include "files/json.h"

namespace sluice {
namespace {

constexpr std::size_t kMostCharacters = 200, kMostPathBytes = 1024, kMostNameBytes = 240;

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

bool is_word(std::string_view text, bool with_slashes) {
  return !text.empty() && text.size() <= kMostCharacters && text.front() != '-' &&
         std::ranges::all_of(text, [&](char c) { return is_plain(c) || (with_slashes && c == '/'); }) &&
         (!with_slashes || check_hub_path(text).ok());
}

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text.substr(0, kMostCharacters));
  return out;
}

}  // namespace

std::string HubName::text() const {
  return fmt::format("{}{}{}{}{}", id, quantisation.empty() ? "" : ":", quantisation, revision == "main" ? "" : "@",
                     revision == "main" ? "" : revision);
}

bool is_hub_name(std::string_view text) {
  return parse_hub_name(text).ok();
}

Result<HubName> parse_hub_name(std::string_view text) {
  const std::string what =
      fmt::format("expected ORG/MODEL, ORG/MODEL@REVISION or ORG/MODEL:QUANTISATION, found {}", quoted(text));
  std::size_t at = std::min(text.find_first_of("@:"), text.size());
  HubName name{.id = std::string(text.substr(0, at))};
  if (name.id.find('/') == std::string::npos || !is_hub_id(name.id)) return invalid_argument(what);
  bool has_revision = false;
  while (at < text.size()) {
    const bool is_revision = text[at] == '@';
    const std::size_t end = std::min(text.find_first_of("@:", at + 1), text.size());
    const std::string_view part = text.substr(at + 1, end - at - 1);
    const bool is_second = is_revision ? has_revision : !name.quantisation.empty();
    if (is_second || !is_word(part, is_revision)) return invalid_argument(what);
    (is_revision ? name.revision : name.quantisation) = part;
    has_revision = has_revision || is_revision;
    at = end;
  }
  return name;
}

Status check_hub_path(std::string_view path) {
  bool ok = !path.empty() && path.size() <= kMostPathBytes && valid_utf8_prefix(path) == path.size() &&
            std::ranges::none_of(path, [](char c) { return c == '\\' || (c >= '\0' && c < ' ') || c == '\x7f'; });
  for (std::size_t at = 0; ok && at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    ok = !part.empty() && part != "." && part != ".." && part.size() <= kMostNameBytes;
    at = end + 1;
  }
  if (ok) return {};
  return invalid_argument(fmt::format("expected the path of a file within the repository, found {}", quoted(path)));
}

Result<WebAddress> parse_web_address(std::string_view text) {
  if (!std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; })) {
    return invalid_argument(fmt::format("expected a URL, found {}", quoted(text)));
  }
  text = text.substr(0, text.find('#'));
  const std::size_t scheme = text.find("://");
  const std::size_t start = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t end = std::min(text.find_first_of("/?", start), text.size());
  SLUICE_ASSIGN_OR_RETURN(ServerUrl server, parse_server_url(text.substr(0, end)));
  std::string target(text.substr(end));
  if (!target.starts_with('/')) target.insert(0, "/");
  return WebAddress{std::move(server), std::move(target)};
}

Result<WebAddress> follow_location(const WebAddress& from, std::string_view location) {
  const std::string scheme = from.server.tls ? "https:" : "http:";
  if (location.starts_with("//")) return parse_web_address(scheme + std::string(location));
  if (location.starts_with('/')) {
    return parse_web_address(fmt::format("{}//{}{}", scheme, from.server.authority(), location));
  }
  if (!location.starts_with("http://") && !location.starts_with("https://")) {
    return invalid_argument(fmt::format("a redirect: expected a URL or a path, found {}", quoted(location)));
  }
  SLUICE_ASSIGN_OR_RETURN(WebAddress next, parse_web_address(location));
  if (!from.server.tls || next.server.tls) return next;
  return invalid_argument(fmt::format("a redirect from https to {}: expected https", quoted(location)));
}

std::string escape_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (is_plain(c) || c == '/' || c == '~') {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace sluice
