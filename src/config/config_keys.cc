// Used by config.
#include "config/config_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>

#include "base/check.h"

namespace sluice {
namespace {

constexpr ConfigKey kEveryFamily[] = {
    {.name = "architectures", .rule = "one of the family's; it and `model_type` mean the same family"},
    {.name = "model_type", .rule = "decides the family"},
    {.name = "torch_dtype", .absent = "none", .winner = "dtype", .rule = "a dtype of PyTorch, or {\"\": dtype}"},
    {.name = "bos_token_id", .absent = "none", .rule = "ids outside the vocabulary mean none"},
    {.name = "eos_token_id", .absent = "none", .rule = "one or a list; ids outside the vocabulary mean none"},
    {.name = "quantization_config", .absent = "none", .rule = "[loading](../loading.md)"},
    {.name = "rope_theta", .absent = "10000", .rule = "rope_theta among the rope parameters wins"},
    {.name = "rope_scaling", .absent = "none", .winner = {}, .standin = "rope_parameters", .rule = "below"},
    {.name = "rope_parameters", .absent = "none", .rule = "below"},
    {.name = "original_max_position_embeddings", .absent = "none", .rule = "wins over the one among rope parameters"},
    {.name = "partial_rotary_factor", .absent = "1", .rule = "partial_rotary_factor among the rope parameters wins"},
    {.name = "is_causal", .type = KeyType::kFlag, .absent = "true", .values = "true"},
    {.name = "per_layer_config", .absent = "none", .rule = "refused: layers that differ are not computed"},
    {.name = "hidden_act", .type = KeyType::kText, .absent = "silu", .values = "silu|swish"},
    {.name = "tie_word_embeddings", .type = KeyType::kFlag, .absent = "false"},
};

constexpr auto kHarmless = std::to_array<std::string_view>({"_attn_implementation_autoset",
                                                            "_commit_hash",
                                                            "_name_or_path",
                                                            "add_cross_attention",
                                                            "attention_dropout",
                                                            "attn_implementation",
                                                            "auto_map",
                                                            "aux_loss_alpha",
                                                            "bad_words_ids",
                                                            "begin_suppress_tokens",
                                                            "chunk_size_feed_forward",
                                                            "cross_attention_hidden_size",
                                                            "custom_pipelines",
                                                            "decoder_start_token_id",
                                                            "diversity_penalty",
                                                            "do_sample",
                                                            "early_stopping",
                                                            "encoder_no_repeat_ngram_size",
                                                            "ep_size",
                                                            "exponential_decay_length_penalty",
                                                            "finetuning_task",
                                                            "forced_bos_token_id",
                                                            "forced_eos_token_id",
                                                            "generation_config",
                                                            "id2label",
                                                            "initializer_range",
                                                            "is_decoder",
                                                            "is_encoder_decoder",
                                                            "label2id",
                                                            "length_penalty",
                                                            "max_length",
                                                            "min_length",
                                                            "name_or_path",
                                                            "no_repeat_ngram_size",
                                                            "num_beam_groups",
                                                            "num_beams",
                                                            "num_labels",
                                                            "num_return_sequences",
                                                            "output_attentions",
                                                            "output_hidden_states",
                                                            "output_router_logits",
                                                            "output_scores",
                                                            "pad_token_id",
                                                            "prefix",
                                                            "pretraining_tp",
                                                            "problem_type",
                                                            "pruned_heads",
                                                            "remove_invalid_values",
                                                            "repetition_penalty",
                                                            "return_dict",
                                                            "return_dict_in_generate",
                                                            "router_aux_loss_coef",
                                                            "router_jitter_noise",
                                                            "sep_token_id",
                                                            "seq_aux",
                                                            "suppress_tokens",
                                                            "task_specific_params",
                                                            "temperature",
                                                            "tf_legacy_loss",
                                                            "tie_encoder_decoder",
                                                            "tokenizer_class",
                                                            "top_k",
                                                            "top_p",
                                                            "torchscript",
                                                            "transformers_version",
                                                            "typical_p",
                                                            "unsloth_fixed",
                                                            "unsloth_version",
                                                            "use_bfloat16",
                                                            "use_cache",
                                                            "vocab_file"});

// "a|b": the list that `text` is looked for in.
bool has_value(std::string_view values, std::string_view text) {
  while (!values.empty()) {
    const std::size_t end = std::min(values.find('|'), values.size());
    if (values.substr(0, end) == text) return true;
    values.remove_prefix(std::min(end + 1, values.size()));
  }
  return false;
}

// "a|b" as a person would write it: "a" or "b".
std::string values_text(std::string_view values, bool quoted) {
  std::string text;
  while (!values.empty()) {
    const std::size_t end = std::min(values.find('|'), values.size());
    const std::string_view value = values.substr(0, end);
    if (!text.empty()) text += " or ";
    text += quoted ? fmt::format("\"{}\"", value) : std::string(value);
    values.remove_prefix(std::min(end + 1, values.size()));
  }
  return text;
}

double number_of(std::string_view text) {
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool is_literal(std::string_view absent) {
  return absent != kRequired && absent != kComputed && absent != "none";
}

}  // namespace

std::span<const ConfigKey> every_familys_keys() {
  return kEveryFamily;
}

bool is_harmless_key(std::string_view key) {
  return std::ranges::find(kHarmless, key) != kHarmless.end();
}

const ConfigKey& ConfigReader::row(std::string_view key) const {
  for (const std::span<const ConfigKey> keys : {table_.keys, every_familys_keys()}) {
    const auto found = std::ranges::find(keys, key, &ConfigKey::name);
    if (found != keys.end()) return *found;
  }
  SLUICE_CHECK(false, "a key of config.json that is read is in its family's table");
  return table_.keys.front();
}

std::string_view ConfigReader::place(const ConfigKey& key) const {
  for (std::string_view winners = key.winner; !winners.empty();) {
    const std::size_t end = std::min(winners.find('|'), winners.size());
    if (const std::string_view winner = winners.substr(0, end); fields_.has(winner)) return winner;
    winners.remove_prefix(std::min(end + 1, winners.size()));
  }
  if (!fields_.has(key.name) && !fields_.is_null(key.name) && !key.standin.empty() && fields_.has(key.standin)) {
    return key.standin;
  }
  return key.name;
}

bool ConfigReader::given(std::string_view key) const {
  return fields_.has(place(row(key)));
}

void ConfigReader::fail(std::string_view key, std::string_view expected) {
  const ConfigKey& found = row(key);
  const std::string_view at = place(found);
  if (fields_.has(at) || !is_literal(found.absent)) return fields_.fail(at, expected);
  fields_.fail(at, fmt::format("{} (where it is absent, {}'s default {} counts)", expected, family(), found.absent));
}

std::optional<std::int64_t> ConfigReader::read_integer(std::string_view key) {
  const ConfigKey& found = row(key);
  const std::string_view at = place(found);
  if (fields_.has(at)) {
    std::int64_t value = static_cast<std::int64_t>(found.min);
    fields_.read(at, value, static_cast<std::int64_t>(found.min), static_cast<std::int64_t>(found.max));
    return value;
  }
  if (found.null != KeyNull::kAbsent && fields_.is_null(at)) {
    if (found.null == KeyNull::kRefused) fields_.fail(at, "an integer");
    return std::nullopt;
  }
  if (found.absent == kRequired) fields_.fail(at, "a value");
  if (!is_literal(found.absent)) return std::nullopt;
  if (found.type == KeyType::kSize) defaults_.push_back(fmt::format("{} {}", found.name, found.absent));
  return static_cast<std::int64_t>(number_of(found.absent));
}

std::optional<int> ConfigReader::maybe_integer(std::string_view key) {
  const std::optional<std::int64_t> value = read_integer(key);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

int ConfigReader::integer(std::string_view key) {
  return static_cast<int>(read_integer(key).value_or(static_cast<std::int64_t>(row(key).min)));
}

double ConfigReader::number(std::string_view key) {
  const ConfigKey& found = row(key);
  const std::string_view at = place(found);
  double value = is_literal(found.absent) ? number_of(found.absent) : found.min;
  if (found.absent == kRequired && !fields_.has(at)) fields_.fail(at, "a value");
  fields_.read(at, value, found.min, found.max);
  return value;
}

bool ConfigReader::flag(std::string_view key) {
  const ConfigKey& found = row(key);
  const std::string_view at = place(found);
  bool value = found.absent == "true" && !(found.null == KeyNull::kNone && fields_.is_null(at));
  fields_.read(at, value);
  expect_values(found, at, value ? "true" : "false");
  return value;
}

std::string ConfigReader::text(std::string_view key) {
  const ConfigKey& found = row(key);
  const std::string_view at = place(found);
  if (found.null == KeyNull::kRefused && fields_.is_null(at)) fields_.fail(at, "a string");
  std::string value(is_literal(found.absent) ? found.absent : "");
  fields_.read(at, value);
  expect_values(found, at, value);
  return value;
}

std::vector<std::string> ConfigReader::texts(std::string_view key) {
  std::vector<std::string> values;
  fields_.read(place(row(key)), values);
  return values;
}

std::vector<std::int32_t> ConfigReader::integers(std::string_view key) {
  const ConfigKey& found = row(key);
  std::vector<std::int32_t> values;
  fields_.read(place(found), values, static_cast<std::int32_t>(found.min), static_cast<std::int32_t>(found.max));
  return values;
}

void ConfigReader::expect_values(const ConfigKey& key, std::string_view place, std::string_view found) {
  if (key.values.empty() || has_value(key.values, found)) return;
  fields_.fail(place, values_text(key.values, key.type == KeyType::kText));
}

void ConfigReader::check_fixed_values() {
  for (const std::span<const ConfigKey> keys : {table_.keys, every_familys_keys()}) {
    for (const ConfigKey& key : keys) {
      if (key.values.empty()) continue;
      if (key.type == KeyType::kText) text(key.name);
      if (key.type == KeyType::kFlag) flag(key.name);
    }
  }
  if (const boost::json::value* layers = fields_.find("per_layer_config");
      layers != nullptr && !(layers->is_object() && layers->get_object().empty())) {
    fields_.fail("per_layer_config", "nothing, as layers that differ from each other are not computed");
  }
}

std::vector<std::string> ConfigReader::unknown_keys() const {
  std::vector<std::string> unknown;
  for (const std::string& name : fields_.keys()) {
    const auto knows = [&](std::span<const ConfigKey> keys) {
      return std::ranges::any_of(keys, [&](const ConfigKey& key) {
        return name == key.name || has_value(key.winner, name) || name == key.standin;
      });
    };
    if (!knows(table_.keys) && !knows(every_familys_keys()) && !is_harmless_key(name)) unknown.push_back(name);
  }
  return unknown;
}

std::string table_text(const ConfigTable& table) {
  std::string text = "| key | default | other names, rule |\n|---|---|---|\n";
  for (const ConfigKey& key : table.keys) {
    std::string rule;
    const auto add = [&](const std::string& part) { rule += rule.empty() ? part : "; " + part; };
    std::string winners;
    for (const char c : key.winner) winners += c == '|' ? std::string("`, then `") : std::string(1, c);
    if (!winners.empty()) add(fmt::format("`{}` wins", winners));
    if (!key.standin.empty()) add(fmt::format("else `{}`", key.standin));
    if (!key.values.empty()) add(fmt::format("only {}", values_text(key.values, key.type == KeyType::kText)));
    if (key.null == KeyNull::kNone) add(key.type == KeyType::kFlag ? "null: false" : "null: none");
    if (key.null == KeyNull::kRefused) add("null is refused");
    if (!key.rule.empty()) add(std::string(key.rule));
    const std::string absent = key.absent == kRequired   ? "required"
                               : key.absent == kComputed ? ""
                                                         : std::string(key.absent);
    text += fmt::format("| `{}` | {} | {} |\n", key.name, absent, rule);
  }
  return text;
}

}  // namespace sluice
