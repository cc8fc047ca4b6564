// A vocabulary of a few texts, and the tokens of it that a matcher allows.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "grammar/automata/matcher.h"

namespace sluice {

struct Vocabulary {
  explicit Vocabulary(std::vector<std::string> words) : texts(std::move(words)) {
    std::vector<std::string_view> views(texts.begin(), texts.end());
    views.emplace_back();  // the end token
    trie = std::make_shared<TokenTrie>(views, std::vector<std::int32_t>{end()});
  }
  std::int32_t end() const { return static_cast<std::int32_t>(texts.size()); }

  std::vector<std::string> texts;
  std::shared_ptr<const TokenTrie> trie;
};

inline std::set<std::int32_t> allowed_of(Matcher& matcher) {
  std::vector<std::uint32_t> words(matcher.trie().words());
  const Status status = matcher.allowed(words);
  EXPECT_TRUE(status.ok()) << status.message();
  std::set<std::int32_t> out;
  for (std::size_t id = 0; id < 32 * words.size(); ++id) {
    if ((words[id / 32] >> (id % 32) & 1U) != 0) out.insert(static_cast<std::int32_t>(id));
  }
  return out;
}

}  // namespace sluice
