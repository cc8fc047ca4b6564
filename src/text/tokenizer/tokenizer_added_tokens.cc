// Used by added_vocabulary.h, special_tokens.h, tokenizer_normalizer.cc and tokenizer_parser.h.
#include "text/tokenizer/tokenizer_added_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"
#include "text/pretokenizer/pretokenizer.h"

namespace sluice {
namespace {

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// True for the characters that \w matches in Unicode: alphabetic characters, marks, decimal digits, connectors and
// joiners.
bool is_word_character(char32_t c) {
  if (c == 0x200C || c == 0x200D) return true;
  const bool circled_letter = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                              (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  if (circled_letter) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(regex_shape(c)))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

char32_t first_character(std::string_view text) {
  return decode_utf8(text).code_point;
}

std::string_view last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80) --begin;
  return text.substr(begin);
}

bool touches_a_word(std::string_view text, std::size_t begin, std::size_t end) {
  const bool before = begin > 0 && is_word_character(first_character(last_character(text.substr(0, begin))));
  const bool behind = end < text.size() && is_word_character(first_character(text.substr(end)));
  return before || behind;
}

std::size_t skip_space_left(std::string_view text, std::size_t begin, std::size_t limit) {
  while (begin > limit) {
    const std::string_view last = last_character(text.substr(0, begin));
    if (!is_white_space(first_character(last))) break;
    begin -= last.size();
  }
  return std::max(begin, limit);
}

std::size_t skip_space_right(std::string_view text, std::size_t end) {
  while (end < text.size()) {
    const Utf8Char next = decode_utf8(text.substr(end));
    if (!is_white_space(next.code_point)) break;
    end += next.length;
  }
  return end;
}

}  // namespace

std::string_view strip_white_space(std::string_view text, bool left, bool right) {
  const std::size_t begin = left ? skip_space_right(text, 0) : 0;
  const std::size_t end = right ? skip_space_left(text, text.size(), begin) : text.size();
  return text.substr(begin, end - begin);
}

void AddedTokenMatcher::add(std::string_view pattern, const AddedToken& token) {
  std::int32_t node = 0;
  for (const char c : pattern) {
    const auto byte = static_cast<unsigned char>(c);
    std::int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<std::int32_t>(nodes_.size());
      nodes_.push_back({byte, -1, nodes_[static_cast<std::size_t>(node)].first_child, -1});
      nodes_[static_cast<std::size_t>(node)].first_child = next;
    }
    node = next;
  }
  Node& end = nodes_[static_cast<std::size_t>(node)];
  if (end.token >= 0) return;
  end.token = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
  starts_[static_cast<unsigned char>(pattern[0])] = true;
}

std::int32_t AddedTokenMatcher::child(std::int32_t node, unsigned char byte) const {
  std::int32_t next = nodes_[static_cast<std::size_t>(node)].first_child;
  while (next >= 0 && nodes_[static_cast<std::size_t>(next)].byte != byte) {
    next = nodes_[static_cast<std::size_t>(next)].next_sibling;
  }
  return next;
}

bool AddedTokenMatcher::find(std::string_view text, std::size_t from, const MarkedText* marks, Match& match) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_[static_cast<unsigned char>(text[begin])]) continue;
    const AddedToken* longest = nullptr;
    std::size_t longest_end = 0;
    std::int32_t node = 0;
    for (std::size_t i = begin; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node < 0) break;
      const std::int32_t token = nodes_[static_cast<std::size_t>(node)].token;
      if (token < 0) continue;
      const AddedToken& found = tokens_[static_cast<std::size_t>(token)];
      if (found.special && marks != nullptr && !marks->is_own(begin, i + 1)) continue;
      longest = &found;
      longest_end = i + 1;
    }
    if (longest == nullptr) continue;
    match = {begin, longest_end, longest};
    return true;
  }
  return false;
}

Status AddedTokenMatcher::split(std::string_view text, bool parse_special, const MarkedText* marks,
                                const std::function<Status(std::string_view)>& visit_text,
                                const std::function<void(std::int32_t, std::size_t)>& visit_token) const {
  std::size_t done = 0;  // the text up to here was visited
  Match match{};
  for (std::size_t position = 0; find(text, position, marks, match); position = match.end) {
    const AddedToken& token = *match.token;
    if (token.special && !parse_special) continue;
    if (token.single_word && touches_a_word(text, match.begin, match.end)) continue;
    std::size_t begin = match.begin;
    if (token.lstrip) begin = skip_space_left(text, begin, std::min(done, begin));
    if (begin > done) SLUICE_RETURN_IF_ERROR(visit_text(text.substr(done, begin - done)));
    visit_token(token.id, match.begin);
    done = token.rstrip ? skip_space_right(text, match.end) : match.end;
  }
  return done < text.size() ? visit_text(text.substr(done)) : Status();
}

}  // namespace sluice
