// The table of fields (field_table.h), written for people and for programs: `sluice api` and GET /openapi.json.
// Used by cli/manual/manual_commands.cc and serve/api/openai/plain_endpoints.cc.
#pragma once

#include <string>

namespace sluice {

std::string api_markdown();
std::string openapi_json();  // OpenAPI 3.1

}  // namespace sluice
