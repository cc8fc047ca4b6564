// Used by cli/commands/text_commands.h, cli/loaded_model.h, engine/engine_impl.h and engine/load.cc.
#include "config/generation_config.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <limits>

#include "base/log.h"
#include "base/storage/mapped_file.h"
#include "files/json.h"
#include "files/json_fields.h"
#include "sluice/sampling.h"

namespace sluice {

namespace {

namespace json = boost::json;

// Keys of the library that change answers and that nothing here does, with the value that asks for nothing.
struct OtherKey {
  std::string_view name;
  double neutral;
};
constexpr OtherKey kOtherKeys[] = {
    {"typical_p", 1},         {"epsilon_cutoff", 0},  {"eta_cutoff", 0},           {"top_h", 0},
    {"num_beams", 1},         {"num_beam_groups", 1}, {"no_repeat_ngram_size", 0}, {"encoder_repetition_penalty", 1},
    {"diversity_penalty", 0}, {"penalty_alpha", 0},   {"guidance_scale", 1},       {"min_new_tokens", 0},
    {"min_length", 0},
};
// Keys whose values are lists or objects: any such value asks for something.
constexpr std::string_view kOtherLists[] = {
    "bad_words_ids",   "suppress_tokens",     "begin_suppress_tokens",
    "sequence_bias",   "stop_strings",        "exponential_decay_length_penalty",
    "force_words_ids", "watermarking_config", "forced_bos_token_id"};

std::vector<std::string> find_unsupported(const JsonFields& fields) {
  std::vector<std::string> found;
  const auto note = [&](std::string_view key, const json::value& value) {
    found.push_back(std::string(key) + " " + describe_json(&value));
  };
  for (const OtherKey& key : kOtherKeys) {
    const json::value* value = fields.find(key.name);
    if (value == nullptr) continue;
    boost::system::error_code error;
    const double number = value->is_number() ? value->to_number<double>(error) : 0;
    if (!value->is_number() || number != key.neutral) note(key.name, *value);
  }
  for (const std::string_view key : kOtherLists) {
    const json::value* value = fields.find(key);
    const bool is_empty = value == nullptr || (value->is_array() && value->get_array().empty());
    if (!is_empty) note(key, *value);
  }
  return found;
}

// Returns whether the id means that there is none.
bool means_none(const json::value& value) {
  if (value.is_int64())
    return value.get_int64() == -1 || value.get_int64() == std::numeric_limits<std::uint32_t>::max();
  return false;
}

}  // namespace

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
  read("min_p", config.min_p, kMinPs.low, kMinPs.high);
  read("presence_penalty", config.presence_penalty, kPenalties.low, kPenalties.high);
  read("frequency_penalty", config.frequency_penalty, kPenalties.low, kPenalties.high);
  read("repetition_penalty", config.repetition_penalty, kRepetitionPenalties.low, kRepetitionPenalties.high);
  config.eos_token_ids = read_token_ids(fields, "eos_token_id", std::numeric_limits<std::int32_t>::max());
  config.unsupported = find_unsupported(fields);
  SLUICE_RETURN_IF_ERROR(fields.status());
  return config;
}

bool GenerationConfig::has_penalties() const {
  return presence_penalty.value_or(0) != 0 || frequency_penalty.value_or(0) != 0 || repetition_penalty.value_or(1) != 1;
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
  const json::value* value = fields.find(key);
  if (value == nullptr) return ids;
  const auto read = [&](const json::value& one) {
    if (means_none(one)) {
      log_warning("{}: key '{}': {} means that there is no such token; it is left out", fields.what(), key,
                  describe_json(&one));
    } else if (one.is_int64() && one.get_int64() >= 0 && one.get_int64() <= max) {
      ids.push_back(static_cast<std::int32_t>(one.get_int64()));
    } else {
      fields.fail(key, fmt::format("token ids from 0 to {}", max));
    }
  };
  if (!value->is_array()) {
    read(*value);
  } else {
    for (const json::value& one : value->get_array()) read(one);
  }
  return ids;
}

}  // namespace sluice
