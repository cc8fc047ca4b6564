// A request as the variables of a chat template, in the forms that `transformers` passes them.
// Thread safety: pure functions.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>

#include "text/chat.h"

namespace sluice {

// Where templates differ in what they take.
struct TemplateForms {
  enum class NoContent : std::uint8_t { kAbsent, kNull, kEmpty };  // of a message without content
  bool arguments_as_text = false;  // of a tool call: the JSON text instead of the object
  bool parts_as_list = false;      // a content of several parts: the list instead of one text
  NoContent no_content = NoContent::kAbsent;

  bool operator==(const TemplateForms&) const = default;
};

boost::json::array template_messages(const std::vector<ChatMessage>& messages, const TemplateForms& forms);

// All variables of a request: messages, tools, add_generation_prompt, and what it sets by name. `thinking` is also
// `enable_thinking`, and the reverse.
boost::json::object template_variables(const ChatRequest& request, const TemplateForms& forms);

}  // namespace sluice
