// Used by config/gguf/gguf_llama.cc, model/rope.h and model_config.h.
#include "config/rope_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cmath>

#include "config/config_keys.h"
#include "config/model_config.h"

namespace sluice {
namespace {

constexpr double kMaxFactor = 1e6;

// The keys of a rope dictionary that are read, by type. Keys of other types do not count, and keys that no type has are
// refused.
struct RopeType {
  std::string_view name, required, optional;
};
constexpr auto kRopeTypes = std::to_array<RopeType>({
    {"default", "", ""},
    {"linear", "factor", ""},
    {"dynamic", "factor", ""},
    {"yarn", "factor",
     "original_max_position_embeddings beta_fast beta_slow truncate attention_factor mscale mscale_all_dim"},
    {"longrope", "short_factor long_factor", "factor original_max_position_embeddings attention_factor"},
    {"llama3", "factor low_freq_factor high_freq_factor", "original_max_position_embeddings"},
    {"proportional", "", "factor partial_rotary_factor"},
});
// Keys of every type. "finetuned" only tells how a file was made.
constexpr std::string_view kRopeKeys = "rope_type type rope_theta partial_rotary_factor mscale_all_dim finetuned";

bool has_word(std::string_view words, std::string_view word) {
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

// The rope parameters of a config and what stands at its top.
class RopeReader {
 public:
  RopeReader(ConfigReader& reader, JsonFields scaling, int max_positions, int dims, RopeConfig& rope)
      : reader_(reader),
        top_(reader.fields()),
        scaling_(std::move(scaling)),
        max_positions_(max_positions),
        dims_(dims),
        rope_(rope) {}

  Status read() {
    check_rope_keys(scaling_);
    const bool inner = scaling_.has("rope_theta") || scaling_.is_null("rope_theta");
    JsonFields& place = inner ? scaling_ : top_;
    if (place.is_null("rope_theta")) place.fail("rope_theta", "a number");  // the library has no default for null
    place.read("rope_theta", rope_.theta, 1.0, kMaxTheta);
    const std::string_view key = scaling_.has("rope_type") ? "rope_type" : "type";
    std::string type = "default";
    scaling_.read(key, type);
    if (type != "default") read_type(key, type);
    reader_.fields().merge(top_);
    reader_.fields().merge(scaling_);
    return reader_.status();
  }

 private:
  void read_type(std::string_view key, const std::string& type) {
    const auto* const known = std::ranges::find(kRopeTypes, type, &RopeType::name);
    if (known == kRopeTypes.end()) return scaling_.fail(key, type_names());
    const bool partial = type == "proportional";
    if (!partial) check_all_rotated();
    scaling_.read("mscale_all_dim", rope_.mscale_all_dim, -1e3, 1e3);
    if (type == "linear" || partial) read_linear(partial);
    if (type == "dynamic") rope_.dynamic = true, require("factor", rope_.factor);
    if (type == "yarn") read_yarn();
    if (type == "llama3") read_llama3();
    if (type == "longrope") read_longrope();
  }

  static std::string type_names() {
    std::string names;
    for (const RopeType& type : kRopeTypes) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", type.name);
    return "one of " + names;
  }

  void require(std::string_view key, double& value) { scaling_.require(key, value, 1e-6, kMaxFactor); }

  double partial_factor() {
    double factor = 1.0;
    top_.read("partial_rotary_factor", factor, 0.0, 1.0);
    scaling_.read("partial_rotary_factor", factor, 0.0, 1.0);
    return factor;
  }

  // The library's models of these families rotate whole heads; with scaling and a part of them it fails.
  void check_all_rotated() {
    if (static_cast<int>(partial_factor() * dims_) == dims_) return;
    (scaling_.has("partial_rotary_factor") ? scaling_ : top_)
        .fail("partial_rotary_factor", "1, as heads are rotated whole");
  }

  // If both are there, the one at the top wins; if none is, max_position_embeddings counts.
  int original_positions() {
    double original = max_positions_;
    scaling_.read("original_max_position_embeddings", original, 1.0, kMaxPositions);
    top_.read("original_max_position_embeddings", original, 1.0, kMaxPositions);
    if (std::floor(original) != original) {
      (top_.has("original_max_position_embeddings") ? top_ : scaling_)
          .fail("original_max_position_embeddings", "an integer");
    }
    return static_cast<int>(original);
  }

  // Returns the factor, or max_position_embeddings / original_max_position_embeddings.
  void read_factor() {
    rope_.factor = static_cast<double>(max_positions_) / rope_.original_max_position_embeddings;
    scaling_.read("factor", rope_.factor, 1e-6, kMaxFactor);
  }

  void read_linear(bool partial) {
    rope_.linear = true;
    if (!partial) return require("factor", rope_.factor);
    scaling_.read("factor", rope_.factor, 1e-6, kMaxFactor);
    rope_.rotated = partial_factor();
  }

  void read_yarn() {
    rope_.yarn = true;
    rope_.original_max_position_embeddings = original_positions();
    if (!scaling_.has("factor") && !scaling_.is_null("factor"))
      scaling_.fail("factor", "a number, or null to have it follow");
    read_factor();
    for (auto [key, value, absent] :
         {std::tuple{"beta_fast", &rope_.beta_fast, 32.0}, {"beta_slow", &rope_.beta_slow, 1.0}}) {
      scaling_.read(key, *value, 0.0, kMaxFactor);
      if (*value == 0.0) *value = absent;
    }
    scaling_.read("truncate", rope_.truncate);
    double mscale = 0.0;
    scaling_.read("mscale", mscale, -1e3, 1e3);
    const bool both = mscale != 0.0 && rope_.mscale_all_dim != 0.0;
    rope_.attention_factor = yarn_mscale(rope_.factor, both ? mscale : 1.0);
    if (both) rope_.attention_factor /= yarn_mscale(rope_.factor, rope_.mscale_all_dim);
    scaling_.read("attention_factor", rope_.attention_factor, 0.0, kMaxFactor);
    if (!std::isfinite(rope_.attention_factor)) scaling_.fail("mscale_all_dim", "a finite attention factor");
  }

  void read_llama3() {
    rope_.llama3 = true;
    require("factor", rope_.factor);
    rope_.original_max_position_embeddings = original_positions();
    require("low_freq_factor", rope_.low_freq_factor);
    require("high_freq_factor", rope_.high_freq_factor);
  }

  void read_longrope() {
    rope_.original_max_position_embeddings = original_positions();
    read_factor();
    read_factors("short_factor", rope_.short_factors);
    read_factors("long_factor", rope_.long_factors);
    const double original = rope_.original_max_position_embeddings;
    if (rope_.factor > 1.0 && original < 2.0 && !scaling_.has("attention_factor")) {
      scaling_.fail("original_max_position_embeddings", "2 or more");
    }
    rope_.attention_factor = rope_.factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(rope_.factor) / std::log(original));
    scaling_.read("attention_factor", rope_.attention_factor, 0.0, kMaxFactor);
  }

  void read_factors(std::string_view key, std::vector<float>& factors) {
    const auto wanted = static_cast<std::size_t>(dims_ / 2);
    const std::string expected = fmt::format("a list of {} numbers above 0, one per rotated pair", wanted);
    const boost::json::value* value = scaling_.find(key);
    if (value == nullptr || !value->is_array() || value->get_array().size() != wanted) {
      return scaling_.fail(key, expected);
    }
    for (const boost::json::value& item : value->get_array()) {
      boost::system::error_code error;
      const auto number = item.to_number<double>(error);
      if (error || !(number >= 1e-6 && number <= kMaxFactor)) return scaling_.fail(key, expected);
      factors.push_back(static_cast<float>(number));
    }
  }

  ConfigReader& reader_;
  JsonFields top_, scaling_;
  const int max_positions_, dims_;
  RopeConfig& rope_;
};

}  // namespace

double yarn_mscale(double factor, double mscale) {
  return factor > 1.0 ? 0.1 * mscale * std::log(factor) + 1.0 : 1.0;
}

void check_rope_keys(JsonFields& parameters, std::string_view more) {
  for (const std::string& key : parameters.keys()) {
    const bool known =
        has_word(kRopeKeys, key) || has_word(more, key) || std::ranges::any_of(kRopeTypes, [&](const RopeType& type) {
          return has_word(type.required, key) || has_word(type.optional, key);
        });
    if (!known)
      return parameters.fail(key, "no such key, as it is not known what it changes; remove it if it is nothing");
  }
}

Status read_rope_config(ConfigReader& reader, int max_position_embeddings, int dims, RopeConfig& rope) {
  const JsonFields& fields = reader.fields();
  const boost::json::value* scaling = fields.find("rope_scaling");
  const bool empty = scaling == nullptr || (scaling->is_object() && scaling->get_object().empty());
  return RopeReader(reader, fields.child(empty ? "rope_parameters" : "rope_scaling"), max_position_embeddings, dims,
                    rope)
      .read();
}

std::string rope_types_text() {
  std::string text;
  const auto list = [](std::string_view words) {
    std::string keys;
    for (const char c : words) keys += c == ' ' ? std::string("`, `") : std::string(1, c);
    return keys.empty() ? keys : "`" + keys + "`";
  };
  for (const RopeType& type : kRopeTypes) {
    text += fmt::format("| `{}` | {} | {} |\n", type.name, list(type.required), list(type.optional));
  }
  return text;
}

void choose_rope_factors(int max_model_len, ModelConfig& config) {
  const int positions = max_model_len > 0 ? max_model_len : config.max_position_embeddings;
  config.rope.uses_long_factors = config.rope.longrope() && positions > config.rope.original_max_position_embeddings;
}

}  // namespace sluice
