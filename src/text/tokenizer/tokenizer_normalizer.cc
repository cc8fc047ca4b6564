// Used by tokenizer_parser.h and tokenizer_unicode.cc.
#include "text/tokenizer/tokenizer_normalizer.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "base/utf8.h"
#include "text/pretokenizer/pretokenizer.h"
#include "text/pretokenizer/sequence_json.h"
#include "text/tokenizer/tokenizer_added_tokens.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxNormalizers = 64;

void take_from_start(std::size_t bytes, std::optional<std::size_t>& inserted) {
  if (!inserted) return;
  inserted = bytes <= *inserted ? std::optional(*inserted - bytes) : std::nullopt;
}

}  // namespace

Result<TokenizerNormalizer> TokenizerNormalizer::from_json(const boost::json::value& value, const std::string& what) {
  TokenizerNormalizer result;
  if (!value.is_null()) SLUICE_RETURN_IF_ERROR(result.add(value, what));
  return result;
}

Status TokenizerNormalizer::add(const boost::json::value& value, const std::string& what) {
  JsonFields fields(value, what);
  std::string type;
  fields.require("type", type);
  SLUICE_RETURN_IF_ERROR(fields.status());
  if (type != "Sequence") return add_step(type, fields, what);
  const auto add_one = [this](const boost::json::value& one, const std::string& name) { return add(one, name); };
  return add_each(fields, "normalizers", "an array of normalizers", add_one);
}

Status TokenizerNormalizer::add_step(const std::string& type, JsonFields& fields, const std::string& what) {
  static constexpr std::pair<std::string_view, Kind> kKinds[] = {{"NFC", Kind::kNfc},
                                                                 {"NFD", Kind::kNfd},
                                                                 {"NFKC", Kind::kNfkc},
                                                                 {"NFKD", Kind::kNfkd},
                                                                 {"Lowercase", Kind::kLowercase},
                                                                 {"StripAccents", Kind::kStripAccents},
                                                                 {"Strip", Kind::kStrip},
                                                                 {"Replace", Kind::kReplace},
                                                                 {"Prepend", Kind::kPrepend}};
  const auto* known = std::ranges::find(kKinds, type, &std::pair<std::string_view, Kind>::first);
  if (known == std::end(kKinds)) {
    fields.fail(
        "type",
        "one of the supported Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace, Prepend");
    return fields.status();
  }
  if (steps_.size() == kMaxNormalizers) {
    return invalid_argument(fmt::format("{}: expected at most {} normalizers, found more", what, kMaxNormalizers));
  }
  Step step{.kind = known->second, .pattern = std::nullopt, .content = {}};
  if (step.kind == Kind::kStrip) {
    step.left = step.right = true;
    fields.read("strip_left", step.left);
    fields.read("strip_right", step.right);
  }
  if (step.kind == Kind::kPrepend) fields.require("prepend", step.content);
  if (step.kind == Kind::kReplace) {
    fields.require("content", step.content);
    JsonFields pattern = fields.child("pattern");
    std::string text;
    const bool literal = pattern.has("String");
    pattern.require(literal ? "String" : "Regex", text);
    SLUICE_RETURN_IF_ERROR(fields.status());
    SLUICE_RETURN_IF_ERROR(pattern.status());
    Result<SplitRegex> regex = SplitRegex::compile(text, literal);
    if (!regex.ok()) return regex.status().with_context(what + ": key 'pattern'");
    step.pattern = std::move(regex).value();
    if (step.pattern->matches_empty()) pattern.fail("Regex", "a pattern that cannot match the empty text");
    SLUICE_RETURN_IF_ERROR(pattern.status());
  }
  SLUICE_RETURN_IF_ERROR(fields.status());
  steps_.push_back(std::move(step));
  return {};
}

// Writes what `step` makes of `text` into scratch.next; false if it changes nothing.
Result<bool> TokenizerNormalizer::apply_step(const Step& step, std::string_view text, NormalizerScratch& scratch) {
  std::string& out = scratch.next;
  out.clear();
  const bool composed = step.kind == Kind::kNfc || step.kind == Kind::kNfkc;
  switch (step.kind) {
    case Kind::kNfc:
    case Kind::kNfd:
    case Kind::kNfkc:
    case Kind::kNfkd: {
      const bool compatible = step.kind == Kind::kNfkc || step.kind == Kind::kNfkd;
      if (is_certainly_normal(text, composed && !compatible)) return false;
      append_normal_form(text, compatible, composed, out);
      if (scratch.inserted == 0 && !text.empty()) {  // all that the first character becomes begins where it did
        std::string first;
        append_normal_form(text.substr(0, decode_utf8(text).length), compatible, composed, first);
        scratch.inserted = first.size() - 1;
      }
      return true;
    }
    case Kind::kLowercase:
      append_lowercase(text, out);
      return true;
    case Kind::kStripAccents:
      append_without_accents(text, out);
      return true;
    case Kind::kStrip:
      if (step.left) take_from_start(text.size() - strip_white_space(text, true, false).size(), scratch.inserted);
      out = strip_white_space(text, step.left, step.right);
      return true;
    case Kind::kPrepend:
      if (text.empty()) return false;
      out.append(step.content).append(text);
      if (scratch.inserted) *scratch.inserted += step.content.size();
      return true;
    case Kind::kReplace:
      break;
  }
  const std::optional<std::size_t> before = scratch.inserted;
  const std::string_view shape = regex_shape(text, scratch.shape);
  SLUICE_RETURN_IF_ERROR(step.pattern->for_each_piece(
      shape, scratch.regex, [&](std::size_t begin, std::size_t end, bool is_match) -> Status {
        if (is_match && before && begin <= *before) {
          if (end <= *before) {
            *scratch.inserted += step.content.size() - (end - begin);
          } else {  // what stands for the first character begins where it did
            scratch.inserted =
                step.content.empty() ? std::nullopt : std::optional(out.size() + step.content.size() - 1);
          }
        }
        out.append(is_match ? std::string_view(step.content) : text.substr(begin, end - begin));
        return {};
      }));
  return true;
}

Result<std::string_view> TokenizerNormalizer::apply(std::string_view text, NormalizerScratch& scratch) const {
  scratch.inserted = 0;
  for (const Step& step : steps_) {
    SLUICE_ASSIGN_OR_RETURN(const bool changed, apply_step(step, text, scratch));
    if (!changed) continue;
    std::swap(scratch.text, scratch.next);
    text = scratch.text;
  }
  return text;
}

}  // namespace sluice
