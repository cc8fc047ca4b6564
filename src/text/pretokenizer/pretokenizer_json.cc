// Pretokenizer::from_json: the stages of a "pre_tokenizer" value.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "base/utf8.h"
#include "files/json_fields.h"
#include "text/pretokenizer/pretokenizer.h"
#include "text/pretokenizer/pretokenizer_class.h"
#include "text/pretokenizer/sequence_json.h"

namespace sluice {
namespace {

// The pattern by which ByteLevel splits when it is to use its own expression: GPT-2's.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The characters that Digits takes for digits: numbers of all kinds, and those that Unicode 17 added.
constexpr std::string_view kDigit = R"([\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}])";

// DeepSeek-V2's last split. As it is written, a run of n spaces that is not at the end of a line takes n^2 steps: it is
// tried from every space. It fails from all of them if it fails from the first.
constexpr std::string_view kTrailingSpace = R"(\s+$)";
constexpr std::string_view kLinearTrailingSpace = R"((?<!\s)\s+$)";

constexpr std::size_t kMaxStages = 64;

constexpr std::string_view kBehaviors = "one of Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous";

// Word characters as Rust's expressions know them: Oniguruma's, and the joiners.
const std::string& word_characters() {
  static const std::string kClass = [] {
    const std::string pattern = word_class(/*in_class=*/true).pattern();  // "[...]"
    return pattern.substr(1, pattern.size() - 2) + R"(\x{200C}\x{200D})";
  }();
  return kClass;
}

}  // namespace

class Pretokenizer::Builder {
 public:
  Status add(const boost::json::value& value, const std::string& what) {
    JsonFields fields(value, what);
    std::string type;
    fields.require("type", type);
    SLUICE_RETURN_IF_ERROR(fields.status());
    if (type == "Sequence") return add_sequence(fields);
    if (byte_level_seen_) {
      return invalid_argument(fmt::format("{}: expected nothing behind ByteLevel, found {}", what, type));
    }
    if (result_.stages_.size() >= kMaxStages) {
      return invalid_argument(fmt::format("{}: expected at most {} splits, found more", what, kMaxStages));
    }
    if (type == "Split") return add_split(fields, what);
    if (type == "Digits") return add_digits(fields, what);
    if (type == "ByteLevel") return add_byte_level(fields, what);
    if (type == "Metaspace") return add_metaspace(fields, what);
    if (type == "Punctuation") return add_punctuation(fields, what);
    if (type == "CharDelimiterSplit") return add_delimiter(fields, what);
    if (type == "FixedLength") return add_fixed_length(fields, what);
    if (type == "WhitespaceSplit") return add_stage(R"(\s)", false, Behavior::kRemoved, false, what);
    if (type == "Whitespace") {
      const std::string pattern = fmt::format(R"([{0}]+|[^{0}\s]+)", word_characters());
      return add_stage(pattern, false, Behavior::kRemoved, true, what);
    }
    if (type == "BertPreTokenizer") {
      SLUICE_RETURN_IF_ERROR(add_stage(R"(\s)", false, Behavior::kRemoved, false, what));
      return add_stage(punctuation_pattern(), false, Behavior::kIsolated, false, what);
    }
    fields.fail("type",
                "one of the supported Sequence, Split, Digits, ByteLevel, Metaspace, Punctuation, Whitespace, "
                "WhitespaceSplit, CharDelimiterSplit, FixedLength, BertPreTokenizer");
    return fields.status();
  }

  Pretokenizer finish() { return std::move(result_); }

 private:
  Status add_sequence(JsonFields& fields) {
    const auto add_one = [this](const boost::json::value& one, const std::string& name) { return add(one, name); };
    return add_each(fields, "pretokenizers", "an array of pre-tokenizers", add_one);
  }

  Status add_metaspace(JsonFields& fields, const std::string& what) {
    Marking marking{.mark = "▁"};
    std::string scheme = "always";
    bool split = true;
    bool adds_space = true;  // files from before prepend_scheme have it
    fields.read("replacement", marking.mark);
    fields.read("add_prefix_space", adds_space);
    if (!adds_space) scheme = "never";
    fields.read("prepend_scheme", scheme);
    fields.read("split", split);
    if (!is_one_character(marking.mark)) fields.fail("replacement", "one character");
    if (scheme == "first") {
      marking.prepend = Prepend::kFirst;
    } else if (scheme == "never") {
      marking.prepend = Prepend::kNever;
    } else if (scheme != "always") {
      fields.fail("prepend_scheme", "one of always, first, never");
    }
    SLUICE_RETURN_IF_ERROR(fields.status());
    if (!split) {
      result_.stages_.push_back({.regex = std::nullopt, .marking = std::move(marking)});
      return {};
    }
    SLUICE_RETURN_IF_ERROR(add_stage(marking.mark, true, Behavior::kMergedWithNext, false, what));
    result_.stages_.back().marking = std::move(marking);
    return {};
  }

  Status add_punctuation(JsonFields& fields, const std::string& what) {
    std::string name = "Isolated";
    fields.read("behavior", name);
    Behavior behavior = Behavior::kIsolated;
    if (fields.status().ok() && !behavior_of(name, behavior)) fields.fail("behavior", kBehaviors);
    SLUICE_RETURN_IF_ERROR(fields.status());
    return add_stage(punctuation_pattern(), false, behavior, false, what);
  }

  Status add_delimiter(JsonFields& fields, const std::string& what) {
    std::string delimiter;
    fields.require("delimiter", delimiter);
    if (fields.status().ok() && !is_one_character(delimiter)) fields.fail("delimiter", "one character");
    SLUICE_RETURN_IF_ERROR(fields.status());
    return add_stage(delimiter, true, Behavior::kRemoved, false, what);
  }

  Status add_fixed_length(JsonFields& fields, const std::string& what) {
    std::int64_t length = 5;
    fields.read("length", length, std::int64_t{1}, std::int64_t{65535});
    SLUICE_RETURN_IF_ERROR(fields.status());
    return add_stage(fmt::format("(?m:.){{1,{}}}", length), false, Behavior::kIsolated, false, what);
  }

  static bool is_one_character(std::string_view text) {
    return !text.empty() && valid_utf8_prefix(text) == text.size() && decode_utf8(text).length == text.size();
  }

  Status add_split(JsonFields& fields, const std::string& what) {
    std::string behavior_name;
    bool invert = false;
    fields.require("behavior", behavior_name);
    fields.read("invert", invert);
    Behavior behavior = Behavior::kIsolated;
    if (fields.status().ok() && !behavior_of(behavior_name, behavior)) {
      fields.fail("behavior", kBehaviors);
    }
    JsonFields pattern = fields.child("pattern");
    std::string text;
    const bool literal = pattern.has("String");
    pattern.require(literal ? "String" : "Regex", text);
    SLUICE_RETURN_IF_ERROR(fields.status());
    SLUICE_RETURN_IF_ERROR(pattern.status());
    if (!literal && text == kTrailingSpace) text = kLinearTrailingSpace;
    return add_stage(text, literal, behavior, invert, what + ": key 'pattern'");
  }

  Status add_digits(JsonFields& fields, const std::string& what) {
    bool individual = false;
    fields.read("individual_digits", individual);
    SLUICE_RETURN_IF_ERROR(fields.status());
    return add_stage(std::string(kDigit) + (individual ? "" : "+"), false, Behavior::kIsolated, false, what);
  }

  Status add_byte_level(JsonFields& fields, const std::string& what) {
    bool add_prefix_space = true;  // the defaults of the format
    bool use_regex = true;
    fields.read("add_prefix_space", add_prefix_space);
    fields.read("use_regex", use_regex);
    SLUICE_RETURN_IF_ERROR(fields.status());
    byte_level_seen_ = true;
    result_.byte_level_ = true;
    if (add_prefix_space) result_.prefix_stage_ = result_.stages_.size();
    return use_regex ? add_stage(kGpt2Pattern, false, Behavior::kIsolated, false, what) : Status();
  }

  Status add_stage(std::string_view pattern, bool literal, Behavior behavior, bool invert, const std::string& what) {
    Result<SplitRegex> regex = SplitRegex::compile(pattern, literal);
    if (!regex.ok()) return regex.status().with_context(what);
    result_.stages_.push_back(
        {.regex = std::move(regex).value(), .behavior = behavior, .invert = invert, .marking = std::nullopt});
    return {};
  }

  static bool behavior_of(std::string_view name, Behavior& behavior) {
    if (name == "Isolated")
      behavior = Behavior::kIsolated;
    else if (name == "Removed")
      behavior = Behavior::kRemoved;
    else if (name == "MergedWithPrevious")
      behavior = Behavior::kMergedWithPrevious;
    else if (name == "MergedWithNext")
      behavior = Behavior::kMergedWithNext;
    else if (name == "Contiguous")
      behavior = Behavior::kContiguous;
    else
      return false;
    return true;
  }

  Pretokenizer result_;
  bool byte_level_seen_ = false;
};

Result<Pretokenizer> Pretokenizer::from_json(const boost::json::value& value, const std::string& what) {
  Builder builder;
  if (!value.is_null()) SLUICE_RETURN_IF_ERROR(builder.add(value, what));
  return builder.finish();
}

}  // namespace sluice
