// tokenizer.json, after a zero byte tokenizer_config.json, and texts encoded by what comes of them. An input that
// begins with "SPM" or "TIK" is a tokenizer.model or a tiktoken.model instead.
#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "files/json.h"
#include "fuzz_target.h"
#include "text/chat/templates/chat_templates.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_parser.h"
#include "text/vocabulary_files/tokenizer_companions.h"
#include "text/vocabulary_files/tokenizer_files.h"

namespace sluice {
namespace {

void check_text(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options) {
  const auto ids = tokenizer.encode(text, options);
  if (!ids.ok()) return fuzz_expect(!ids.status().message().empty(), "an error without a message");
  for (const std::int32_t id : *ids) {
    fuzz_expect(tokenizer.has_token(id) && id < tokenizer.vocab_size(), "encode gave an id that no token has");
  }
  (void)tokenizer.decode(*ids, /*skip_special=*/false);
  (void)tokenizer.decode(*ids, /*skip_special=*/true);
  fuzz_expect(*tokenizer.encode(text, options) == *ids, "the same text gave other ids");
}

// The two files as those of a folder, read by one of the library's classes.
void check_companions(std::string_view text, const boost::json::value& config, std::size_t kind) {
  const auto tokenizer = parse_json(text, "tokenizer.json");
  if (!tokenizer.ok() || !config.is_object()) return;
  TokenizerFiles files;
  files.tokenizer = *tokenizer;
  files.config = files.special_tokens_map = config.get_object();
  files.kind = static_cast<TokenizerClass>(kind % 4);
  const auto merged = merge_tokenizer_files(std::move(files));
  if (!merged.ok()) return fuzz_expect(!merged.status().message().empty(), "an error without a message");
  (void)parse_tokenizer(merged->tokenizer, &merged->config).ok();
}

void check_file(std::string_view name, std::string_view bytes) {
  for (const std::string_view type : {"TikTokenTokenizer", "LlamaTokenizer"}) {
    const auto other = parse_other_tokenizer(name, bytes, "{\"tokenizer_class\": \"" + std::string(type) + "\"}");
    if (!other.ok()) {
      fuzz_expect(!other.status().message().empty(), "an error without a message");
      continue;
    }
    const auto tokenizer =
        Tokenizer::from_json(boost::json::serialize(other->tokenizer), boost::json::serialize(other->config));
    if (tokenizer.ok()) check_text(**tokenizer, "It's  a naïve\n\n 日本語 <s>", {.add_special_tokens = true});
  }
}

void check(std::string_view input) {
  if (input.starts_with("SPM")) return check_file("tokenizer.model", input.substr(3));
  if (input.starts_with("TIK")) return check_file("tiktoken.model", input.substr(3));
  const std::size_t zero = std::min(input.find('\0'), input.size());
  const std::string_view config = input.substr(std::min(zero + 1, input.size()));
  const auto json = parse_json(config, "tokenizer_config.json");
  if (json.ok()) (void)parse_chat_templates(*json, "tokenizer_config.json").ok();
  if (json.ok()) check_companions(input.substr(0, zero), *json, input.size());
  const auto tokenizer = Tokenizer::from_json(input.substr(0, zero), config);
  if (!tokenizer.ok()) return fuzz_expect(!tokenizer.status().message().empty(), "an error without a message");
  for (const bool special : {true, false}) {
    const EncodeOptions options = {.add_special_tokens = special, .parse_special = special};
    check_text(**tokenizer, "It's 12345 o'clock,  naïve  e\u0301\n\n <|end|><think>\t!!  日本語 ", options);
    check_text(**tokenizer, "", options);
    check_text(**tokenizer, std::string(300, 'a') + std::string(100, ' ') + "\xF0\x9F\x91\x8B", options);
    check_text(**tokenizer, input.substr(0, 500), options);
  }
}

}  // namespace

FuzzTarget fuzz_target() {
  FuzzTarget target = {.name = "tokenizer", .check = check};
  for (const char* key : {"version",
                          "added_tokens",
                          "added_tokens_decoder",
                          "additional_special_tokens",
                          "eos_token",
                          "normalizer",
                          "pre_tokenizer",
                          "post_processor",
                          "decoder",
                          "model",
                          "type",
                          "vocab",
                          "merges",
                          "id",
                          "content",
                          "special",
                          "lstrip",
                          "rstrip",
                          "single_word",
                          "normalized",
                          "add_prefix_space",
                          "use_regex",
                          "trim_offsets",
                          "pretokenizers",
                          "normalizers",
                          "processors",
                          "pattern",
                          "Regex",
                          "String",
                          "behavior",
                          "invert",
                          "decoders",
                          "replacement",
                          "prepend_scheme",
                          "merge_ranks",
                          "individual_digits",
                          "single",
                          "pair",
                          "special_tokens",
                          "SpecialToken",
                          "Sequence",
                          "ids",
                          "tokens",
                          "ignore_merges",
                          "byte_fallback",
                          "dropout",
                          "unk_token",
                          "continuing_subword_prefix",
                          "end_of_word_suffix",
                          "fuse_unk",
                          "bos_token",
                          "eos_token",
                          "add_bos_token",
                          "chat_template",
                          "truncation",
                          "padding"}) {
    target.words.push_back('"' + std::string(key) + "\": ");
  }
  for (const char* value : {"\"BPE\"",
                            "\"NFC\"",
                            "\"NFKD\"",
                            "\"Replace\"",
                            "\"Prepend\"",
                            "\"Metaspace\"",
                            "\"Punctuation\"",
                            "\"ByteFallback\"",
                            "\"Fuse\"",
                            "\"Strip\"",
                            "&&[^",
                            "[:alpha:]",
                            "\\\\w",
                            "\\\\b",
                            "\"ByteLevel\"",
                            "\"Split\"",
                            "\"Digits\"",
                            "\"Sequence\"",
                            "\"TemplateProcessing\"",
                            "\"Isolated\"",
                            "\"Removed\"",
                            "\"MergedWithNext\"",
                            "null",
                            "true",
                            "false",
                            "[]",
                            "{}",
                            "\"a b\"",
                            "[\"a\", \"b\"]",
                            ",",
                            "\"Ġ\": 300",
                            "\\\\p{L}",
                            "\\\\p{N}{1,3}",
                            "\\\\s+(?!\\\\S)",
                            "(?i:",
                            "(?=",
                            "(?<=",
                            "[^",
                            "(a+)+$",
                            "(.*)*",
                            "{1,60000}",
                            "|",
                            "\\\\R",
                            "\\\\K",
                            "(?R)",
                            "*+",
                            "\\\\x{10FFFF}",
                            "\\u0000",
                            "<|end|>"}) {
    target.words.emplace_back(value);
  }
  return target;
}

}  // namespace sluice
