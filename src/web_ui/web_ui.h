// The web page that the server shows: its files (src/web_ui/files), embedded in the program by cmake/web_ui.cmake.
// Thread safety: constants.
// Used by serve/observe/page_endpoints.cc.
#pragma once

#include <span>
#include <string_view>

namespace sluice {

struct PageFile {
  std::string_view name;  // "index.html"
  std::string_view tag;   // changes with the bytes
  std::string_view plain, gzip;
};

std::span<const PageFile> page_files();

// Null if there is none.
const PageFile* find_page_file(std::string_view name);

// Returns the content type by the ending of the file's name.
std::string_view content_type_of(const PageFile& file);

// The rights of the page, for the header Content-Security-Policy: its own scripts, styles and connections, and nothing
// else; no string becomes a script or an element.
inline constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

}  // namespace sluice
