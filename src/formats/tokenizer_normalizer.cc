#include "formats/tokenizer_normalizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstdlib>

#include "base/check.h"
#include "formats/json_fields.h"

namespace sluice {
namespace {

// Below U+0300 every character is its own composed form and none combines. U+0300 is CC 80.
bool is_certainly_composed(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}

}  // namespace

Result<TokenizerNormalizer> TokenizerNormalizer::from_json(const boost::json::value& value, const std::string& what) {
  TokenizerNormalizer result;
  if (value.is_null()) return result;
  JsonFields fields(value, what);
  std::string type;
  fields.require("type", type);
  SLUICE_RETURN_IF_ERROR(fields.status());
  if (type == "NFC") {
    result.nfc_ = true;
    return result;
  }
  if (type != "Sequence") {
    fields.fail("type", "one of the supported Sequence, NFC");
    return fields.status();
  }
  const boost::json::value* list = fields.find("normalizers");
  if (list == nullptr || !list->is_array()) {
    fields.fail("normalizers", "an array of normalizers");
    return fields.status();
  }
  for (std::size_t i = 0; i < list->get_array().size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const TokenizerNormalizer part,
                            from_json(list->get_array()[i], fmt::format("{}[{}]", what, i)));
    result.nfc_ = result.nfc_ || part.nfc_;
  }
  return result;
}

std::string_view TokenizerNormalizer::apply(std::string_view text, std::string& buffer) const {
  if (!nfc_ || is_certainly_composed(text)) return text;
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &composed, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  SLUICE_CHECK(length >= 0, "valid UTF-8 can be composed as far as there is memory");
  buffer.assign(reinterpret_cast<const char*>(composed), static_cast<std::size_t>(length));
  std::free(composed);
  return buffer;
}

}  // namespace sluice
