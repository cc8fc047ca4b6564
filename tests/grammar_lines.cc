// grammar_lines TOKENIZER_FOLDER: compiles constraints and follows texts through them, for tests/grammar_test.py and
// tests/json_schema_test.py. A JSON object a line on stdin, one a line on stdout.
//
//   {"kind": "json_schema" | "regex" | "choice" | "grammar", "content": ..., "compact": bool,
//    "texts": [...],                      ->  "accepts": whether each is a text of the grammar
//    "tokens": [[id, ...], ...],          ->  "masks": for each, before each token, the allowed ones as hexadecimal
//    bits "random": {"seed": n, "count": n}}   ->  "answers": texts drawn by masks; null: not ended in time
//                                             "micros": of each mask of "tokens" and "random"
//   -> {"error": "..."} or {"compile_micros": n, "states": n, ...}
#include <boost/json.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <random>
#include <string>

#include "files/json.h"
#include "grammar/automata/matcher.h"
#include "grammar/grammar.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

double micros_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

class Lines {
 public:
  explicit Lines(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    std::vector<std::string_view> tokens;
    for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      tokens.push_back(tokenizer.is_special(id) ? std::string_view() : tokenizer.token_bytes(id));
    }
    end_ = tokenizer.eos_id().value_or(0);
    trie_ = std::make_shared<TokenTrie>(tokens, std::vector<std::int32_t>{end_});
    words_.resize(trie_->words());
  }

  json::object answer(const json::object& line) {
    GrammarSource source;
    const std::string_view kind = line.at("kind").as_string();
    const json::value& content = line.at("content");
    if (kind == "json_schema") {
      source.text = dump_json(content);
    } else if (kind == "choice") {
      source.kind = GrammarSource::Kind::kChoice;
      for (const json::value& text : content.as_array()) source.choices.emplace_back(text.as_string());
    } else {
      source.kind = kind == "regex" ? GrammarSource::Kind::kRegex : GrammarSource::Kind::kEbnf;
      source.text = content.as_string();
    }
    source.compact = line.contains("compact") && line.at("compact").as_bool();
    const Clock::time_point start = Clock::now();
    Result<Network> network = compile(source);
    json::object out{{"compile_micros", micros_since(start)}};
    if (!network.ok()) return {{"error", network.status().message()}, {"compile_micros", micros_since(start)}};
    out["states"] = network->size();
    out["remarks"] = json::value_from(network->remarks());
    masks_ = std::make_shared<TokenMasks>(trie_, std::move(*network));
    micros_.clear();
    if (line.contains("texts")) out["accepts"] = accepts(line.at("texts").as_array());
    if (line.contains("tokens")) out["masks"] = masks(line.at("tokens").as_array());
    if (line.contains("random")) out["answers"] = answers(line.at("random").as_object());
    out["micros"] = std::move(micros_);
    return out;
  }

 private:
  json::array accepts(const json::array& texts) const {
    json::array out;
    for (const json::value& text : texts) {
      Matcher matcher(masks_);
      const std::string_view bytes = text.as_string();
      out.push_back((bytes.empty() || matcher.accept_bytes(bytes)) && matcher.complete());
    }
    return out;
  }

  Status fill(Matcher& matcher) {
    const Clock::time_point start = Clock::now();
    Status status = matcher.allowed(words_);
    micros_.push_back(micros_since(start));
    return status;
  }

  json::array masks(const json::array& lists) {
    json::array out;
    for (const json::value& list : lists) {
      json::array& made = out.emplace_back(json::array()).as_array();
      Matcher matcher(masks_);
      for (std::size_t i = 0; i <= list.as_array().size(); ++i) {
        if (!fill(matcher).ok()) break;
        std::string hex;
        for (const std::uint32_t word : words_) {
          char digits[9];
          std::snprintf(digits, sizeof digits, "%08x", word);
          hex += digits;
        }
        made.emplace_back(hex);
        if (i == list.as_array().size() || !matcher.accept(list.as_array()[i].to_number<std::int32_t>())) break;
      }
    }
    return out;
  }

  // Tokens with quotes, brackets and digits more often than others, so that texts end; towards the limit only such.
  json::array answers(const json::object& random) {
    constexpr int kTokens = 600;
    std::mt19937 draw(random.at("seed").to_number<std::uint32_t>());
    json::array out;
    for (auto left = random.at("count").to_number<int>(); left > 0; --left) {
      Matcher matcher(masks_);
      std::string text;
      for (int t = 0; t < kTokens && !matcher.ended(); ++t) {
        if (!fill(matcher).ok()) break;
        const bool structured = draw() % 10 < 4 || t > kTokens / 3;
        std::int32_t token = end_;
        if (!allows(end_) || (draw() % 4 != 0 && t < kTokens / 3))
          token = choose(draw, structured ? (t > kTokens / 3 ? "\"}]" : "\"}],:{[0123456789") : "");
        matcher.accept(token);
        if (token != end_) text += trie_->bytes(token);
      }
      out.push_back(matcher.ended() ? json::value(text) : json::value());
    }
    return out;
  }

  bool allows(std::int32_t id) const {
    return (words_[static_cast<std::size_t>(id) / 32] >> (static_cast<unsigned>(id) % 32) & 1U) != 0;
  }

  std::int32_t choose(std::mt19937& draw, std::string_view wanted) const {
    std::int32_t any = end_, best = -1;
    std::uint32_t seen = 0, found = 0;
    for (std::int32_t id = 0; id < trie_->vocab_size(); ++id) {
      if (!allows(id) || id == end_) continue;
      if (draw() % ++seen == 0) any = id;
      if (trie_->bytes(id).find_first_of(wanted) != std::string_view::npos && draw() % ++found == 0) best = id;
    }
    return best >= 0 ? best : any;
  }

  const Tokenizer& tokenizer_;
  std::shared_ptr<const TokenTrie> trie_;
  std::shared_ptr<const TokenMasks> masks_;
  std::vector<std::uint32_t> words_;
  json::array micros_;
  std::int32_t end_ = 0;
};

int run(const char* folder) {
  const auto tokenizer = Tokenizer::load(folder);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status().message() << "\n";
    return 2;
  }
  Lines lines(**tokenizer);
  for (std::string line; std::getline(std::cin, line);) {
    const auto parsed = parse_json(line, "line", {.max_depth = 1000});
    std::cout << (parsed.ok() ? json::serialize(lines.answer(parsed->get_object()))
                              : json::serialize(json::object{{"error", parsed.status().message()}}))
              << "\n"
              << std::flush;
  }
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return argc == 2 ? sluice::run(argv[1]) : 2;
}
