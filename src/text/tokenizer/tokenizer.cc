// Used by cli, serve and text.
#include "text/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "base/threads/mutex.h"
#include "base/utf8.h"
#include "files/json.h"
#include "files/model_path.h"
#include "text/tokenizer/tokenizer_parser.h"
#include "text/vocabulary_files/gguf_tokenizer.h"
#include "text/vocabulary_files/tokenizer_companions.h"
#include "text/vocabulary_files/tokenizer_files.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxTextBytes = std::numeric_limits<std::int32_t>::max();

}  // namespace

// The memory that one call of encode needs for itself. It is kept for later calls, with its cache of words.
struct Tokenizer::Scratch {
  PretokenizerScratch pretokenizer;
  BpeScratch bpe;
  NormalizerScratch normalizer;
};

struct Tokenizer::State {
  TokenizerParts parts;
  Mutex mutex;
  std::vector<std::unique_ptr<Scratch>> idle SLUICE_GUARDED_BY(mutex);  // at most as many as ever encoded at once
};

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

namespace {

// Reads the parts from tokenizer.model or tiktoken.model. special_tokens_map.json counts where tokenizer_config.json
// says nothing.
Result<TokenizerParts> read_other_parts(const std::string& folder) {
  SLUICE_ASSIGN_OR_RETURN(TokenizerFiles files, read_tokenizer_files(folder, /*with_vocabulary=*/false));
  for (const auto& [key, value] : files.special_tokens_map) {
    if (!files.config.contains(key)) files.config[key] = value;
  }
  SLUICE_ASSIGN_OR_RETURN(const auto other, read_other_tokenizer(folder, dump_json(files.config)));
  if (!other) return not_found("expected a tokenizer.json, found none");
  return parse_tokenizer(other->tokenizer, &other->config);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::string& folder) {
  if (is_gguf_path(folder)) {
    SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<GgufModel> model, GgufModel::open(folder));
    return from_gguf(*model);
  }
  const auto read = [&]() -> Result<TokenizerParts> {
    if (has_other_tokenizer(folder) && !has_json_tokenizer(folder)) return read_other_parts(folder);
    SLUICE_ASSIGN_OR_RETURN(TokenizerFiles files, read_tokenizer_files(folder));
    SLUICE_ASSIGN_OR_RETURN(const MergedTokenizer merged, merge_tokenizer_files(std::move(files)));
    return parse_tokenizer(merged.tokenizer, &merged.config);
  };
  auto state = std::make_unique<State>();
  Result<TokenizerParts> parts = read();
  if (!parts.ok()) return parts.status().with_context(folder);
  state->parts = std::move(parts).value();
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(state)));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view text, std::string_view config_text) {
  auto state = std::make_unique<State>();
  SLUICE_ASSIGN_OR_RETURN(state->parts, parse_tokenizer(text, config_text));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(state)));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_gguf(const GgufModel& model) {
  SLUICE_ASSIGN_OR_RETURN(const GgufTokenizerJson json, gguf_tokenizer_json(model));
  auto state = std::make_unique<State>();
  Result<TokenizerParts> parts = parse_tokenizer(json.tokenizer, &json.config);
  if (!parts.ok()) return parts.status().with_context(model.path() + " (as tokenizer.json)");
  state->parts = std::move(parts).value();
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(state)));
}

// Where special tokens may be found, and the function that each of them is passed to.
struct Tokenizer::Search {
  const MarkedText* marks = nullptr;  // the text's marks; none: everywhere
  std::function<void(std::size_t offset, std::size_t index)> on_token = [](std::size_t, std::size_t) {};
};

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  return encode(text, options, Search());
}

Result<EncodedText> Tokenizer::encode(const MarkedText& text, std::span<const std::size_t> places) const {
  EncodedText out;
  const auto note = [&](std::size_t offset, std::size_t index) {
    if (!std::ranges::binary_search(places, offset)) return;
    out.places.push_back(static_cast<std::int32_t>(index));
  };
  SLUICE_ASSIGN_OR_RETURN(out.ids, encode(text.bytes, EncodeOptions(), {.marks = &text, .on_token = note}));
  return out;
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options,
                                                    const Search& search) const {
  if (const std::size_t valid = valid_utf8_prefix(text); valid != text.size()) {
    return invalid_argument(fmt::format("text: expected valid UTF-8, found byte 0x{:02X} at offset {} of {}",
                                        static_cast<unsigned char>(text[valid]), valid, text.size()));
  }
  if (text.size() > kMaxTextBytes) {
    return invalid_argument(fmt::format("text: expected at most {} bytes, found {}", kMaxTextBytes, text.size()));
  }
  std::unique_ptr<Scratch> scratch;
  {
    const MutexLock lock(state_->mutex);
    if (!state_->idle.empty()) {
      scratch = std::move(state_->idle.back());
      state_->idle.pop_back();
    }
  }
  if (scratch == nullptr) scratch = std::make_unique<Scratch>();
  std::vector<std::int32_t> ids;
  const TokenizerParts& parts = state_->parts;
  if (options.add_special_tokens) ids = parts.prefix;
  Status status = parts.raw_tokens.split(
      text, options.parse_special, search.marks,
      [&](std::string_view part) {
        // Marks are those of the text before it is normalized, so a client's byte anywhere in the part counts.
        const auto begin = static_cast<std::size_t>(part.data() - text.data());
        const bool is_own = search.marks == nullptr || search.marks->is_own(begin, begin + part.size());
        return encode_part(part, begin == 0, options.parse_special && is_own, *scratch, ids);
      },
      [&](std::int32_t id, std::size_t offset) {
        if (is_special(id)) search.on_token(offset, ids.size());
        ids.push_back(id);
      });
  if (options.add_special_tokens) ids.insert(ids.end(), parts.suffix.begin(), parts.suffix.end());
  const MutexLock lock(state_->mutex);
  state_->idle.push_back(std::move(scratch));
  if (!status.ok()) return status;
  return ids;
}

// A part of the text without raw added tokens.
Status Tokenizer::encode_part(std::string_view text, bool at_start, bool parse_special, Scratch& scratch,
                              std::vector<std::int32_t>& out) const {
  const TokenizerParts& parts = state_->parts;
  SLUICE_ASSIGN_OR_RETURN(const std::string_view normalized, parts.normalizer.apply(text, scratch.normalizer));
  return parts.normalized_tokens.split(
      normalized, parse_special, /*marks=*/nullptr,
      [&](std::string_view part) {
        const auto begin = static_cast<std::size_t>(part.data() - normalized.data());
        const std::optional<std::size_t> inserted = at_start ? scratch.normalizer.inserted : std::nullopt;
        return encode_words(part, inserted && begin <= *inserted ? std::optional(*inserted - begin) : std::nullopt,
                            scratch, out);
      },
      [&](std::int32_t id, std::size_t /*offset*/) { out.push_back(id); });
}

// A part of the normalized text without any added token.
Status Tokenizer::encode_words(std::string_view text, std::optional<std::size_t> inserted, Scratch& scratch,
                               std::vector<std::int32_t>& out) const {
  const Bpe& bpe = *state_->parts.bpe;
  return state_->parts.pretokenizer->split(text, inserted, scratch.pretokenizer,
                                           [&](std::string_view word) { bpe.encode_word(word, scratch.bpe, out); });
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  const TokenizerParts& parts = state_->parts;
  std::string text;
  bool at_start = true;
  for (const std::int32_t id : ids) {
    if ((skip_special && is_special(id)) || !has_token(id)) continue;
    const auto first = at_start ? parts.first_spellings.find(id) : parts.first_spellings.end();
    text.append(first != parts.first_spellings.end() ? first->second : token_bytes(id));
    at_start = false;
  }
  parts.decoder.strip(text);
  return text;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  const TokenizerParts& parts = state_->parts;
  if (parts.spellings != nullptr) return parts.spellings->bytes(id);
  // An added token stands for its text even where that could be read as an alphabet of bytes.
  if (const auto added = parts.added_by_id.find(id); added != parts.added_by_id.end()) {
    if (const auto text = parts.added_texts.find(id); text != parts.added_texts.end()) return text->second;
    return parts.added_tokens[added->second].content;
  }
  return parts.vocabulary->bytes(id);
}

std::optional<std::int32_t> Tokenizer::token_to_id(std::string_view text) const {
  const TokenizerParts& parts = state_->parts;
  if (const auto added = parts.added_by_content.find(text); added != parts.added_by_content.end()) {
    return parts.added_tokens[added->second].id;
  }
  const std::int32_t id = (parts.spellings != nullptr ? parts.spellings : parts.vocabulary)->find(text);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

std::int32_t Tokenizer::vocab_size() const {
  return state_->parts.vocabulary->size();
}

bool Tokenizer::has_token(std::int32_t id) const {
  return state_->parts.vocabulary->has_id(id);
}

bool Tokenizer::is_special(std::int32_t id) const {
  const TokenizerParts& parts = state_->parts;
  const auto added = parts.added_by_id.find(id);
  return added != parts.added_by_id.end() && parts.added_tokens[added->second].special;
}

std::optional<std::int32_t> Tokenizer::bos_id() const {
  return state_->parts.bos;
}
std::optional<std::int32_t> Tokenizer::eos_id() const {
  return state_->parts.eos;
}

}  // namespace sluice
