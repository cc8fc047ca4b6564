// What constraints cost: compiling them, and the mask of each step of texts that are written by chance.
//
//   build/bench/mask_bench [--tokenizer models/sluice-tiny-v4] [--vocab 129280] [--texts 20] [--compilations 3]
// One thread, and of its processor time only, so that a busy machine changes little. The vocabulary is the tokenizer's,
// filled up with pairs and triples of its tokens to `--vocab`. Steps of texts are timed one by one, the first ones of a
// constraint too, in which what is kept of its states is made.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/clocks.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "text/chat_parsers/chat_parsers.h"
#include "text/tokenizer.h"

namespace sluice {
namespace {

// Of this thread's processor time, so that other processes do not count.
class Stopwatch {
 public:
  double microseconds() const { return now() - start_; }

 private:
  static double now() { return 1e6 * clock_seconds(CLOCK_THREAD_CPUTIME_ID); }
  double start_ = now();
};

std::vector<std::string> vocabulary(const Tokenizer& tokenizer, std::size_t size) {
  std::vector<std::string> out;
  std::unordered_set<std::string> known;
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_special(id)) continue;
    std::string text(tokenizer.token_bytes(id));
    if (known.insert(text).second) out.push_back(std::move(text));
  }
  std::mt19937 random(1);
  const std::size_t own = out.size();
  while (out.size() < size) {
    std::string text = out[random() % own] + out[random() % own];
    if (random() % 3 == 0) text += out[random() % own];
    if (known.insert(text).second) out.push_back(std::move(text));
  }
  return out;
}

// Forty functions with a strict schema of five parameters each.
std::vector<CallGrammar::Tool> forty_tools() {
  std::vector<CallGrammar::Tool> out;
  for (int i = 0; i < 40; ++i) {
    out.push_back(
        {fmt::format("function_{}", i),
         fmt::format(
             R"({{"type":"object","additionalProperties":false,"required":["path","count","mode"],"properties":{{
               "path":{{"type":"string"}},"count":{{"type":"integer","minimum":0,"maximum":{}}},
               "mode":{{"enum":["read","write","append","mode_{}"]}},"tags":{{"type":"array","items":{{"type":"string"}}}},
               "options":{{"type":"object","properties":{{"deep":{{"type":"boolean"}},"name":{{"type":"string"}}}}}}}}}})",
             1000 + i, i),
         fmt::format("tools[{}]", i)});
  }
  return out;
}

class MaskBench {
 public:
  MaskBench(std::shared_ptr<const TokenTrie> trie, int texts, int compilations)
      : texts_(texts), compilations_(compilations), trie_(std::move(trie)), words_(trie_->words()) {}

  void run(const std::string& name, const GrammarSource& source) {
    double compiled = 0;
    Result<Network> network = compile(source);  // what is made once for all constraints is there
    for (int i = 0; i < compilations_; ++i) {
      const Stopwatch watch;
      network = compile(source);
      compiled = i == 0 ? watch.microseconds() : std::min(compiled, watch.microseconds());
    }
    if (!network.ok()) {
      fmt::print("{:<28} {}\n", name, network.status().message());
      return;
    }
    const std::size_t states = network->size();
    masks_ = std::make_shared<TokenMasks>(trie_, std::move(network).value());
    const Stopwatch watch;
    masks_->prepare();
    compiled += watch.microseconds();
    times_.clear();
    std::mt19937 random(7);
    for (int text = 0; text < texts_; ++text) write(random);
    if (times_.empty()) times_.push_back(0);
    const double first = *std::ranges::max_element(times_);
    double sum = 0;
    for (const double time : times_) sum += time;
    const std::size_t steps = times_.size();
    std::ranges::sort(times_);
    fmt::print("{:<28} {:>8.2f} {:>8} {:>7} {:>8.1f} {:>8.1f} {:>9.1f} {:>9.1f}\n", name, compiled / 1000, states,
               steps, sum / static_cast<double>(steps), times_[steps / 2], times_[steps * 99 / 100], first);
  }

 private:
  void write(std::mt19937& random) {
    Matcher matcher(masks_);
    std::vector<std::int32_t> allowed;
    for (int step = 0; step < 300; ++step) {
      const Stopwatch watch;
      const Status status = matcher.allowed(words_);
      times_.push_back(watch.microseconds());
      if (!status.ok()) return;
      allowed.clear();
      for (std::size_t w = 0; w < words_.size(); ++w) {
        for (std::uint32_t left = words_[w]; left != 0; left &= left - 1) {
          allowed.push_back(static_cast<std::int32_t>(w * 32 + static_cast<std::size_t>(__builtin_ctz(left))));
        }
      }
      std::int32_t id = allowed[random() % allowed.size()];
      // Strings come to an end.
      for (int i = 0; i < 200 && random() % 4 != 0; ++i) {
        if (trie_->bytes(id).find_first_of("\"<}]") != std::string_view::npos) break;
        id = allowed[random() % allowed.size()];
      }
      if (!matcher.accept(id) || matcher.ended()) return;
    }
  }

  const int texts_, compilations_;
  const std::shared_ptr<const TokenTrie> trie_;
  std::shared_ptr<const TokenMasks> masks_;
  std::vector<std::uint32_t> words_;
  std::vector<double> times_;  // us
};

int run(const std::string& folder, std::size_t size, int texts, int compilations) {
  const auto tokenizer = Tokenizer::load(folder);
  if (!tokenizer.ok()) {
    fmt::print("{}\n", tokenizer.status().message());
    return 1;
  }
  const std::vector<std::string> vocab = vocabulary(**tokenizer, size - 1);
  std::vector<std::string_view> views(vocab.begin(), vocab.end());
  views.emplace_back();
  const Stopwatch watch;
  const auto trie =
      std::make_shared<TokenTrie>(views, std::vector<std::int32_t>{static_cast<std::int32_t>(vocab.size())});
  fmt::print("{} tokens; the trie is made in {:.0f} ms, once\n\n", views.size(), watch.microseconds() / 1000);
  fmt::print("{:<28} {:>8} {:>8} {:>7} {:>8} {:>8} {:>9} {:>9}\n", "constraint", "compile", "states", "masks", "mean",
             "p50", "p99", "largest");
  fmt::print("{:<28} {:>8} {:>8} {:>7} {:>8} {:>8} {:>9} {:>9}\n", "", "ms", "", "", "us", "us", "us", "us");
  MaskBench bench(trie, texts, compilations);
  using Kind = GrammarSource::Kind;
  bench.run("any object", {.text = R"({"type":"object"})"});
  bench.run("schema of a tool", {.text = forty_tools()[0].schema});
  bench.run("regex", {.kind = Kind::kRegex, .text = R"(([A-Z][a-z]{2,12} ){2,5}\d{4}-\d{2}-\d{2}(, .{1,40})?)"});
  // What counts characters has states of its own for each count.
  for (const char* pattern : {"[a-z]{3,40}", R"(\d{1,3}(\.\d{1,3}){3})", ".{1,200}", "[^,]{0,30}(,[^,]{0,30}){4}",
                              R"((\w{1,16} ){4,20}\.)", "[0-9a-f]{32,64}", "[À-ÿa-z]{5,50}"}) {
    bench.run(pattern, {.kind = Kind::kRegex, .text = pattern});
  }
  bench.run("strings of 8 to 80", {.text = R"({"type":"object","additionalProperties":false,"required":["a","b"],
    "properties":{"a":{"type":"string","minLength":8,"maxLength":80},"b":{"type":"string","pattern":"^[A-Za-z_ ]{1,64}$"}}})"});
  bench.run("choice", {.kind = Kind::kChoice, .choices = {"heads", "tails", "neither of the two"}});
  for (const char* syntax : {"deepseek_v4", "deepseek_v31", "hermes"}) {
    const CallMarkup* markup = answer_markup({.tool_call = syntax, .reasoning = "none"}).calls;
    for (const bool forced : {true, false}) {
      bench.run(fmt::format("40 tools, {}{}", syntax, forced ? "" : ", auto"),
                {.kind = Kind::kCalls, .calls = {.markup = markup, .tools = forty_tools(), .forced = forced}});
    }
  }
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  CLI::App app("What constraints cost");
  std::string tokenizer = "models/sluice-tiny-v4";
  std::size_t vocab = 129'280;
  int texts = 20, compilations = 3;
  app.add_option("--tokenizer", tokenizer, "the folder of a tokenizer");
  app.add_option("--vocab", vocab, "tokens");
  app.add_option("--texts", texts, "texts of each constraint");
  app.add_option("--compilations", compilations, "of each constraint; the fastest counts");
  CLI11_PARSE(app, argc, argv);
  return sluice::run(tokenizer, vocab, texts, compilations);
}
