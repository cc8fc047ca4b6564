#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <vector>

#include "base/storage/mapped_file.h"
#include "cli/commands/synth_gguf.h"
#include "files/json.h"
#include "text/bpe/bpe_vocabulary.h"

namespace sluice {
namespace {

namespace json = boost::json;

// Values of tokenizer.ggml.token_type.
enum : std::int32_t { kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5 };

struct Vocabulary {
  std::vector<std::string> tokens, merges;  // tokens: "" if the id has no token yet
  std::vector<std::int32_t> types;

  explicit Vocabulary(int size)
      : tokens(static_cast<std::size_t>(size)), types(static_cast<std::size_t>(size), kUnused) {}
  bool put(std::int64_t id, std::string text, std::int32_t type) {
    if (id < 0 || id >= static_cast<std::int64_t>(tokens.size())) return false;
    tokens[static_cast<std::size_t>(id)] = std::move(text);
    types[static_cast<std::size_t>(id)] = type;
    return true;
  }
};

// Begin and end where the config has them; the bytes; then, as far as they fit, pairs of letters.
Status generate(const ModelConfig& config, Vocabulary& vocabulary) {
  vocabulary.put(config.bos_token_id, "<|begin|>", kControl);
  for (const std::int32_t id : config.eos_token_ids) vocabulary.put(id, fmt::format("<|end {}|>", id), kControl);
  std::int64_t next = 0;
  const auto append = [&](const std::string& text) {
    while (next < config.vocab_size && !vocabulary.tokens[static_cast<std::size_t>(next)].empty()) ++next;
    return vocabulary.put(next, text, kNormal);
  };
  for (int byte = 0; byte < 256; ++byte) {
    if (!append(alphabet_character(static_cast<unsigned char>(byte)))) {
      return invalid_argument(fmt::format(
          "expected a vocab_size of at least 258, for the bytes and two special tokens, found {}", config.vocab_size));
    }
  }
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z'; ++b) {
      if (append({a, b})) vocabulary.merges.push_back({a, ' ', b});
    }
  }
  return {};
}

// The members of "model" and "added_tokens". The loader of the file checks their values.
Status read(const std::string& path, Vocabulary& vocabulary) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  SLUICE_ASSIGN_OR_RETURN(const json::value file, parse_json(text, path));
  const auto wrong = [&path](std::string_view expected) {
    return invalid_argument(fmt::format("{}: expected {}", path, expected));
  };
  const json::value* model = file.is_object() ? file.as_object().if_contains("model") : nullptr;
  const json::value* words = model != nullptr && model->is_object() ? model->as_object().if_contains("vocab") : nullptr;
  const json::value* merges = words != nullptr ? model->as_object().if_contains("merges") : nullptr;
  if (merges == nullptr || !words->is_object() || !merges->is_array()) {
    return wrong("a byte-level BPE model with vocab and merges");
  }
  const auto size = vocabulary.tokens.size();
  const auto too_large = [&] { return wrong(fmt::format("ids below the config's vocab_size {}", size)); };
  for (const auto& [word, id] : words->as_object()) {
    if (!id.is_int64() || !vocabulary.put(id.as_int64(), word, kNormal)) return too_large();
  }
  for (const json::value& merge : merges->as_array()) {
    if (merge.is_string()) {
      vocabulary.merges.emplace_back(merge.as_string());
    } else if (merge.is_array() && merge.as_array().size() == 2 && merge.as_array()[0].is_string() &&
               merge.as_array()[1].is_string()) {
      vocabulary.merges.push_back(std::string(merge.as_array()[0].as_string()) + " " +
                                  std::string(merge.as_array()[1].as_string()));
    } else {
      return wrong("merges as pairs of tokens");
    }
  }
  const json::value* added = file.as_object().if_contains("added_tokens");
  if (added == nullptr || !added->is_array()) return {};
  for (const json::value& token : added->as_array()) {
    const json::value *id = nullptr, *content = nullptr, *special = nullptr;
    if (token.is_object()) {
      id = token.as_object().if_contains("id");
      content = token.as_object().if_contains("content");
      special = token.as_object().if_contains("special");
    }
    if (id == nullptr || !id->is_int64() || content == nullptr || !content->is_string()) {
      return wrong("added_tokens with id and content");
    }
    const bool control = special != nullptr && special->is_bool() && special->as_bool();
    if (!vocabulary.put(id->as_int64(), std::string(content->as_string()), control ? kControl : kUserDefined)) {
      return too_large();
    }
  }
  return {};
}

}  // namespace

Status write_vocabulary(const ModelConfig& config, const std::string& tokenizer, std::string_view pretokenizer,
                        GgufEntries& metadata) {
  Vocabulary vocabulary(config.vocab_size);
  SLUICE_RETURN_IF_ERROR(tokenizer.empty() ? generate(config, vocabulary)
                                           : read(tokenizer + "/tokenizer.json", vocabulary));
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.tokens[id].empty()) vocabulary.tokens[id] = fmt::format("[unused {}]", id);
  }
  metadata.str("tokenizer.ggml.model", "gpt2").str("tokenizer.ggml.pre", pretokenizer);
  metadata.texts("tokenizer.ggml.tokens", vocabulary.tokens);
  metadata.i32s("tokenizer.ggml.token_type", vocabulary.types);
  metadata.texts("tokenizer.ggml.merges", vocabulary.merges);
  const auto id = [&](std::string_view key, std::int32_t value) {
    if (value >= 0) metadata.u32(key, static_cast<std::uint32_t>(value));
  };
  id("tokenizer.ggml.bos_token_id", config.bos_token_id);
  if (!config.eos_token_ids.empty()) id("tokenizer.ggml.eos_token_id", config.eos_token_ids.front());
  metadata.boolean("tokenizer.ggml.add_bos_token", config.bos_token_id >= 0);
  return {};
}

}  // namespace sluice
