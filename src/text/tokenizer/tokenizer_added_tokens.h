// Added tokens: strings that are one token wherever they stand in a text ("<think>"), found before it is cut into
// words.
//
// Thread safety: a const object may be used from any thread.
// Used by added_vocabulary.h, special_tokens.h, tokenizer_normalizer.cc and tokenizer_parser.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/marked_text.h"
#include "sluice/status.h"

namespace sluice {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = false;      // left out by decoding with skip_special, and not found when specials are not to be parsed
  bool normalized = false;   // found in the normalized text, else in the text as given
  bool single_word = false;  // found only where no word character touches it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
};

// `text` without the white space before it (`left`) or after it (`right`).
std::string_view strip_white_space(std::string_view text, bool left, bool right);

// Finds added tokens in a text, from left to right; of those that begin at the same place the longest.
class AddedTokenMatcher {
 public:
  // Adds a token that is written `pattern` in the text; of two with the same pattern the first counts. `pattern` is not
  // empty.
  void add(std::string_view pattern, const AddedToken& token);

  // Calls visit_text(part) for each part of `text` (valid UTF-8) between tokens and visit_token(id, begin) for each
  // token and its place, in order. Without `parse_special`, special tokens are text; with `marks`, those of `text`, so
  // is one with a client's byte in it.
  Status split(std::string_view text, bool parse_special, const MarkedText* marks,
               const std::function<Status(std::string_view)>& visit_text,
               const std::function<void(std::int32_t, std::size_t)>& visit_token) const;

 private:
  struct Node {  // a node of a trie over bytes; the children are a list of siblings
    unsigned char byte = 0;
    std::int32_t first_child = -1;
    std::int32_t next_sibling = -1;
    std::int32_t token = -1;  // index of the token that ends here
  };
  struct Match {
    std::size_t begin, end;
    const AddedToken* token;
  };
  bool find(std::string_view text, std::size_t from, const MarkedText* marks, Match& match) const;
  std::int32_t child(std::int32_t node, unsigned char byte) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> starts_{};  // the first bytes of tokens
};

}  // namespace sluice
