// Used by text/vocabulary_files/tokenizer_companions.cc.
#include "text/tokenizer/special_tokens.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string_view>
#include <utility>

#include "files/json.h"
#include "files/json_fields.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 7> kNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                    "pad_token", "cls_token", "mask_token"};

bool is_standard(std::string_view key) {
  return std::ranges::find(kNames, key) != kNames.end();
}

// Returns the token that a class takes for a name that the files leave out.
std::string_view class_default(TokenizerClass kind, std::string_view name) {
  switch (kind) {
    case TokenizerClass::kQwen2:
      return name == "eos_token" || name == "unk_token" || name == "pad_token" ? "<|endoftext|>" : "";
    case TokenizerClass::kGpt2:
      return name == "bos_token" || name == "eos_token" || name == "unk_token" ? "<|endoftext|>" : "";
    case TokenizerClass::kLlama:
      return name == "unk_token" ? "<unk>" : name == "bos_token" ? "<s>" : name == "eos_token" ? "</s>" : "";
    case TokenizerClass::kBackend:
      return "";
  }
  return "";
}

bool is_token(const json::value& value) {
  return value.is_string() || (value.is_object() && value.get_object().contains("content"));
}

// Finds where a key's value stands: special_tokens_map.json counts only together with a tokenizer_config.json without
// added_tokens_decoder, and goes before it there.
class Names {
 public:
  explicit Names(const TokenizerFiles& files)
      : config_(files.config),
        map_(files.special_tokens_map),
        reads_map_(!files.config.contains("added_tokens_decoder")) {}

  // Null: the key is nowhere; a null value: it is said to be none.
  const json::value* find(std::string_view key, std::string& file) const {
    if (const json::value* value = reads_map_ ? map_.if_contains(key) : nullptr) {
      file = "special_tokens_map.json";
      return value;
    }
    file = "tokenizer_config.json";
    return config_.if_contains(key);
  }

  // Other keys that name tokens ("image_token"), in the order in which they stand.
  std::vector<std::string_view> others() const {
    std::vector<std::string_view> keys;
    const auto add = [&keys](const json::object& object) {
      for (const auto& [key, value] : object) {
        const std::string_view name(key.data(), key.size());
        if (!name.ends_with("_token") || is_standard(name) || !is_token(value)) continue;
        if (std::ranges::find(keys, name) == keys.end()) keys.push_back(name);
      }
    };
    if (reads_map_) add(map_);
    add(config_);
    return keys;
  }

 private:
  const json::object& config_;
  const json::object& map_;
  bool reads_map_;
};

Status add_named(const json::value& value, std::string_view name, const std::string& what, SpecialTokens& out) {
  SLUICE_ASSIGN_OR_RETURN(AddedToken token, read_token(value, what, /*special=*/true));
  if (token.content.empty()) return {};
  out.named.push_back({.name = std::string(name), .token = std::move(token), .by_text = value.is_string()});
  return {};
}

// A list of tokens, or an object that gives them names.
Status read_extra(const json::value& value, const std::string& what, SpecialTokens& out) {
  if (value.is_object()) {
    for (const auto& [key, token] : value.get_object()) {
      SLUICE_RETURN_IF_ERROR(add_named(token, std::string_view(key.data(), key.size()), what, out));
    }
    return {};
  }
  if (!value.is_array()) {
    return invalid_argument(what + ": expected a list of tokens, found " + describe_json(&value));
  }
  for (const json::value& item : value.get_array()) {
    SLUICE_ASSIGN_OR_RETURN(AddedToken token, read_token(item, what, /*special=*/true));
    if (token.content.empty()) continue;
    out.extra.push_back({.name = {}, .token = std::move(token), .by_text = item.is_string()});
  }
  return {};
}

bool is_empty(const json::value* value) {
  if (value == nullptr || value->is_null()) return true;
  if (value->is_array()) return value->get_array().empty();
  return value->is_object() && value->get_object().empty();
}

// The place of the list of further tokens. The list of special_tokens_map.json counts under its old name only where
// tokenizer_config.json has none.
struct ExtraList {
  const json::value* value;
  std::string file, key;
};

std::vector<ExtraList> extra_lists(const TokenizerFiles& files) {
  constexpr const char *kNow = "extra_special_tokens", *kOld = "additional_special_tokens";
  constexpr const char *kConfig = "tokenizer_config.json", *kMap = "special_tokens_map.json";
  const json::value *now = files.config.if_contains(kNow), *old = files.config.if_contains(kOld);
  std::vector<ExtraList> lists;
  if (!is_empty(now)) {
    lists.push_back({now, kConfig, kNow});
  } else if (!is_empty(old)) {
    lists.push_back({old, kConfig, kOld});
  }
  if (files.config.contains("added_tokens_decoder")) return lists;
  const json::value *map_now = files.special_tokens_map.if_contains(kNow),
                    *map_old = files.special_tokens_map.if_contains(kOld);
  if (!is_empty(map_now)) {
    lists.push_back({map_now, kMap, kNow});
  } else if (now == nullptr && old == nullptr && !is_empty(map_old)) {
    lists.push_back({map_old, kMap, kOld});
  }
  return lists;
}

}  // namespace

bool SpecialTokens::has_name_of(const std::string& text) const {
  return std::ranges::any_of(named, [&](const NamedToken& one) { return one.token.content == text; });
}

Result<AddedToken> read_token(const json::value& value, const std::string& what, bool special) {
  AddedToken token;
  token.special = special;
  if (value.is_string()) {
    token.content = std::string_view(value.get_string());
    token.normalized = !special;
    return token;
  }
  if (!is_token(value)) {
    return invalid_argument(what + ": expected the text of a token, or an object with the key 'content', found " +
                            describe_json(&value));
  }
  JsonFields fields(value, what);
  fields.require("content", token.content);
  if (!special) fields.read("special", token.special);
  token.normalized = !token.special;
  fields.read("normalized", token.normalized);
  fields.read("single_word", token.single_word);
  fields.read("lstrip", token.lstrip);
  fields.read("rstrip", token.rstrip);
  SLUICE_RETURN_IF_ERROR(fields.status());
  return token;
}

Result<SpecialTokens> read_special_tokens(const TokenizerFiles& files) {
  const Names names(files);
  SpecialTokens out;
  std::string file;
  const auto what = [&file](std::string_view key) { return file + ": key '" + std::string(key) + "'"; };
  for (const std::string_view name : kNames) {
    const json::value* value = names.find(name, file);
    if (value != nullptr && !value->is_null()) {
      SLUICE_RETURN_IF_ERROR(add_named(*value, name, what(name), out));
    } else if (const std::string_view text = class_default(files.kind, name); value == nullptr && !text.empty()) {
      out.named.push_back(
          {.name = std::string(name), .token = {.content = std::string(text), .special = true}, .by_class = true});
    }
  }
  for (const std::string_view name : names.others()) {
    SLUICE_RETURN_IF_ERROR(add_named(*names.find(name, file), name, what(name), out));
  }
  for (const ExtraList& list : extra_lists(files)) {
    SLUICE_RETURN_IF_ERROR(read_extra(*list.value, list.file + ": key '" + list.key + "'", out));
  }
  return out;
}

Result<json::object> special_tokens(const TokenizerFiles& files) {
  SLUICE_ASSIGN_OR_RETURN(const SpecialTokens tokens, read_special_tokens(files));
  json::object out;
  for (const NamedToken& one : tokens.named) out[one.name] = one.token.content;
  json::array extra;
  for (const NamedToken& one : tokens.extra) extra.emplace_back(one.token.content);
  if (!extra.empty()) out["additional_special_tokens"] = std::move(extra);
  return out;
}

}  // namespace sluice
