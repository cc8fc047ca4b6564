#include "config/generation_config.h"

#include <boost/json/value.hpp>
#include <filesystem>
#include <limits>

#include "base/mapped_file.h"
#include "files/json.h"
#include "files/json_fields.h"
#include "sluice/sampling.h"

namespace sluice {

Result<GenerationConfig> parse_generation_config(std::string_view json, std::string_view what) {
  SLUICE_ASSIGN_OR_RETURN(const boost::json::value value, parse_json(json, what));
  JsonFields fields(value, std::string(what));
  GenerationConfig config;
  const auto read = [&](std::string_view key, auto& out, auto... range) {
    if (fields.has(key)) fields.read(key, out.emplace(), range...);
  };
  read("do_sample", config.do_sample);
  read("temperature", config.temperature, kTemperatures.low, kTemperatures.high);
  read("top_p", config.top_p, kTopPs.low, kTopPs.high);
  read("top_k", config.top_k, kTopKs.low, kTopKs.high);
  config.eos_token_ids = read_token_ids(fields, "eos_token_id", std::numeric_limits<std::int32_t>::max());
  SLUICE_RETURN_IF_ERROR(fields.status());
  return config;
}

Result<GenerationConfig> load_generation_config(const std::string& model) {
  std::error_code error;
  const std::filesystem::path given(model);
  const std::filesystem::path folder = std::filesystem::is_regular_file(given, error) ? given.parent_path() : given;
  const std::string path = (folder / "generation_config.json").string();
  if (!std::filesystem::exists(path, error)) return GenerationConfig();
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  return parse_generation_config(text, path);
}

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
