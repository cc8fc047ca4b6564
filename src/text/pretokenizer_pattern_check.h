// Whether a regular expression means the same to PCRE2, which runs it here, and to Oniguruma, for which the patterns of
// tokenizer.json are written. Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

// The pattern for PCRE2 (UTF, UCP and MULTILINE set), or a failure that says which construct, at which byte offset, is
// not supported. Accepted is what both understand alike: literals, ".", "^", "$", alternation, groups (plain, and (?:
// (?i: (?= (?! (?<= (?<! (?>), flat character classes, \s \S \d \D \r \n \t \f \p{..} \P{..} \x{..} and escaped
// punctuation, the quantifiers ? * + (greedy, lazy, possessive) and {n} {n,} {n,m} (greedy). Script names are
// rewritten, because a bare one means Script_Extensions to PCRE2.
Result<std::string> translate_pattern(std::string_view pattern);

}  // namespace sluice
