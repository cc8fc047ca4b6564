// Writes tool calls into a prompt as DeepSeek V3.2 and V4 do (docs/models/deepseek_v4.md §14.2); dsml_parser.h reads
// them back. Thread safety: pure functions.
// Used by deepseek_v32_chat.cc and deepseek_v4_chat.cc.
#pragma once

#include <string>
#include <vector>

#include "base/marked_text.h"
#include "text/chat/chat.h"
#include "text/chat/parsers/dsml_parser.h"

namespace sluice {

// A blank line and the block of calls; nothing for none. Arguments that are not JSON become one parameter named
// "arguments"; blank ones are no parameters.
void append_dsml_calls(MarkedText& out, const std::vector<ChatToolCall>& calls, const DsmlBlock& block);

}  // namespace sluice
