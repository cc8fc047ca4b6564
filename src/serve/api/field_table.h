// The fields of requests: one table, from which requests are checked (request_fields.h), and what `sluice api` and
// GET /openapi.json write is made (api_document.h).
//
// A field is named by its path: "temperature", "stream_options.include_usage", "messages[].role". Thread safety: const.
// Used by api_document.cc and request_fields.h.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

enum FieldPlaces : unsigned {
  kInChat = 1,
  kInCompletion = 2,
  kInBoth = 3,
  kInResponses = 1 << 8,
  kInMessages = 1 << 9,
  kInCount = 1 << 10,
  kInTokenize = 1 << 11,
  kInDetokenize = 1 << 12,
  kInScore = 1 << 13,
};

enum class FieldType : std::uint8_t {
  kNumber,   // from low to high
  kInteger,  // from low to high
  kBits64,   // any integer of 64 bits
  kBoolean,
  kString,
  kStrings,   // a string, or an array of at most `high` that are not empty
  kTokenIds,  // an array of at most `high`
  kObject,
  kArray,
  kAny,
};

enum class FieldUse : std::uint8_t {
  kRead,     // has the effect that the table says
  kIgnored,  // known, and nothing that could have an effect here
  kOnly,     // its effect is missing: only the value `text`, JSON, is accepted, which asks for nothing, and empty ones
};

struct Field {
  std::string_view name;
  unsigned places = kInBoth;
  FieldUse use = FieldUse::kRead;
  FieldType type = FieldType::kAny;
  double low = 0, high = 0;
  std::string_view preset =
      {};  // the value that holds where it is absent; "": nothing. For kOnly: the field to use instead
  std::string_view text = {};  // the effect, in Markdown; of kOnly the one value

  // Returns whether "", [] and {} say something here. They count as absent in all other fields at the top of a body.
  bool empty_counts() const;
  std::string expected() const;  // "a number from 0 to 2": for messages
  std::string range() const;     // "0…2": for the document
};

std::span<const Field> request_fields();
// Returns the fields of one call.
std::vector<const Field*> fields_of(FieldPlaces place);
// Returns nullptr if the call has no such field. `path` may have numbers in its brackets.
const Field* find_field(FieldPlaces place, std::string_view path);

}  // namespace sluice
