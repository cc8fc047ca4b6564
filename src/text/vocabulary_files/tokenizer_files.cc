// Used by text/tokenizer/tokenizer.cc and tokenizer_companion_files.cc.
#include "text/vocabulary_files/tokenizer_files.h"

#include <array>
#include <filesystem>

#include "base/storage/mapped_file.h"
#include "files/json.h"
#include "text/vocabulary_files/sentencepiece_file.h"
#include "text/vocabulary_files/tiktoken_file.h"

namespace sluice {
namespace {

constexpr std::string_view kSentencePiece = "tokenizer.model", kTiktoken = "tiktoken.model";
constexpr std::array<std::string_view, 2> kOthers = {kSentencePiece, kTiktoken};

}  // namespace

bool has_other_tokenizer(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path path(folder);
  for (const std::string_view name : kOthers) {
    if (std::filesystem::exists(path / name, error)) return true;
  }
  return false;
}

Result<OtherTokenizer> parse_other_tokenizer(std::string_view name, std::string_view bytes,
                                             std::string_view config_text) {
  boost::json::value config = boost::json::object();
  if (!config_text.empty()) {
    SLUICE_ASSIGN_OR_RETURN(config, parse_json(config_text, "tokenizer_config.json"));
  }
  if (!config.is_object()) return invalid_argument("tokenizer_config.json: expected an object, found something else");
  OtherTokenizer out;
  if (name == kTiktoken) {
    SLUICE_ASSIGN_OR_RETURN(out.tokenizer, tiktoken_tokenizer_json(bytes, config.get_object()));
  } else {
    SLUICE_ASSIGN_OR_RETURN(const SentencePieceFile file, parse_sentencepiece(bytes));
    SLUICE_ASSIGN_OR_RETURN(out.tokenizer, sentencepiece_tokenizer_json(file, config.get_object()));
  }
  out.config = std::move(config);
  return out;
}

Result<std::optional<OtherTokenizer>> read_other_tokenizer(const std::string& folder, std::string_view config_text) {
  for (const std::string_view name : kOthers) {
    const Result<std::string> bytes = read_text_file((std::filesystem::path(folder) / name).string());
    if (!bytes.ok()) {
      if (bytes.status().code() == StatusCode::kNotFound) continue;
      return bytes.status();
    }
    SLUICE_ASSIGN_OR_RETURN(OtherTokenizer other, parse_other_tokenizer(name, *bytes, config_text));
    return std::optional(std::move(other));
  }
  return std::optional<OtherTokenizer>();
}

}  // namespace sluice
