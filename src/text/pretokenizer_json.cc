// Pretokenizer::from_json: the stages of a "pre_tokenizer" value.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "files/json_fields.h"
#include "text/pretokenizer.h"

namespace sluice {
namespace {

// What ByteLevel splits by when it is to use its own expression: GPT-2's.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// What Digits takes for a digit: numbers of all kinds, and those that Unicode 17 added.
constexpr std::string_view kDigit = R"([\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}])";

// DeepSeek-V2's last split. As it is written, a run of n spaces that is not at the end of a line takes n^2 steps: it is
// tried from every space. It fails from all of them if it fails from the first.
constexpr std::string_view kTrailingSpace = R"(\s+$)";
constexpr std::string_view kLinearTrailingSpace = R"((?<!\s)\s+$)";

constexpr std::size_t kMaxStages = 64;

}  // namespace

class Pretokenizer::Builder {
 public:
  Status add(const boost::json::value& value, const std::string& what) {
    JsonFields fields(value, what);
    std::string type;
    fields.require("type", type);
    SLUICE_RETURN_IF_ERROR(fields.status());
    if (type == "Sequence") return add_sequence(fields, what);
    if (byte_level_seen_) {
      return invalid_argument(fmt::format("{}: expected nothing behind ByteLevel, found {}", what, type));
    }
    if (result_.stages_.size() >= kMaxStages) {
      return invalid_argument(fmt::format("{}: expected at most {} splits, found more", what, kMaxStages));
    }
    if (type == "Split") return add_split(fields, what);
    if (type == "Digits") return add_digits(fields, what);
    if (type == "ByteLevel") return add_byte_level(fields, what);
    fields.fail("type", "one of the supported Sequence, Split, Digits, ByteLevel");
    return fields.status();
  }

  Result<Pretokenizer> finish(const std::string& what) {
    if (!byte_level_seen_) {
      return invalid_argument(
          fmt::format("{}: expected a ByteLevel pre-tokenizer at the end, found none; only "
                      "byte-level vocabularies are supported",
                      what));
    }
    return std::move(result_);
  }

 private:
  Status add_sequence(JsonFields& fields, const std::string& what) {
    const boost::json::value* list = fields.find("pretokenizers");
    if (list == nullptr || !list->is_array()) {
      fields.fail("pretokenizers", "an array of pre-tokenizers");
      return fields.status();
    }
    for (std::size_t i = 0; i < list->get_array().size(); ++i) {
      SLUICE_RETURN_IF_ERROR(add(list->get_array()[i], fmt::format("{}[{}]", what, i)));
    }
    return {};
  }

  Status add_split(JsonFields& fields, const std::string& what) {
    std::string behavior_name;
    bool invert = false;
    fields.require("behavior", behavior_name);
    fields.read("invert", invert);
    Behavior behavior = Behavior::kIsolated;
    if (fields.status().ok() && !behavior_of(behavior_name, behavior)) {
      fields.fail("behavior", "one of Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous");
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
    if (add_prefix_space) result_.prefix_stage_ = result_.stages_.size();
    return use_regex ? add_stage(kGpt2Pattern, false, Behavior::kIsolated, false, what) : Status();
  }

  Status add_stage(std::string_view pattern, bool literal, Behavior behavior, bool invert, const std::string& what) {
    Result<SplitRegex> regex = SplitRegex::compile(pattern, literal);
    if (!regex.ok()) return regex.status().with_context(what);
    result_.stages_.push_back({std::move(regex).value(), behavior, invert});
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
  SLUICE_RETURN_IF_ERROR(builder.add(value, what));
  return builder.finish(what);
}

}  // namespace sluice
