#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "files/json_fields.h"
#include "text/bpe/bpe_vocabulary.h"
#include "text/tokenizer/tokenizer_parser.h"

namespace sluice {
namespace {

using IsToken = std::function<bool(std::int32_t)>;

// The ids of one {"SpecialToken": {"id": NAME}} of a template, by way of special_tokens[NAME].ids.
Status read_special_token(const boost::json::value& item, const std::string& what, const JsonFields& specials,
                          const IsToken& is_token, std::vector<std::int32_t>& ids) {
  JsonFields fields(item, what);
  std::string name;
  fields.require("id", name);
  SLUICE_RETURN_IF_ERROR(fields.status());
  JsonFields special = specials.child(name);
  std::vector<std::int32_t> found;
  special.require("ids", found, 0, kMaxTokenId);
  for (const std::int32_t id : found) {
    if (special.status().ok() && !is_token(id)) special.fail("ids", "ids of tokens");
  }
  SLUICE_RETURN_IF_ERROR(special.status());
  ids.insert(ids.end(), found.begin(), found.end());
  return {};
}

Status read_template(JsonFields& fields, const std::string& what, const IsToken& is_token,
                     std::vector<std::int32_t>& prefix, std::vector<std::int32_t>& suffix) {
  const boost::json::value* items = fields.find("single");
  if (items == nullptr || !items->is_array()) {
    fields.fail("single", "an array of SpecialToken and Sequence");
    return fields.status();
  }
  const JsonFields specials = fields.child("special_tokens");
  SLUICE_RETURN_IF_ERROR(specials.status());
  bool sequence_seen = false;
  for (std::size_t i = 0; i < items->get_array().size(); ++i) {
    const std::string item_name = fmt::format("{}: key 'single'[{}]", what, i);
    JsonFields item(items->get_array()[i], item_name);
    SLUICE_RETURN_IF_ERROR(item.status());
    if (item.has("Sequence") && !sequence_seen) {
      sequence_seen = true;
    } else if (const boost::json::value* special = item.find("SpecialToken"); special != nullptr) {
      SLUICE_RETURN_IF_ERROR(
          read_special_token(*special, item_name, specials, is_token, sequence_seen ? suffix : prefix));
    } else {
      return invalid_argument(item_name + ": expected a SpecialToken, or the only Sequence, found neither");
    }
  }
  if (!sequence_seen) fields.fail("single", "an array with a Sequence");
  return fields.status();
}

// The id of "sep" or "cls": [TEXT, ID].
Status read_pair(JsonFields& fields, std::string_view key, const IsToken& is_token, std::vector<std::int32_t>& ids) {
  const boost::json::value* pair = fields.find(key);
  const bool well_formed =
      pair != nullptr && pair->is_array() && pair->get_array().size() == 2 && pair->get_array()[1].is_int64();
  const std::int64_t id = well_formed ? pair->get_array()[1].get_int64() : -1;
  const bool known = id >= 0 && id <= kMaxTokenId && is_token(static_cast<std::int32_t>(id));
  if (!known) fields.fail(key, "a pair of a token's text and id");
  SLUICE_RETURN_IF_ERROR(fields.status());
  ids.push_back(static_cast<std::int32_t>(id));
  return {};
}

}  // namespace

Status parse_post_processor(const boost::json::value& value, const std::string& what, const IsToken& is_token,
                            std::vector<std::int32_t>& prefix, std::vector<std::int32_t>& suffix) {
  if (value.is_null()) return {};
  JsonFields fields(value, what);
  std::string type;
  fields.require("type", type);
  SLUICE_RETURN_IF_ERROR(fields.status());
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") {
    // A later template goes around what an earlier one made.
    std::vector<std::int32_t> before, behind;
    SLUICE_RETURN_IF_ERROR(read_template(fields, what, is_token, before, behind));
    prefix.insert(prefix.begin(), before.begin(), before.end());
    suffix.insert(suffix.end(), behind.begin(), behind.end());
    return {};
  }
  if (type == "RobertaProcessing" || type == "BertProcessing") {
    std::vector<std::int32_t> before, behind;
    SLUICE_RETURN_IF_ERROR(read_pair(fields, "cls", is_token, before));
    SLUICE_RETURN_IF_ERROR(read_pair(fields, "sep", is_token, behind));
    prefix.insert(prefix.begin(), before.begin(), before.end());
    suffix.insert(suffix.end(), behind.begin(), behind.end());
    return {};
  }
  const boost::json::value* list = fields.find("processors");
  if (type != "Sequence" || list == nullptr || !list->is_array()) {
    fields.fail(
        "type",
        "one of the supported ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing, Sequence (with an "
        "array 'processors')");
    return fields.status();
  }
  for (std::size_t i = 0; i < list->get_array().size(); ++i) {
    SLUICE_RETURN_IF_ERROR(
        parse_post_processor(list->get_array()[i], fmt::format("{}[{}]", what, i), is_token, prefix, suffix));
  }
  return {};
}

}  // namespace sluice
