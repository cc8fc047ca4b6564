// ApiKeys: who may use the server, and who may look into it.
//
// A key has a name, which logs and metrics show, and a secret, of which only a digest is kept. One presented is
// compared with all of them in a time that depends on its own length alone. Thread safety: const after it is made.
// Used by access.h, cli/commands/text_commands.h and serve/server.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "sluice/status.h"

namespace sluice {

struct ApiKey {
  std::string name;
  Sha256Digest digest{};
  bool is_admin = false;  // the key also opens /debug
};

class ApiKeys {
 public:
  static constexpr std::size_t kMaxKeys = 10'000, kMaxSecretBytes = 512;

  // The places that keys come from. Each key is SECRET or NAME:SECRET. A file has one key a line and # before comments;
  // an environment variable has several with white space between. Keys without a name are called key1, key2, ...
  // (admin1, ...).
  struct Sources {
    std::vector<std::string> keys = {}, admin_keys = {};
    std::string file = {}, admin_file = {};                // "": none
    std::string environment = {}, admin_environment = {};  // the values of SLUICE_API_KEY and SLUICE_ADMIN_KEY
  };
  static Result<ApiKeys> load(const Sources& sources);

  bool any() const { return !keys_.empty(); }
  bool any_for_users() const { return any_for_users_; }
  bool any_for_admins() const { return any_for_admins_; }
  const ApiKey* find(std::string_view secret) const;

 private:
  Status add(std::string_view text, bool is_admin);
  Status add_lines(std::string_view text, bool is_admin);

  std::vector<ApiKey> keys_;
  bool any_for_users_ = false, any_for_admins_ = false;
};

}  // namespace sluice
