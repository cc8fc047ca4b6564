#include "config/token_ids.h"

#include <boost/json/value.hpp>

#include "files/json_fields.h"

namespace sluice {

std::vector<std::int32_t> read_token_ids(JsonFields& fields, std::string_view key, std::int32_t max) {
  std::vector<std::int32_t> ids;
  const boost::json::value* value = fields.find(key);
  if (value == nullptr) return ids;
  if (value->is_array()) {
    fields.read(key, ids, 0, max);
  } else {
    std::int32_t id = -1;
    fields.read(key, id, 0, max);
    if (fields.status().ok()) ids.push_back(id);
  }
  return ids;
}

}  // namespace sluice
