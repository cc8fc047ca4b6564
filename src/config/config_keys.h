// The keys of config.json, one table a family (config_keys_*.cc, docs/models/config_keys.md): the default, the other
// places of a value, the place that wins, and the values that it must agree with. The defaults are those of the
// transformers library. ConfigReader reads by the table alone: reading a key that no table has is a bug.
// Thread safety: constants; a reader is a local object.
// Used by config.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/json_fields.h"
#include "sluice/status.h"

namespace sluice {

enum class KeyNull {
  kAbsent,   // the same as an absent key
  kNone,     // no value; for a flag false
  kRefused,  // the library fails
};

enum class KeyType {
  kSize,     // an integer that shapes tensors
  kInteger,  // any other
  kNumber,
  kFlag,
  kText,
  kTexts,     // a list
  kIntegers,  // a list
  kOther,     // read by a function of its own
};

struct ConfigKey {
  std::string_view name;
  KeyType type = KeyType::kOther;
  std::string_view absent = {};   // the default; kRequired; kComputed: the family's code says what follows
  double min = 0, max = 0;        // bounds of numbers, inclusive
  std::string_view winner = {};   // other names of the key, "a|b"; the first that is there counts
  std::string_view standin = {};  // a name that counts if the key is absent
  std::string_view values = {};   // the only supported texts (or flag), "a|b"
  std::string_view rule = {};     // values that it must agree with, for the documentation
  KeyNull null = KeyNull::kAbsent;
};

inline constexpr std::string_view kRequired = "(required)", kComputed = "(computed)";

// A family's own keys; those of every family are in every_familys_keys().
struct ConfigTable {
  std::string_view family;  // model_type
  std::span<const ConfigKey> keys;
};

extern const ConfigTable kLlamaTable, kMistralTable, kQwen2Table, kQwen3Table, kQwen3MoeTable;
extern const ConfigTable kDeepSeekV2Table, kDeepSeekV3Table, kDeepSeekV32Table, kDeepSeekV4Table;
std::span<const ConfigKey> every_familys_keys();
// Keys that say nothing about what a model computes: metadata, training, generation.
bool is_harmless_key(std::string_view key);

// The table as Markdown, a row a key.
std::string table_text(const ConfigTable& table);

class ConfigReader {
 public:
  ConfigReader(JsonFields& fields, const ConfigTable& table) : fields_(fields), table_(table) {}

  JsonFields& fields() { return fields_; }
  const Status& status() const { return fields_.status(); }
  std::string_view family() const { return table_.family; }

  // The value of a key of the table, else its default. After a failure: some value of the type.
  int integer(std::string_view key);
  double number(std::string_view key);
  bool flag(std::string_view key);
  std::string text(std::string_view key);
  std::vector<std::string> texts(std::string_view key);
  std::vector<std::int32_t> integers(std::string_view key);
  // No value for a null that means none, and for a default that is kComputed or "none".
  std::optional<int> maybe_integer(std::string_view key);

  // Returns whether the config has the key, under any of its names.
  bool given(std::string_view key) const;
  // Records a failure that the caller found. If the config does not have the key, the message gives the default.
  void fail(std::string_view key, std::string_view expected);
  // Refuses values of `values` columns that nothing above has read.
  void check_fixed_values();
  // Keys of the config that neither table nor list knows.
  std::vector<std::string> unknown_keys() const;
  // "head_dim 128": the sizes that were not given.
  const std::vector<std::string>& defaults() const { return defaults_; }

 private:
  const ConfigKey& row(std::string_view key) const;
  std::string_view place(const ConfigKey& key) const;  // the name under which it counts
  void expect_values(const ConfigKey& key, std::string_view place, std::string_view found);
  std::optional<std::int64_t> read_integer(std::string_view key);

  JsonFields& fields_;
  const ConfigTable& table_;
  std::vector<std::string> defaults_;
};

}  // namespace sluice
