// Masks of random grammars over small vocabularies, against a recogniser that tries everything.
#include "grammar/automata/matcher.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "base/utf8.h"
#include "grammar/automata/matcher_testing.h"
#include "grammar/gbnf.h"
#include "grammar/gbnf_parser.h"

namespace sluice::matcher_test {
namespace {

using Kind = Expression::Kind;

// Tries everything at every place of a text, each rule once.
class Naive {
 public:
  Naive(const Gbnf& grammar, std::u32string_view text) : grammar_(grammar), text_(text) {}

  bool matches() { return ends(body(grammar_.root), 0).contains(text_.size()); }

 private:
  using Places = std::set<std::size_t>;

  const Places& ends(const Expression& e, std::size_t from) {
    const auto key = std::pair{&e, from};
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    Places made = find_ends(e, from);
    return known_[key] = std::move(made);
  }

  const Expression& body(int rule) const { return grammar_.rules[static_cast<std::size_t>(rule)].body; }

  Places from_each(const Expression& e, const Places& at) {
    Places out;
    for (const std::size_t a : at) out.insert(ends(e, a).begin(), ends(e, a).end());
    return out;
  }

  // Returns the places where matches of `e` that begin at `from` end.
  Places find_ends(const Expression& e, std::size_t from) {
    Places out;
    switch (e.kind) {
      case Kind::kCharacters:
        if (from == text_.size()) break;
        for (const CodePointRange& r : e.characters) {
          const char32_t c = text_[from];
          if (r.low <= c && c <= r.high) out.insert(from + 1);
        }
        break;
      case Kind::kRule:
        return ends(body(e.rule), from);
      case Kind::kSequence:
        out.insert(from);
        for (const Expression& part : e.parts) out = from_each(part, out);
        break;
      case Kind::kChoice:
        for (const Expression& part : e.parts) out.insert(ends(part, from).begin(), ends(part, from).end());
        break;
      case Kind::kRepeat: {
        Places at{from};
        if (e.least == 0) out.insert(from);
        for (int i = 1; (e.most < 0 || i <= e.most) && !at.empty() && i < 12; ++i) {
          at = from_each(e.parts[0], at);
          if (i >= e.least) out.insert(at.begin(), at.end());
        }
        break;
      }
      default:
        out.insert(from);
    }
    return out;
  }

  const Gbnf& grammar_;
  const std::u32string_view text_;
  std::map<std::pair<const Expression*, std::size_t>, Places> known_;
};

bool naive_matches(const Gbnf& g, std::string_view text) {
  std::u32string characters;
  while (!text.empty()) {
    const Utf8Char next = decode_utf8(text);
    if (next.kind != Utf8Char::Kind::kValid) return false;
    characters.push_back(next.code_point);
    text.remove_prefix(next.length);
  }
  return Naive(g, characters).matches();
}

// The characters that stand for the letters of the random grammars.
using Alphabet = std::array<std::string, 3>;
const Alphabet kLetters{"a", "b", "c"};
// The characters have two and four bytes; the long ones begin alike.
const Alphabet kLongCharacters{"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x81", "\xC3\xA9"};

std::string written(std::string_view letters, const Alphabet& alphabet) {
  std::string text;
  for (const char c : letters) {
    if (c < 'a' || c > 'c')
      text += c;
    else
      text += alphabet[static_cast<std::size_t>(c - 'a')];
  }
  return text;
}

// The shortest text that completes the matcher's, by characters of the alphabet and ends of them; "?" if none was found
// among a few.
std::string completion(const Matcher& matcher, const Alphabet& alphabet) {
  std::vector<std::string> pieces;
  for (const std::string& character : alphabet) {
    for (std::size_t n = 0; n < character.size(); ++n) pieces.push_back(character.substr(n));
  }
  std::deque<std::pair<std::string, Matcher>> open{{"", matcher}};
  while (!open.empty() && open.size() < 300) {
    auto [text, at] = std::move(open.front());
    open.pop_front();
    if (at.complete()) return text;
    for (const std::string& piece : pieces) {
      Matcher next = at;
      if (next.accept_bytes(piece) && text.size() < 12 * alphabet[0].size()) {
        open.emplace_back(text + piece, std::move(next));
      }
    }
  }
  return "?";
}

class RandomGrammar {
 public:
  explicit RandomGrammar(std::uint32_t seed, const Alphabet& alphabet = kLetters)
      : random_(seed), alphabet_(alphabet) {}

  std::string text() {
    const unsigned rules = 1 + pick(3);
    std::string out;
    names_ = rules;
    for (unsigned r = 0; r < rules; ++r) out += name(r) + " ::= " + expression(0) + "\n";
    return out;
  }
  unsigned pick(unsigned count) { return static_cast<unsigned>(random_() % count); }

 private:
  std::string letter() { return alphabet_[pick(3)]; }
  static std::string name(unsigned r) { return r == 0 ? "root" : "r" + std::to_string(r); }
  std::string atom(int depth) {
    switch (pick(depth > 2 ? 3 : 6)) {
      case 0:
        return "\"" + letter() + "\"";
      case 1: {
        const std::string first = letter();
        return "\"" + first + letter() + "\"";
      }
      case 2:
        return pick(2) == 0 ? "[" + alphabet_[0] + alphabet_[1] + "]" : "[^" + alphabet_[0] + "]";
      case 3:
        return "(" + expression(depth + 1) + ")";
      default:
        const std::string first = letter();
        return "\"" + first + "\" " + name(pick(names_));
    }
  }
  std::string expression(int depth) {
    std::string out;
    for (unsigned alternatives = 1 + pick(3); alternatives > 0; --alternatives) {
      for (unsigned parts = 1 + pick(3); parts > 0; --parts) {
        static constexpr const char* kCounts[] = {"", "", "", "*", "+", "?", "{1,2}"};
        const std::string one = atom(depth);
        const char* count = kCounts[pick(7)];
        out += (*count != '\0' ? "(" + one + ")" : one) + count + " ";
      }
      if (alternatives > 1) out += "| ";
    }
    return out;
  }

  std::mt19937 random_;
  const Alphabet& alphabet_;
  unsigned names_ = 1;
};

// Every text of up to four characters, and every beginning of one, every token: allowed if and only if some text of the
// grammar begins so.
void check_grammar(const std::string& text, const Vocabulary& vocabulary, const Alphabet& alphabet) {
  SCOPED_TRACE(text);
  const auto naive = parse_gbnf(text);
  ASSERT_TRUE(naive.ok()) << naive.status().message();
  auto network = compile_gbnf(text);
  std::vector<std::string> all{""}, language;
  std::set<std::string> begins;
  for (std::size_t i = 0; i < all.size() && all[i].size() < 6; ++i) {
    for (const char c : {'a', 'b', 'c'}) all.push_back(all[i] + c);
  }
  for (const std::string& letters : all) {
    const std::string t = written(letters, alphabet);
    if (naive_matches(*naive, t)) language.push_back(t);
    for (std::size_t n = 0; letters.size() <= 3 && n <= t.size(); ++n) begins.insert(t.substr(0, n));
  }
  if (!network.ok()) {
    EXPECT_TRUE(language.empty()) << network.status().message() << " but it has " << language[0];
    return;
  }
  std::set<std::string> beginnings;
  for (const std::string& t : language) {
    for (std::size_t n = 0; n <= t.size(); ++n) beginnings.insert(t.substr(0, n));
  }
  const auto masks = std::make_shared<TokenMasks>(vocabulary.trie, std::move(*network));
  std::set<std::string> completed;
  for (const std::string& begin : begins) {
    Matcher matcher(masks);
    const bool alive = begin.empty() || matcher.accept_bytes(begin);
    if (!alive) {
      EXPECT_FALSE(beginnings.contains(begin)) << begin;
      continue;
    }
    EXPECT_EQ(matcher.complete(), naive_matches(*naive, begin)) << begin;
    const std::set<std::int32_t> allowed = allowed_of(matcher);
    EXPECT_EQ(allowed.contains(vocabulary.end()), matcher.complete());
    for (std::int32_t id = 0; id < vocabulary.end(); ++id) {
      const std::string next = begin + vocabulary.texts[static_cast<std::size_t>(id)];
      if (allowed.contains(id) == beginnings.contains(next)) continue;
      ASSERT_TRUE(allowed.contains(id)) << "not allowed: " << next;
      if (!completed.insert(next).second) continue;
      Matcher on = matcher;
      ASSERT_TRUE(on.accept(id));
      const std::string rest = completion(on, alphabet);
      EXPECT_TRUE(rest == "?" || naive_matches(*naive, next + rest)) << "allowed: " << next << " " << rest;
    }
  }
}

TEST(MatcherTest, RandomGrammarsAllowWhatTheyShould) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  const Vocabulary vocabulary({"a", "b", "c", "ab", "ba", "abc", "cc", "aab", "bcb", "cab", "bb", "ab"});
  for (std::uint32_t i = 0; i < (kSanitized ? 10 : 40) && !testing::Test::HasFailure(); ++i) {
    check_grammar(RandomGrammar(seed + i).text(), vocabulary, kLetters);
  }
}

// The same with characters of several bytes, which tokens cut everywhere: some end in the middle of one, some begin
// there, some are no UTF-8 at all.
TEST(MatcherTest, RandomGrammarsOfLongCharacters) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  const auto cut = [](const char* letters, std::size_t first, std::size_t end) {
    const std::string text = written(letters, kLongCharacters);
    return text.substr(first, text.size() - first - end);
  };
  std::vector<std::string> words;
  for (const char* letters : {"a", "b", "c", "ab", "ca", "bca"}) {
    for (std::size_t first = 0; first < 4; ++first) {
      for (std::size_t end = 0; end < 4; ++end) {
        const std::string whole = written(letters, kLongCharacters);
        if (first + end < whole.size()) words.push_back(cut(letters, first, end));
      }
    }
  }
  for (const char* wrong : {"\xC0\xAF", "\xE0\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80", "\xF4\x90", "\xF5", "\xFF"}) {
    words.emplace_back(wrong);
  }
  const Vocabulary vocabulary(std::move(words));
  for (std::uint32_t i = 0; i < (kSanitized ? 3 : 12) && !testing::Test::HasFailure(); ++i) {
    check_grammar(RandomGrammar(seed + i, kLongCharacters).text(), vocabulary, kLongCharacters);
  }
}

TEST(MatcherTest, CopiesAndRollbacksAreTheSameText) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const Vocabulary vocabulary({"a", "b", "c", "ab", "ba", "abc", "cc", "aab"});
  auto network = compile_gbnf("root ::= \"a\" root \"b\" | \"c\" root* | [ab]{2,9}");
  ASSERT_TRUE(network.ok()) << network.status().message();
  const auto masks = std::make_shared<TokenMasks>(vocabulary.trie, std::move(*network));
  Matcher matcher(masks);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < random_cases(400); ++i) {
    const auto back = random() % (std::min<std::size_t>(tokens.size(), 3) + 1);
    if (random() % 2 == 0 && back > 0) {
      matcher.rollback(back);
      tokens.resize(tokens.size() - back);
    } else if (!matcher.ended()) {
      const std::set<std::int32_t> allowed = allowed_of(matcher);
      const std::int32_t token = *std::next(allowed.begin(), static_cast<std::ptrdiff_t>(random() % allowed.size()));
      const auto copy = matcher.copy();
      ASSERT_TRUE(copy->accept(token));
      ASSERT_TRUE(matcher.accept(token));
      tokens.push_back(token);
    }
    Matcher direct(masks);
    for (const std::int32_t token : tokens) ASSERT_TRUE(direct.accept(token));
    ASSERT_EQ(direct.ended(), matcher.ended());
    if (!matcher.ended()) {
      ASSERT_EQ(allowed_of(direct), allowed_of(matcher));
    }
  }
}

}  // namespace
}  // namespace sluice::matcher_test
