// Repository: the files of a model at the hub, as its API lists them, and which of them are needed.
// Thread safety: plain values and pure functions.
// Used by hub.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hub/hub_http.h"
#include "hub/hub_name.h"
#include "sluice/status.h"

namespace sluice {

struct RepositoryFile {
  std::string path = {};
  std::uint64_t bytes = 0;
  std::string digest = {};  // its name in blobs/: SHA-256 in hexadecimal digits, or the SHA-1 of a git blob
  bool is_sha256 = false;
};

struct Repository {
  std::string commit;
  std::vector<RepositoryFile> files;
};

// Reads the API's answer. Refuses, with the reason, what is not such an answer, and every path that leads elsewhere.
Result<Repository> parse_repository(std::string_view json);
Result<Repository> fetch_repository(HubHttp& http, const HubName& name, const HubSettings& settings);

// The files that running the model takes: config, tokenizer, templates and safetensors, or the GGUF files of one
// quantisation. Fails if there are no weights, and with the choices if there are several quantisations.
Result<std::vector<RepositoryFile>> choose_files(const Repository& repository, const HubName& name);

// Picks from paths the GGUF files of the quantisation that the name asks for, the first part first.
Result<std::vector<std::string>> choose_gguf(const std::vector<std::string>& paths, const HubName& name);

}  // namespace sluice
