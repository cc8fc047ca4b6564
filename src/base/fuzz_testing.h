// fuzz(): a parser against seeded mutations of a committed corpus.
//
//   TEST(GgufFuzz, MutationsOfTheCorpus) {
//     fuzz(SLUICE_SOURCE_DIR "/tests/fuzz/gguf", {"general.alignment"}, [](std::string_view input) { parse(input); });
//   }
//
// The check must return, whatever the input is; sanitizers see what it does on the way. It runs on every file of the
// corpus and then on mutations for SLUICE_FUZZ_SECONDS (1 by default). Mutation i is a function of the seed, i and the
// corpus alone: when the program dies, the seed and i are printed, and SLUICE_TEST_SEED=... SLUICE_FUZZ_ITERATION=i
// runs that input again. An input that takes more than ten seconds of processor time is a failure.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/test_seed_testing.h"

// Of the address sanitizer; null without it.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace sluice {

// Makes an input from those of a corpus, by a few changes that parsers are known to get wrong.
class FuzzMutator {
 public:
  FuzzMutator(const std::vector<std::string>& corpus, const std::vector<std::string>& words)
      : corpus_(corpus), words_(words) {}

  std::string make(std::uint64_t seed) {
    rng_.seed(seed);
    std::string input = corpus_[below(corpus_.size())];
    for (std::size_t changes = 1 + below(below(2) == 0 ? 2 : 8); changes > 0; --changes) change(input);
    if (input.size() > kMaxBytes) input.resize(kMaxBytes);
    return input;
  }

 private:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : static_cast<std::size_t>(rng_() % limit); }

  // Small, at the limits of a type, or anything.
  std::uint64_t number() {
    constexpr std::uint64_t kOne = 1;
    switch (below(5)) {
      case 0:
        return below(17);
      case 1:
        return kOne << below(64);
      case 2:
        return (kOne << below(64)) - 1;
      case 3:
        return ~std::uint64_t{0} - below(64);
      default:
        return rng_();
    }
  }

  void change(std::string& input) {
    const std::size_t at = below(input.size() + 1), rest = input.size() - at;
    const std::size_t length = std::min(rest, 1 + below(below(2) == 0 ? 8 : 256));
    switch (below(10)) {
      case 0:
        if (rest > 0) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:
        if (rest > 0) input[at] = static_cast<char>(number());
        break;
      case 2: {  // an integer of 2, 4 or 8 bytes
        const std::uint64_t value = number();
        const std::size_t width = std::min(std::size_t{2} << below(3), rest);
        std::memcpy(input.data() + at, &value, width);
        break;
      }
      case 3:
        input.erase(at, length);
        break;
      case 4:
        input.insert(at, input.substr(at, length));
        break;
      case 5:
        input.replace(below(input.size() + 1), 0, input.substr(at, length));
        break;
      case 6:
        input.resize(at);
        break;
      case 7: {  // the rest of another input
        const std::string& other = corpus_[below(corpus_.size())];
        input =
            input.substr(0, at) + other.substr(std::min(other.size(), below(2) == 0 ? at : below(other.size() + 1)));
        break;
      }
      case 8:
        if (!words_.empty()) input.insert(at, words_[below(words_.size())]);
        break;
      default:
        if (!words_.empty()) input.replace(at, length, words_[below(words_.size())]);
        break;
    }
  }

  const std::vector<std::string>& corpus_;
  const std::vector<std::string>& words_;
  std::mt19937_64 rng_;
};

namespace fuzz_internal {

inline std::uint32_t seed = 0;
inline std::uint64_t iteration = 0;

inline void print_place() {
  std::fprintf(stderr, "fuzz: SLUICE_TEST_SEED=%u SLUICE_FUZZ_ITERATION=%llu\n", seed,
               static_cast<unsigned long long>(iteration));
}
inline void on_signal(int number) {
  print_place();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

inline std::vector<std::string> read_corpus(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

}  // namespace fuzz_internal

// `words`: strings of the format, which mutations put in. Fails when the folder has no file.
inline void fuzz(const std::string& corpus_folder, const std::vector<std::string>& words,
                 const std::function<void(std::string_view input)>& check) {
  namespace in = fuzz_internal;
  const std::vector<std::string> corpus = in::read_corpus(corpus_folder);
  ASSERT_FALSE(corpus.empty()) << corpus_folder << " has no input";
  in::seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << in::seed);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(in::print_place);
  for (const int number : {SIGABRT, SIGSEGV, SIGFPE, SIGILL}) {
    if (__sanitizer_set_death_callback == nullptr || number == SIGABRT) std::signal(number, in::on_signal);
  }
  for (const std::string& input : corpus) check(input);

  const auto run = [&](std::uint64_t iteration) {
    in::iteration = iteration;
    const std::string input = FuzzMutator(corpus, words).make((std::uint64_t{in::seed} << 32) ^ iteration);
    const std::clock_t start = std::clock();
    check(std::string(input));  // of its own size, so that a sanitizer sees a read past its end
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    ASSERT_LT(seconds, 10) << "SLUICE_FUZZ_ITERATION=" << iteration;
  };
  if (const char* only = std::getenv("SLUICE_FUZZ_ITERATION"); only != nullptr) {
    return run(std::strtoull(only, nullptr, 10));
  }
  const char* given = std::getenv("SLUICE_FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(given != nullptr ? std::strtod(given, nullptr) : 1.0);
  std::uint64_t iteration = 0;
  for (; std::chrono::steady_clock::now() < end && !testing::Test::HasFailure(); ++iteration) run(iteration);
  std::printf("fuzz: %llu inputs\n", static_cast<unsigned long long>(iteration));
}

}  // namespace sluice
