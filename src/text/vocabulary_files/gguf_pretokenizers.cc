// Used by text/chat/templates, text/tokenizer and text/vocabulary_files.
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "text/vocabulary_files/gguf_tokenizer.h"

namespace sluice {
namespace {

namespace json = boost::json;

// Cased letters, as DeepSeek-V2's tokenizer.json lists them: neither of one Unicode version nor complete.
constexpr std::string_view kCasedLetters =
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}-\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77})"
    R"(\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D})"
    R"(\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE})"
    R"(\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC})"
    R"(\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E})"
    R"(\x{2183}-\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}-\x{2CF3})"
    R"(\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"
    R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})";

json::value split(std::string_view regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

json::value byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", use_regex}};
}

json::value digits() {
  return {{"type", "Digits"}, {"individual_digits", true}};
}

json::value sequence(json::array parts) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}};
}

// `numbers`: what of a run of digits is one word.
json::value llama3_style(std::string_view numbers) {
  const std::string pattern = R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|)" +
                              std::string(numbers) + R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  return sequence({split(pattern), byte_level(false)});
}

json::value llama_bpe() {
  return llama3_style(R"(\p{N}{1,3})");
}

json::value qwen2() {
  return llama3_style(R"(\p{N})");
}

json::value smollm() {
  return sequence({digits(), byte_level(true)});
}

json::value deepseek_llm() {
  return sequence({split("[\r\n]"), split(R"(\s?[)" + std::string(kCasedLetters) + "]+"),
                   split(R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)"),
                   split(R"(\s+$)"), split(R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"), digits(),
                   byte_level(false)});
}

json::value deepseek_v3() {
  return sequence({split(R"(\p{N}{1,3})"), split(R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"),
                   split(R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
                         R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
                   byte_level(false)});
}

// Chinese characters of every plane, the radicals and iteration marks among them.
constexpr std::string_view kHan =
    R"(\x{2E80}-\x{2E99}\x{2E9B}-\x{2EF3}\x{2F00}-\x{2FD5}\x{3005}\x{3007}\x{3021}-\x{3029}\x{3038}-\x{303B})"
    R"(\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FA6D}\x{FA70}-\x{FAD9}\x{16FE2}-\x{16FE3}\x{16FF0}-\x{16FF1})"
    R"(\x{20000}-\x{2A6DF}\x{2A700}-\x{2B739}\x{2B740}-\x{2B81D}\x{2B820}-\x{2CEA1}\x{2CEB0}-\x{2EBE0})"
    R"(\x{2EBF0}-\x{2EE5D}\x{2F800}-\x{2FA1D}\x{30000}-\x{3134A}\x{31350}-\x{323AF})";

// Letters up to a change of case, with what follows an apostrophe; a run of Chinese characters is a word of its own.
json::value kimi_k2() {
  const std::string letter = "(?![" + std::string(kHan) + "])";
  const std::string upper = "(?:" + letter + R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]))";
  const std::string lower = "(?:" + letter + R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]))";
  const std::string before = R"([^\r\n\p{L}\p{N}]?)", behind = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
  return sequence(
      {split("[" + std::string(kHan) + "]+|" + before + upper + "*" + lower + "+" + behind + "|" + before + upper +
             "+" + lower + "*" + behind + R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
       byte_level(false)});
}

// Mistral's of 2024: letters up to a change of case.
json::value tekken() {
  return sequence({split(R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                         R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
                         R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
                   byte_level(false)});
}

// Marks count as letters.
json::value qwen35() {
  return sequence(
      {split(R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
             R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
       byte_level(false)});
}

// Signs of a line end stay with the next word.
json::value seed_coder() {
  return sequence({split(R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                         R"( ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"),
                   byte_level(false)});
}

json::value deepseek_coder() {
  return sequence({split("[\r\n]"), split(R"(\s?\p{L}+)"), split(R"(\s?\p{P}+)"),
                   split(R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"), digits(), byte_level(false)});
}

json::value gpt2() {
  return byte_level(true);
}

// The pre-tokenizer of files that name none, as it has been since there are names: punctuation and symbols apart, then
// as GPT-2 does, and numbers in threes.
json::value unnamed() {
  return sequence({split(R"([\p{P}\$\+<=>\^~\|]+)"),
                   split(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"),
                   split(R"(\p{N}+)"), split("[0-9][0-9][0-9]"), byte_level(false)});
}

constexpr GgufPretokenizer kLlamaBpe{.pre_tokenizer = llama_bpe, .ignore_merges = true, .add_bos = true};
constexpr GgufPretokenizer kQwen2{.pre_tokenizer = qwen2, .nfc = true};
constexpr GgufPretokenizer kSmollm{.pre_tokenizer = smollm};
constexpr GgufPretokenizer kDeepSeekV3{.pre_tokenizer = deepseek_v3, .add_bos = true};
constexpr GgufPretokenizer kGpt2{.pre_tokenizer = gpt2};
constexpr GgufPretokenizer kUnnamed{.pre_tokenizer = unnamed};

constexpr GgufPretokenizer named(std::string_view name, GgufPretokenizer as) {
  as.name = name;
  return as;
}

constexpr GgufPretokenizer kPretokenizers[] = {
    named("llama-bpe", kLlamaBpe),
    named("llama3", kLlamaBpe),
    named("llama-v3", kLlamaBpe),
    named("falcon3", kLlamaBpe),
    named("pixtral", kLlamaBpe),
    {.name = "smaug-bpe", .pre_tokenizer = llama_bpe},
    named("qwen2", kQwen2),
    named("deepseek-r1-qwen", kQwen2),
    {.name = "megrez", .pre_tokenizer = qwen2},
    {.name = "qwen35", .pre_tokenizer = qwen35, .nfc = true},
    named("smollm", kSmollm),
    named("starcoder", kSmollm),
    named("refact", kSmollm),
    named("codeshell", kSmollm),
    {.name = "deepseek-llm", .pre_tokenizer = deepseek_llm, .add_bos = true},
    {.name = "deepseek-coder", .pre_tokenizer = deepseek_coder, .add_bos = true},
    named("deepseek-v3", kDeepSeekV3),
    {.name = "kimi-k2", .pre_tokenizer = kimi_k2},
    {.name = "tekken", .pre_tokenizer = tekken, .ignore_merges = true, .add_bos = true},
    {.name = "seed-coder", .pre_tokenizer = seed_coder},
    named("gpt-2", kGpt2),
    named("olmo", kGpt2),
    named("mellum", kGpt2),
    named("default", kUnnamed),
};

}  // namespace

const GgufPretokenizer* find_gguf_pretokenizer(std::string_view name) {
  const auto* found = std::ranges::find(kPretokenizers, name, &GgufPretokenizer::name);
  return found == std::end(kPretokenizers) ? nullptr : found;
}

std::string gguf_pretokenizer_names() {
  std::string names;
  for (const GgufPretokenizer& pretokenizer : kPretokenizers) {
    if (!names.empty()) names += ", ";
    names += pretokenizer.name;
  }
  return names;
}

}  // namespace sluice
