// Used by pretokenizer_json.cc and pretokenizer_pattern.cc.
#include "text/pretokenizer/pretokenizer_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace sluice {
namespace {

// The general categories; Cs cannot occur in UTF-8.
constexpr std::array<std::string_view, 30> kCategories = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                                          "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                                          "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cn", "Co", "Cs"};
constexpr std::uint32_t kAllCategories = (std::uint32_t{1} << kCategories.size()) - 1;

// The categories that a short name covers: "L" all of "Lu" to "Lo"; none for another name.
std::uint32_t categories_of(std::string_view name) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < kCategories.size(); ++i) {
    const bool covered = name == kCategories[i] || (name.size() == 1 && name[0] == kCategories[i][0]);
    if (covered) found |= std::uint32_t{1} << i;
  }
  return found;
}

struct Named {
  std::string_view name;  // as simplify() leaves it
  std::string_view items;
};

// Letters that are symbols to the general categories.
#define SLUICE_CIRCLED R"(\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})"
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc})" SLUICE_CIRCLED;
#undef SLUICE_CIRCLED

// Classes that have the same name with and without a backslash. Source: Oniguruma's doc/RE.
constexpr Named kClasses[] = {
    {"alnum", R"(\p{Alphabetic}\p{Nd})"},
    {"alpha", R"(\p{Alphabetic})"},
    {"alphabetic", R"(\p{Alphabetic})"},
    {"ascii", R"(\x00-\x7F)"},
    {"blank", R"(\p{Zs}\t)"},
    {"cntrl", R"(\p{Cc})"},
    {"digit", R"(\p{Nd})"},
    {"lower", R"(\p{Lowercase})"},
    {"lowercase", R"(\p{Lowercase})"},
    {"punct", R"(\p{P}\p{S})"},
    {"space", R"(\s)"},
    {"whitespace", R"(\s)"},
    {"upper", R"(\p{Uppercase})"},
    {"uppercase", R"(\p{Uppercase})"},
    {"word", kWord},
    {"xdigit", "0-9A-Fa-f"},
    {"any", R"(\x00-\x{10FFFF})"},
};

constexpr std::pair<std::string_view, std::string_view> kLongNames[] = {
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"unassigned", "Cn"},
    {"privateuse", "Co"},
    {"surrogate", "Cs"},
};

std::string simplify(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return out;
}

// "lu" as "Lu".
std::string short_name(std::string name) {
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

}  // namespace

void PatternClass::add(std::string_view items) {
  if (items_.empty() && items.starts_with('^')) items_ += '\\';
  items_ += items;
  only_categories_ = false;
}

bool PatternClass::add_category(std::string_view name, bool negated) {
  const std::uint32_t found = categories_of(name);
  if (found == 0) return false;
  items_ += fmt::format("\\{}{{{}}}", negated ? 'P' : 'p', name);
  categories_ |= negated ? kAllCategories & ~found : found;
  return true;
}

void PatternClass::add(const PatternClass& other) {
  if (other.is_flat() && !other.negated_) {
    items_ += other.items_;
    only_categories_ = only_categories_ && other.only_categories_;
    categories_ |= other.categories_;
  } else {
    nested_.push_back(other);
  }
}

void PatternClass::intersect() {
  PatternClass operand = *this;
  operand.operands_.clear();
  operand.negated_ = false;
  std::vector<PatternClass> operands = std::move(operands_);
  operands.push_back(std::move(operand));
  const bool negated = negated_;
  *this = PatternClass();
  negated_ = negated;
  operands_ = std::move(operands);
}

// "[A]", or what is several classes as "(?:[A]|B)".
std::string PatternClass::union_pattern() const {
  if (nested_.empty()) return items_.empty() ? "(?!)" : "[" + items_ + "]";
  if (items_.empty() && nested_.size() == 1) return nested_[0].pattern();
  std::string out = "(?:";
  if (!items_.empty()) out += "[" + items_ + "]|";
  for (std::size_t i = 0; i < nested_.size(); ++i) out += (i > 0 ? "|" : "") + nested_[i].pattern();
  return out + ")";
}

// "[\p{L}\p{M}&&[^B]]" as one class, "[^...B]" with all other categories, which PCRE2 runs through without
// backtracking; empty if it is no such thing.
std::string PatternClass::subtraction() const {
  if (negated_ || operands_.size() != 1 || !items_.empty() || nested_.size() != 1) return {};
  const PatternClass& from = operands_[0];
  const PatternClass& taken = nested_[0];
  if (!from.is_flat() || !from.only_categories_ || !taken.is_flat() || !taken.negated_) return {};
  std::string out = "[^";
  for (std::size_t i = 0; i < kCategories.size(); ++i) {
    if ((from.categories_ >> i & 1U) == 0) out += fmt::format("\\p{{{}}}", kCategories[i]);
  }
  return out + taken.items_ + "]";
}

std::string PatternClass::pattern() const {
  if (is_flat()) {
    // Alone, "\\p{L}" and "\\s" need no brackets.
    const bool one_property = items_.starts_with("\\p{") && items_.find('}') + 1 == items_.size();
    if (one_property && negated_) return "\\P" + items_.substr(2);
    if (one_property || (!negated_ && (items_ == "\\s" || items_ == "\\S" || items_ == "\\d" || items_ == "\\D")))
      return items_;
    if (!negated_) return union_pattern();
    return items_.empty() ? "(?s:.)" : "[^" + items_ + "]";
  }
  if (std::string simple = subtraction(); !simple.empty()) return simple;
  PatternClass last = *this;
  last.operands_.clear();
  last.negated_ = false;
  std::string out;
  if (!operands_.empty()) out = "(?:";
  for (const PatternClass& operand : operands_) out += "(?=" + operand.pattern() + ")";
  out += last.union_pattern();
  if (!operands_.empty()) out += ")";
  return negated_ ? "(?:(?!" + out + ")(?s:.))" : out;
}

std::optional<PatternClass> named_class(std::string_view name, bool posix) {
  const std::string simple = simplify(name);
  PatternClass out;
  if (simple == "graph" || simple == "print") {
    PatternClass invisible;
    invisible.add(R"(\s\p{Cc}\p{Cn}\p{Cs})");
    invisible.negate();
    out.add(invisible);
    if (simple == "print") out.add(R"(\p{Zs})");
    return out;
  }
  const auto* known = std::ranges::find(kClasses, std::string_view(simple), &Named::name);
  if (known != std::end(kClasses)) {
    out.add(known->items);
    return out;
  }
  const bool is_name =
      !simple.empty() && std::ranges::all_of(simple, [](unsigned char c) { return std::isalnum(c) != 0; });
  if (posix || !is_name) return std::nullopt;
  const auto* long_name =
      std::ranges::find(kLongNames, std::string_view(simple), &std::pair<std::string_view, std::string_view>::first);
  if (out.add_category(long_name != std::end(kLongNames) ? long_name->second : short_name(simple), false)) return out;
  // A bare script means Script_Extensions to PCRE2.
  out.add(fmt::format("\\p{{sc:{}}}", simple));
  return out;
}

PatternClass word_class(bool in_class) {
  PatternClass out;
  out.add(kWord);
  if (!in_class) out.add(R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})");
  return out;
}

std::string punctuation_pattern() {
  // Characters that the package's tables, of Unicode 8, do not class as punctuation.
  static constexpr std::string_view kLater =
      R"(\x{61D}\x{9FD}\x{A76}\x{C77}\x{C84}\x{1B4E}-\x{1B4F})"
      R"(\x{1B7D}-\x{1B7F}\x{2E43}-\x{2E4F}\x{2E52}-\x{2E5D}\x{10D6E}\x{10EAD}\x{10F55}-\x{10F59})"
      R"(\x{10F86}-\x{10F89}\x{113D4}-\x{113D5}\x{113D7}-\x{113D8}\x{1144B}-\x{1144F}\x{1145A}-\x{1145B}\x{1145D})"
      R"(\x{11660}-\x{1166C}\x{116B9}\x{1183B}\x{11944}-\x{11946}\x{119E2}\x{11A3F}-\x{11A46})"
      R"(\x{11A9A}-\x{11A9C}\x{11A9E}-\x{11AA2}\x{11B00}-\x{11B09}\x{11BE1}\x{11C41}-\x{11C45}\x{11C70}-\x{11C71})"
      R"(\x{11EF7}-\x{11EF8}\x{11F43}-\x{11F4F}\x{11FFF}\x{12FF1}-\x{12FF2}\x{16D6D}-\x{16D6F}\x{16E97}-\x{16E9A})"
      R"(\x{16FE2}\x{1E5FF}\x{1E95E}-\x{1E95F})";
  return fmt::format(R"((?![{}])[\p{{P}}!-/:-@\[-`{{-~\x{{166D}}\x{{111C9}}])", kLater);
}

}  // namespace sluice
