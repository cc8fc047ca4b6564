// Character classes of Oniguruma ("[\p{L}\p{M}&&[^\p{Han}]]", "\w", "[:alpha:]") as patterns for PCRE2, which knows
// neither nested classes nor intersections.
//
// Thread safety: pure functions.
// Used by pretokenizer_json.cc and pretokenizer_pattern.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// A set of characters that grows item by item.
class PatternClass {
 public:
  // Adds characters, written as they may stand between the brackets of a PCRE2 class.
  void add(std::string_view items);
  // Adds a general category by its short name ("Lu", "L"); false if there is none of this name.
  bool add_category(std::string_view name, bool negated);
  void add(const PatternClass& other);
  // From here on the items belong to the next operand of an intersection.
  void intersect();
  void negate() { negated_ = !negated_; }
  bool is_flat() const { return operands_.empty() && nested_.empty(); }
  bool is_empty() const { return is_flat() && items_.empty(); }

  // A pattern that matches one character of the set.
  std::string pattern() const;

 private:
  std::string union_pattern() const;
  std::string subtraction() const;

  bool negated_ = false;
  std::string items_;                   // the last operand's
  std::vector<PatternClass> nested_;    // the last operand's
  bool only_categories_ = true;         // items_ are all general categories:
  std::uint32_t categories_ = 0;        // these
  std::vector<PatternClass> operands_;  // the earlier operands
};

// The class of a name in "[:name:]" or "\p{name}" ("alpha", "Letter", "Lu", "Han"); none if the name cannot be one.
// Case, spaces, hyphens and underscores do not count. A name that is no class that is known here is taken for a script.
std::optional<PatternClass> named_class(std::string_view name, bool posix);

// Returns the class that \w is to Oniguruma: alphabetic characters, marks, decimal digits and connectors. Outside a
// class in brackets (`in_class` false) also the numbers of Latin-1 ("½").
PatternClass word_class(bool in_class);

// Returns the pattern of what the pre-tokenizers Punctuation and BertPreTokenizer take for punctuation: the punctuation
// of Unicode 8, and ASCII's symbols. It is for PCRE2.
std::string punctuation_pattern();

}  // namespace sluice
