// Used by serve/observe/page_endpoints.cc.
#include "web_ui/web_ui.h"

namespace sluice {

const PageFile* find_page_file(std::string_view name) {
  for (const PageFile& file : page_files()) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

std::string_view content_type_of(const PageFile& file) {
  if (file.name.ends_with(".html")) return "text/html; charset=utf-8";
  if (file.name.ends_with(".css")) return "text/css; charset=utf-8";
  if (file.name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (file.name.ends_with(".svg")) return "image/svg+xml";
  return "application/octet-stream";
}

}  // namespace sluice
