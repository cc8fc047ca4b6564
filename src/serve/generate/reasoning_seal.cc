// Used by serve/api/agents/messages_answer.cc, serve/api/agents/messages_request.cc,
// serve/api/agents/responses_answer.cc and serve/api/agents/responses_request.cc.
#include "serve/generate/reasoning_seal.h"

#include "base/sha256.h"

namespace sluice {
namespace {

constexpr std::string_view kName = "slr1.";
constexpr std::size_t kDigits = 32;  // 128 bits

}  // namespace

std::string reasoning_seal(std::string_view text) {
  constexpr std::string_view kPurpose = "sluice reasoning 1\n";
  Sha256 sha;
  sha.begin();
  sha.add(kPurpose.data(), kPurpose.size());
  sha.add(text.data(), text.size());
  return std::string(kName) + to_hex(sha.finish()).substr(0, kDigits);
}

std::string sealed_reasoning(std::string_view text) {
  return reasoning_seal(text) + ":" + std::string(text);
}

bool is_own_seal(std::string_view seal) {
  return seal.starts_with(kName);
}

std::optional<std::string> unsealed_reasoning(std::string_view sealed) {
  const std::size_t end = kName.size() + kDigits;
  if (sealed.size() <= end || sealed[end] != ':') return std::nullopt;
  const std::string_view text = sealed.substr(end + 1);
  if (reasoning_seal(text) != sealed.substr(0, end)) return std::nullopt;
  return std::string(text);
}

}  // namespace sluice
