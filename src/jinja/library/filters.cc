// Used by jinja and jinja/library.
#include "jinja/library/builtins.h"

namespace sluice::jinja {

const FilterEntry* find_filter(std::string_view name) {
  for (const auto find : {find_text_filter, find_number_filter, find_selection_filter, find_sequence_filter}) {
    if (const FilterEntry* entry = find(name)) return entry;
  }
  return nullptr;
}

}  // namespace sluice::jinja
