#include "text/tokenizer_normalizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstdlib>

#include "base/check.h"
#include "base/utf8.h"
#include "files/json_fields.h"

namespace sluice {
namespace {

// Below U+0300 every character is its own composed form and none combines. U+0300 is CC 80.
bool is_certainly_composed(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}

// Characters that combine or compose by utf8proc's tables, but were not assigned yet by those of the `tokenizers`
// package (Unicode 9): it leaves them where they are, and nothing moves or composes across them.
struct Range {
  char32_t first, last;
};
constexpr Range kUnassigned[] = {
    {0x07FD, 0x07FD},   {0x0898, 0x089F},   {0x08CA, 0x08D3},   {0x09FE, 0x09FE},   {0x0C3C, 0x0C3C},
    {0x0D3B, 0x0D3C},   {0x0EBA, 0x0EBA},   {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45},
    {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
};

bool is_unassigned(char32_t c) {
  const auto* range =
      std::partition_point(std::begin(kUnassigned), std::end(kUnassigned), [&](const Range& r) { return r.last < c; });
  return range != std::end(kUnassigned) && c >= range->first;
}

// Appends the composed form of `text`.
void compose(std::string_view text, std::string& out) {
  if (is_certainly_composed(text)) {
    out.append(text);
    return;
  }
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &composed, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  SLUICE_CHECK(length >= 0, "valid UTF-8 can be composed as far as there is memory");
  out.append(reinterpret_cast<const char*>(composed), static_cast<std::size_t>(length));
  std::free(composed);
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
  buffer.clear();
  std::size_t done = 0;
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Char next = decode_utf8(text.substr(position));
    const std::size_t end = position + next.length;
    if (is_unassigned(next.code_point)) {
      compose(text.substr(done, position - done), buffer);
      buffer.append(text.substr(position, next.length));
      done = end;
    }
    position = end;
  }
  compose(text.substr(done), buffer);
  return buffer;
}

}  // namespace sluice
