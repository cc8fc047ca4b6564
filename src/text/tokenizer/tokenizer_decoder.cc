// Used by tokenizer_parser.h.
#include "text/tokenizer/tokenizer_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <utility>

#include "base/utf8.h"
#include "text/bpe/bpe_vocabulary.h"
#include "text/pretokenizer/pretokenizer.h"
#include "text/pretokenizer/sequence_json.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxDecoders = 64;

bool is_one_character(std::string_view text) {
  return !text.empty() && valid_utf8_prefix(text) == text.size() && decode_utf8(text).length == text.size();
}

// The byte of "<0x41>".
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned value = 0;
  const char* end = token.data() + 5;
  const auto [stop, error] = std::from_chars(token.data() + 3, end, value, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return static_cast<char>(value);
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
}

}  // namespace

Result<TokenDecoder> TokenDecoder::from_json(const boost::json::value& value, bool byte_level,
                                             const std::string& what) {
  TokenDecoder result;
  if (!value.is_null()) SLUICE_RETURN_IF_ERROR(result.add(value, what));
  if (!byte_level) {
    if (!value.is_null()) return result;
    return invalid_argument(what +
                            ": expected a decoder, as the pre-tokenizer has no ByteLevel, found null, with which each "
                            "token would be a word of its own");
  }
  const bool fits = std::ranges::all_of(result.steps_, [](const Step& step) { return step.kind == Kind::kByteLevel; });
  if (!fits || (result.steps_.empty() && !value.is_null())) {
    return invalid_argument(what + ": expected ByteLevel, as the pre-tokenizer is ByteLevel, found another kind");
  }
  return result;
}

Status TokenDecoder::add(const boost::json::value& value, const std::string& what) {
  JsonFields fields(value, what);
  std::string type;
  fields.require("type", type);
  SLUICE_RETURN_IF_ERROR(fields.status());
  if (type != "Sequence") return add_step(type, fields, what);
  const auto add_one = [this](const boost::json::value& one, const std::string& name) { return add(one, name); };
  return add_each(fields, "decoders", "an array of decoders", add_one);
}

Status TokenDecoder::add_step(const std::string& type, JsonFields& fields, const std::string& what) {
  static constexpr std::pair<std::string_view, Kind> kKinds[] = {{"ByteLevel", Kind::kByteLevel},
                                                                 {"Metaspace", Kind::kMetaspace},
                                                                 {"Replace", Kind::kReplace},
                                                                 {"ByteFallback", Kind::kByteFallback},
                                                                 {"Strip", Kind::kStrip}};
  if (type == "Fuse") {
    fused_ = true;
    return {};
  }
  const auto* known = std::ranges::find(kKinds, type, &std::pair<std::string_view, Kind>::first);
  if (known == std::end(kKinds)) {
    fields.fail("type", "one of the supported Sequence, ByteLevel, Metaspace, Replace, ByteFallback, Strip, Fuse");
    return fields.status();
  }
  if (fused_ && known->second != Kind::kStrip) {
    return invalid_argument(
        fmt::format("{}: expected nothing but Strip behind Fuse or ByteLevel, found {}", what, type));
  }
  // Neighbouring bytes are one token to what is after ByteFallback.
  const bool of_bytes = std::ranges::find(steps_, Kind::kByteFallback, &Step::kind) != steps_.end();
  if (of_bytes && !fused_ && (known->second == Kind::kByteLevel || known->second == Kind::kStrip)) {
    return invalid_argument(fmt::format("{}: expected no {} directly behind ByteFallback, found one", what, type));
  }
  if (steps_.size() + ends_.size() == kMaxDecoders) {
    return invalid_argument(fmt::format("{}: expected at most {} decoders, found more", what, kMaxDecoders));
  }
  Step step{.kind = known->second, .mark = {}, .pattern = std::nullopt};
  if (step.kind == Kind::kStrip) {
    fields.require("content", step.mark);
    fields.require("start", step.start, std::int64_t{0}, std::int64_t{1} << 20);
    fields.require("stop", step.stop, std::int64_t{0}, std::int64_t{1} << 20);
    if (!is_one_character(step.mark)) fields.fail("content", "one character");
  } else if (step.kind == Kind::kMetaspace) {
    step.mark = "▁";
    std::string scheme = "always";
    bool adds_space = true;
    fields.read("replacement", step.mark);
    fields.read("add_prefix_space", adds_space);
    fields.read("prepend_scheme", scheme);
    step.drops_first = adds_space && scheme != "never";
    if (!is_one_character(step.mark)) fields.fail("replacement", "one character");
  } else if (step.kind == Kind::kReplace) {
    fields.require("content", step.mark);
    JsonFields pattern = fields.child("pattern");
    std::string text;
    const bool literal = pattern.has("String");
    pattern.require(literal ? "String" : "Regex", text);
    SLUICE_RETURN_IF_ERROR(pattern.status());
    Result<SplitRegex> regex = SplitRegex::compile(text, literal);
    if (!regex.ok()) return regex.status().with_context(what + ": key 'pattern'");
    step.pattern = std::move(regex).value();
  }
  SLUICE_RETURN_IF_ERROR(fields.status());
  if (step.kind == Kind::kByteLevel) fused_ = true;  // its bytes make one text
  const bool at_ends = step.kind == Kind::kStrip && fused_;
  (at_ends ? ends_ : steps_).push_back(std::move(step));
  return {};
}

Status TokenDecoder::apply(const Step& step, bool first, RegexScratch& scratch, std::string& token) {
  switch (step.kind) {
    case Kind::kByteLevel: {
      std::string bytes;
      if (append_alphabet_bytes(token, bytes)) token = std::move(bytes);
      return {};
    }
    case Kind::kMetaspace:
      replace_all(token, step.mark, first && step.drops_first ? "" : " ");
      return {};
    case Kind::kByteFallback:
      if (const std::optional<char> byte = byte_of(token)) token.assign(1, *byte);
      return {};
    case Kind::kStrip:
      strip(step, token);
      return {};
    case Kind::kReplace:
      break;
  }
  if (valid_utf8_prefix(token) != token.size()) return {};  // the token is a part of a character
  std::string shape_buffer, out;
  const std::string_view shape = regex_shape(token, shape_buffer);
  SLUICE_RETURN_IF_ERROR(
      step.pattern->for_each_piece(shape, scratch, [&](std::size_t begin, std::size_t end, bool is_match) -> Status {
        out.append(is_match ? std::string_view(step.mark) : std::string_view(token).substr(begin, end - begin));
        return {};
      }));
  token = std::move(out);
  return {};
}

Status TokenDecoder::append_token(std::string_view token, bool first, RegexScratch& scratch, std::string& out) const {
  std::string text(token);
  for (const Step& step : steps_) SLUICE_RETURN_IF_ERROR(apply(step, first, scratch, text));
  out += text;
  return {};
}

bool TokenDecoder::first_differs() const {
  return std::ranges::any_of(steps_, &Step::drops_first);
}

void TokenDecoder::strip(const Step& step, std::string& text) {
  std::size_t begin = 0;
  for (std::int64_t i = 0; i < step.start && std::string_view(text).substr(begin).starts_with(step.mark); ++i) {
    begin += step.mark.size();
  }
  text.erase(0, begin);
  for (std::int64_t i = 0; i < step.stop && text.ends_with(step.mark); ++i) text.resize(text.size() - step.mark.size());
}

void TokenDecoder::strip(std::string& text) const {
  for (const Step& step : ends_) strip(step, text);
}

}  // namespace sluice
