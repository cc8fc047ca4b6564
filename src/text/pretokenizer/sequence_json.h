// The lists of tokenizer.json, whose elements are pre-tokenizers, normalizers or decoders. Thread safety: a pure
// function.
// Used by pretokenizer_json.cc, text/tokenizer/tokenizer_decoder.cc and text/tokenizer/tokenizer_normalizer.cc.
#pragma once

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <string>

#include "files/json_fields.h"
#include "sluice/status.h"

namespace sluice {

// `add` of each element of the list at `key`, which is named what[i] in messages; `expected`: what the list is.
template <class Add>
Status add_each(JsonFields& fields, const char* key, const char* expected, const Add& add) {
  const boost::json::value* list = fields.find(key);
  if (list == nullptr || !list->is_array()) {
    fields.fail(key, expected);
    return fields.status();
  }
  for (std::size_t i = 0; i < list->get_array().size(); ++i) {
    SLUICE_RETURN_IF_ERROR(add(list->get_array()[i], fmt::format("{}[{}]", fields.what(), i)));
  }
  return {};
}

}  // namespace sluice
