// Used by hub.
#include "hub/repository.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <set>
#include <utility>

#include "files/json.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostBytes = 32 << 20, kMostFiles = 100'000;
constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 46;  // 100,000 of them stay below 2^63
constexpr std::size_t kSha1Digits = 40, kSha256Digits = 64;

const json::value* member(const json::value& object, std::string_view key) {
  return object.is_object() ? object.get_object().if_contains(key) : nullptr;
}

// A digest of this number of digits; "" for anything else.
std::string digest_of(const json::value* value, std::size_t digits) {
  if (value == nullptr || !value->is_string()) return "";
  std::string text(value->get_string());
  const bool is_hex =
      std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  return is_hex && text.size() == digits ? text : "";
}

Result<RepositoryFile> parse_file(const json::value& sibling) {
  const json::value* path = member(sibling, "rfilename");
  if (path == nullptr || !path->is_string()) {
    return invalid_argument(fmt::format("rfilename: expected a path, found {}", describe_json(path)));
  }
  RepositoryFile file{.path = std::string(path->get_string())};
  SLUICE_RETURN_IF_ERROR(check_hub_path(file.path));
  const json::value* size = member(sibling, "size");
  if (size == nullptr || !size->is_int64() || size->get_int64() < 0 ||
      static_cast<std::uint64_t>(size->get_int64()) > kMostFileBytes) {
    return invalid_argument(
        fmt::format("{}: size: expected a number of bytes, found {}", file.path, describe_json(size)));
  }
  file.bytes = static_cast<std::uint64_t>(size->get_int64());
  const json::value* lfs = member(sibling, "lfs");
  file.is_sha256 = lfs != nullptr && lfs->is_object();
  file.digest = file.is_sha256 ? digest_of(member(*lfs, "sha256"), kSha256Digits)
                               : digest_of(member(sibling, "blobId"), kSha1Digits);
  if (!file.digest.empty()) return file;
  return invalid_argument(fmt::format("{}: expected {}, found neither that nor another digest to check the bytes by",
                                      file.path, file.is_sha256 ? "lfs.sha256" : "blobId"));
}

}  // namespace

Result<Repository> parse_repository(std::string_view text) {
  SLUICE_ASSIGN_OR_RETURN(const json::value answer, parse_json(text, "the list of files", {.max_depth = 32}));
  Repository repository{.commit = digest_of(member(answer, "sha"), kSha1Digits), .files = {}};
  if (repository.commit.empty()) {
    return invalid_argument(fmt::format("the list of files: sha: expected a commit of 40 digits, found {}",
                                        describe_json(member(answer, "sha"))));
  }
  const json::value* siblings = member(answer, "siblings");
  if (siblings == nullptr || !siblings->is_array() || siblings->get_array().size() > kMostFiles) {
    return invalid_argument(
        fmt::format("the list of files: siblings: expected a list of at most {} files, found {}", kMostFiles,
                    siblings != nullptr && siblings->is_array() ? "more" : describe_json(siblings)));
  }
  std::set<std::string_view> paths;
  repository.files.reserve(siblings->get_array().size());
  for (const json::value& sibling : siblings->get_array()) {
    Result<RepositoryFile> file = parse_file(sibling);
    if (!file.ok()) return file.status().with_context("the list of files");
    repository.files.push_back(std::move(*file));
    if (paths.insert(repository.files.back().path).second) continue;
    return invalid_argument(fmt::format("the list of files: {} is in it twice", repository.files.back().path));
  }
  return repository;
}

Result<Repository> fetch_repository(HubHttp& http, const HubName& name, const HubSettings& settings) {
  std::string revision;
  for (const char c : escape_path(name.revision)) revision += c == '/' ? "%2F" : std::string(1, c);
  SLUICE_ASSIGN_OR_RETURN(
      const WebAddress address,
      parse_web_address(fmt::format("{}/api/models/{}/revision/{}?blobs=true", settings.endpoint, name.id, revision)));
  HubRetries retries;
  for (;;) {
    const HubAnswer answer = http.get({.from = address, .most_bytes = kMostBytes});
    const Status status = explain_answer(answer, name, settings);
    if (!status.ok()) {
      SLUICE_RETURN_IF_ERROR(retries.wait(answer, status, false));
      continue;
    }
    Result<Repository> repository = parse_repository(answer.body);
    if (!repository.ok()) return repository.status().with_context(fmt::format("{}: {}", settings.endpoint, name.id));
    return repository;
  }
}

}  // namespace sluice
