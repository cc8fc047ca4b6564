// Masks of random grammars over small vocabularies, against a recogniser that tries everything.
#include "grammar/automata/matcher.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "base/utf8.h"
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

  // Where matches of `e` that begin at `from` end.
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

std::set<std::int32_t> allowed_of(Matcher& matcher) {
  std::vector<std::uint32_t> words(matcher.trie().words());
  const Status status = matcher.allowed(words);
  EXPECT_TRUE(status.ok()) << status.message();
  std::set<std::int32_t> out;
  for (std::size_t id = 0; id < 32 * words.size(); ++id) {
    if ((words[id / 32] >> (id % 32) & 1U) != 0) out.insert(static_cast<std::int32_t>(id));
  }
  return out;
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

// At the most rules that may be open a text can still be completed, and lists do not count.
TEST(MatcherTest, NestingIsBoundedWithoutDeadEnds) {
  const Vocabulary vocabulary({"(", ")", "((", "))", "x,", "((((", "x"});
  auto network = compile_gbnf("root ::= \"(\" root? \")\" | list\nlist ::= \"x\" | \"x,\" list");
  ASSERT_TRUE(network.ok()) << network.status().message();
  const auto masks = std::make_shared<TokenMasks>(vocabulary.trie, std::move(*network));
  Matcher deep(masks);
  int open = 0;
  while (deep.accept(0)) ++open;
  EXPECT_GT(open, kMaxRuleDepth - 3);
  EXPECT_FALSE(allowed_of(deep).contains(2));
  for (; open > 0; --open) {
    ASSERT_TRUE(allowed_of(deep).contains(1));
    ASSERT_TRUE(deep.accept(1));
  }
  EXPECT_TRUE(deep.complete());
  Matcher list(masks);
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(list.accept(4));
  ASSERT_TRUE(list.accept(6));
  EXPECT_TRUE(list.complete());
}

// Behind n letters the text can be read in n ways, as the counted part may have begun at each of them.
TEST(MatcherTest, WhatIsTooAmbiguousIsAnErrorOfThatTextAlone) {
  const Vocabulary vocabulary({"a", "b", std::string(100, 'a'), "("});
  auto network = compile_gbnf("root ::= [ab]* \"a\" [ab]{4000} r\nr ::= \"(\" r? \")\"");
  ASSERT_TRUE(network.ok()) << network.status().message();
  Matcher matcher(std::make_shared<TokenMasks>(vocabulary.trie, std::move(*network)));
  const Matcher other = matcher;
  std::vector<std::uint32_t> bits(matcher.trie().words());
  Status status;
  int tokens = 0;
  for (; status.ok() && tokens < 60; ++tokens) {
    ASSERT_TRUE(matcher.accept(2));
    status = matcher.allowed(bits);
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("too ambiguous: the answer can be read in more than 3000 ways"), std::string::npos)
      << status.message();
  EXPECT_NEAR(tokens, 30, 2);  // some 3,000 letters
  EXPECT_FALSE(matcher.complete());
  // Nobody else is hurt: not a copy, and not the same answer a few tokens before.
  Matcher fresh = other;
  EXPECT_TRUE(fresh.allowed(bits).ok());
  matcher.rollback(3);
  EXPECT_TRUE(matcher.allowed(bits).ok()) << "a token before";
  // One that a token makes too ambiguous takes the token, and no other.
  for (int i = 0; i < 3; ++i) matcher.accept(2);
  EXPECT_FALSE(matcher.accept(0) && matcher.accept(0));
}

TEST(MatcherTest, TheWorkForOneMaskIsBounded) {
  std::vector<std::string> words;  // each walks on for itself
  for (int i = 0; i < 8192; ++i) {
    std::string word(13, 'a');
    for (int bit = 0; bit < 13; ++bit) word[static_cast<std::size_t>(bit)] = (i >> bit & 1) != 0 ? 'a' : 'b';
    words.push_back(word);
  }
  const Vocabulary vocabulary(words);
  auto network = compile_gbnf("root ::= [ab]* \"a\" [ab]{4000} r\nr ::= \"(\" r? \")\"");
  ASSERT_TRUE(network.ok()) << network.status().message();
  const auto masks = std::make_shared<TokenMasks>(vocabulary.trie, std::move(*network));
  ParseSets sets(masks->network());
  SetId set = sets.start();
  for (int i = 0; i < 2500; ++i) set = sets.step(set, 'a');
  ASSERT_GE(set, 0);
  std::vector<std::uint32_t> bits(vocabulary.trie->words());
  EXPECT_EQ(masks->allowed(sets, set, bits), TokenMasks::Found::kTooMany);
  EXPECT_EQ(masks->allowed(sets, set, bits), TokenMasks::Found::kTooMany) << "what is known counts as well";
  EXPECT_LT(sets.bytes() + masks->bytes(), std::size_t{512} << 20);
}

// Whether a text is too ambiguous is up to the grammar, whichever others the vocabulary had to serve before.
TEST(MatcherTest, WhatOthersCountedDecidesNothing) {
  std::vector<std::string> words{"zzzzz"};
  for (char exit = '!'; exit <= '8'; ++exit) words.push_back(exit + std::string("abababababab"));
  const Vocabulary fresh(words), used(words);
  for (std::size_t i = 0; i <= kMostTokenRuns; ++i) {
    ByteClass others;
    for (std::size_t byte = 0; byte < 9; ++byte) others.set(128 + i + byte);
    used.trie->runs(others);
  }
  std::set<TokenMasks::Found> found;
  for (int alike = 600; alike <= (kSanitized ? 600 : 2400); alike += alike / 3) {
    std::string grammar = "root ::= p | p2 \"!\" | p3 \"?\" | p4 \".\"", rules;
    for (const char* p : {"p", "p2", "p3", "p4"}) rules += fmt::format("\n{} ::= [a-z]{{3,40}} [!-8] r", p);
    for (int i = 0; i < alike; ++i) {
      grammar += fmt::format("{} [ab]{{14}} r{}", i > 0 ? " |" : "\nr ::=", i);
      rules += fmt::format("\nr{} ::= \"(\" r{}? \")\" \"{}\"", i, i, i);
    }
    const auto network = compile_gbnf(grammar + rules);
    ASSERT_TRUE(network.ok()) << network.status().message();
    std::vector<TokenMasks::Found> both;
    for (const Vocabulary* vocabulary : {&fresh, &used}) {
      const TokenMasks masks(vocabulary->trie, *network);
      ParseSets sets(*network);
      SetId set = sets.start();
      for (int n = 0; n < 5; ++n) set = sets.step(set, 'z');
      std::vector<std::uint32_t> bits(vocabulary->trie->words());
      both.push_back(masks.allowed(sets, set, bits));
    }
    EXPECT_EQ(both[0], both[1]) << alike;
    found.insert(both[0]);
  }
  if (!kSanitized) {
    EXPECT_EQ(found, (std::set{TokenMasks::Found::kSome, TokenMasks::Found::kTooMany}));
  }
}

std::vector<std::string> random_words(std::span<const char* const> pieces, std::size_t common, std::mt19937& random) {
  std::vector<std::string> words;
  for (int i = 0; i < 300; ++i) {
    std::string word;
    for (auto n = 1 + random() % 12; n > 0; --n) {
      word += pieces[random() % (random() % 3 == 0 ? pieces.size() : common)];
    }
    words.push_back(word);
  }
  return words;
}

// Some texts by chance: at each step a token is in the mask if and only if its bytes, one by one, can follow.
void check_texts(const std::string& grammar, const Vocabulary& vocabulary, int texts, std::mt19937& random) {
  SCOPED_TRACE(grammar);
  auto network = compile_gbnf(grammar);
  ASSERT_TRUE(network.ok()) << network.status().message();
  const auto masks = std::make_shared<TokenMasks>(vocabulary.trie, std::move(*network));
  for (int text = 0; text < texts; ++text) {
    Matcher matcher(masks);
    for (int step = 0; step < 8 && !matcher.ended(); ++step) {
      std::vector<std::uint32_t> bits(matcher.trie().words());
      if (!matcher.allowed(bits).ok()) break;
      std::vector<std::int32_t> can;
      for (std::int32_t id = 0; id < vocabulary.end(); ++id) {
        Matcher next = matcher;
        const bool accepts = next.accept(id);
        ASSERT_EQ(accepts, (bits[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1) != 0)
            << "step " << step << ": '" << vocabulary.texts[static_cast<std::size_t>(id)] << "'";
        if (accepts) can.push_back(id);
      }
      if (can.empty()) break;
      matcher.accept(can[random() % can.size()]);
    }
  }
}

TEST(MatcherTest, PlainTokensAreWhatTheWalkAllows) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  static constexpr const char* kPieces[] = {"a",  "é", "漢",       "😀",   "\"",   "\\",
                                            "\n", " ", "\xF0\x9F", "\xC3", "\x7F", "/"};
  const Vocabulary vocabulary(random_words(kPieces, 4, random));
  for (const char* grammar : {R"(root ::= "\"" [^"\\\x00-\x1F]* "\"" "x")", R"(root ::= [^"\\\x00-\x1F]{0,5} "\"")",
                              "root ::= .{3,9}", R"(root ::= ([a-z] | [^"\\\x00-\x1F]{2})* )"}) {
    check_texts(grammar, vocabulary, 1, random);
  }
}

// Places that count characters take what they share from lists by length (run_masks.h).
TEST(MatcherTest, MasksWhereCharactersAreCountedAreThoseOfTheWalk) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  static constexpr const char* kPieces[] = {"a", "b", "h", "k", "z",    " ",    ",",
                                            "(", ")", "7", "é", "\xC3", "\xA9", "漢"};
  std::vector<std::string> words = random_words(kPieces, 7, random);
  for (const char* piece : kPieces) words.emplace_back(piece);
  // Enough that begins alike for one walk through it to serve several places.
  for (int i = 0; i < 5; ++i) {
    for (const std::string& word : random_words(kPieces, 7, random)) words.push_back(" " + word);
  }
  for (const char exit : {' ', ',', '(', ')'}) {  // each length at which a rule may end within a token
    for (const char behind : {' ', ',', '(', ')', 'a'}) {
      for (std::size_t n = 0; n < 13; ++n) words.push_back(std::string(n, 'a') + exit + behind);
    }
  }
  const Vocabulary vocabulary(words);
  for (const char* grammar :
       {"root ::= [a-z]{3,40}", "root ::= [a-z]{2,7} \" \" [a-z ]{1,9} \",\"", "root ::= [a-z]{5} [a-h]{0,9}",
        "root ::= ([a-z]{2,6} \" \"){1,5} [0-9]?", "root ::= [^,]{0,9} (\",\" [^,]{0,9}){2,4}", "root ::= .{4,20}",
        "root ::= [a-z]{3,} \" \" .{2,}", "root ::= [a-h]{2,9} | [a-z]{4,8} \",\" [a-z]*",
        // Rules that end within a token, and return to several places.
        "root ::= word (\",\" word)* | \"(\" word \")\" [ ,]*\nword ::= [a-z]{1,8} | \"(\" root \")\"",
        "root ::= r \" \" | r \")\"\nr ::= [a-z]{2,9} \",\" | \"(\" r \")\"", "root ::= ([a-k]{1,3} \" \"){2,9} \",\"",
        "root ::= (word{1,3} \" \")+\nword ::= [a-k] | \" \" word? \",\"",
        "root ::= a \" \" | a \"(\" root \")\"\na ::= b b?\nb ::= [a-z ]{2,11} \",\"?"}) {
    check_texts(grammar, vocabulary, 6, random);
  }
}

}  // namespace
}  // namespace sluice::matcher_test
