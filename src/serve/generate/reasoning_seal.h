// The seal of reasoning, which shows that reasoning from a client is what the model wrote: a digest of its text. It is
// made without a secret, so that it holds on every server and after a restart. It finds text that was changed or cut,
// but not a client that makes a digest of its own. Thread safety: pure functions.
// Used by serve/api/agents/messages_answer.cc, serve/api/agents/messages_request.cc,
// serve/api/agents/responses_answer.cc and serve/api/agents/responses_request.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

// "slr1.<32 hexadecimal digits>"
std::string reasoning_seal(std::string_view text);

// The text with its seal in front, for clients that send back one opaque string.
std::string sealed_reasoning(std::string_view text);
// Returns whether a seal, or a sealed text, is of this kind; other servers' signatures are not.
bool is_own_seal(std::string_view seal);
// The text of it; none if the seal is not the text's.
std::optional<std::string> unsealed_reasoning(std::string_view sealed);

}  // namespace sluice
