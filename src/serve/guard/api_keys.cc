// Used by access.h, cli/commands/text_commands.h and serve/server.h.
#include "serve/guard/api_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace sluice {
namespace {

Sha256Digest digest_of(std::string_view secret) {
  Sha256 hasher;
  hasher.begin();
  hasher.add(secret.data(), secret.size());
  return hasher.finish();
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
}

bool is_secret(std::string_view text) {
  return !text.empty() && text.size() <= ApiKeys::kMaxSecretBytes &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

Result<std::string> read_key_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found(fmt::format("the file of keys {} cannot be read", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

// Errors must not repeat a secret.
Status ApiKeys::add(std::string_view text, bool is_admin) {
  const std::size_t colon = text.find(':');
  ApiKey key{.name = fmt::format("{}{}", is_admin ? "admin" : "key", keys_.size() + 1), .is_admin = is_admin};
  if (colon != std::string_view::npos) {
    if (!is_name(text.substr(0, colon))) {
      return invalid_argument(
          "a key: expected SECRET or NAME:SECRET, a name of at most 64 letters, digits, -, _ and ., found something "
          "else before the colon");
    }
    key.name = std::string(text.substr(0, colon));
    text.remove_prefix(colon + 1);
  }
  if (!is_secret(text)) {
    return invalid_argument(fmt::format("the key {}: expected a secret of 1 to {} printable characters without spaces",
                                        key.name, kMaxSecretBytes));
  }
  if (keys_.size() >= kMaxKeys) return invalid_argument(fmt::format("keys: expected at most {}", kMaxKeys));
  key.digest = digest_of(text);
  for (const ApiKey& other : keys_) {
    if (other.name == key.name || other.digest == key.digest) {
      return invalid_argument(fmt::format("the keys {} and {}: two keys have the same {}", other.name, key.name,
                                          other.name == key.name ? "name" : "secret"));
    }
  }
  (is_admin ? any_for_admins_ : any_for_users_) = true;
  keys_.push_back(std::move(key));
  return {};
}

Status ApiKeys::add_lines(std::string_view text, bool is_admin) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    constexpr std::string_view kBlank = " \t\r";
    for (std::size_t at = line.find_first_not_of(kBlank); at < line.size() && line[at] != '#';) {
      const std::size_t end = std::min(line.find_first_of(kBlank, at), line.size());
      SLUICE_RETURN_IF_ERROR(add(line.substr(at, end - at), is_admin));
      at = line.find_first_not_of(kBlank, end);
    }
  }
  return {};
}

Result<ApiKeys> ApiKeys::load(const Sources& sources) {
  ApiKeys out;
  for (const bool is_admin : {false, true}) {
    for (const std::string& key : is_admin ? sources.admin_keys : sources.keys) {
      SLUICE_RETURN_IF_ERROR(out.add(key, is_admin));
    }
    SLUICE_RETURN_IF_ERROR(out.add_lines(is_admin ? sources.admin_environment : sources.environment, is_admin));
    const std::string& path = is_admin ? sources.admin_file : sources.file;
    if (path.empty()) continue;
    SLUICE_ASSIGN_OR_RETURN(const std::string text, read_key_file(path));
    const std::size_t before = out.keys_.size();
    if (Status status = out.add_lines(text, is_admin); !status.ok()) return status.with_context(path);
    if (out.keys_.size() == before) {
      return invalid_argument(fmt::format("{}: expected at least one key, found none", path));
    }
  }
  return out;
}

const ApiKey* ApiKeys::find(std::string_view secret) const {
  const Sha256Digest digest = digest_of(secret);
  const ApiKey* found = nullptr;
  for (const ApiKey& key : keys_) {
    unsigned differs = 0;
    for (std::size_t i = 0; i < digest.size(); ++i) differs |= static_cast<unsigned>(digest[i] ^ key.digest[i]);
    found = differs == 0 ? &key : found;
  }
  return found;
}

}  // namespace sluice
