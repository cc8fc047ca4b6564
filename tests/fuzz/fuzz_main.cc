// fuzz_NAME             the committed inputs, then mutations of them for SLUICE_FUZZ_SECONDS
// fuzz_NAME FILE...     these inputs alone
//
// Where coverage is recorded (coverage.h), inputs that reach something new are mutated further, and unless
// SLUICE_FUZZ_SECONDS is given a run ends early, once hardly anything new comes. The seed is printed;
// SLUICE_TEST_SEED=... gives the same inputs again, up to where the run ends.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/test_paths_testing.h"
#include "base/test_seed_testing.h"
#include "coverage.h"
#include "fuzz_target.h"
#include "input_guard.h"
#include "mutator.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

// Fails on a file that cannot be read.
std::string read_input(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "fuzz: cannot read %s\n", path.c_str());
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void read_inputs(const std::filesystem::path& path, std::vector<std::string>& inputs) {
  if (std::filesystem::is_directory(path)) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path());
    std::ranges::sort(files);
    for (const auto& file : files) inputs.push_back(read_input(file));
    return;
  }
  constexpr std::string_view kSeparator = "\n====\n";
  std::string text = read_input(path);
  for (std::size_t end = text.find(kSeparator); end != std::string::npos; end = text.find(kSeparator)) {
    inputs.push_back(text.substr(0, end));
    text.erase(0, end + kSeparator.size());
  }
  inputs.push_back(std::move(text));
}

// Returns whether the input reached what none before did.
bool run_input(const FuzzTarget& target, std::string_view input) {
  coverage::start();
  run_guarded(target.check, input);
  return coverage::stop() > 0;
}

int replay(const FuzzTarget& target, int count, char** paths) {
  for (int i = 0; i < count; ++i) {
    run_input(target, read_input(paths[i]));
    std::printf("fuzz_%s: %s is fine\n", target.name, paths[i]);
  }
  return 0;
}

// Tells when it is no longer worth while: kWindow seconds brought less than a thousandth of the features that are
// known.
class Yield {
 public:
  bool has_dried_up(double elapsed) {
    if (elapsed < window_end_) return false;
    const std::size_t total = coverage::total();
    const bool dry = total > 0 && (total - at_window_start_) * 1000 < total;
    at_window_start_ = total;
    window_end_ = elapsed + kWindow;
    return dry;
  }

 private:
  static constexpr double kWindow = 5;
  double window_end_ = kWindow;
  std::size_t at_window_start_ = coverage::total();
};

int explore(const FuzzTarget& target) {
  constexpr std::size_t kMaxKept = 20'000;
  const std::filesystem::path tests = source_dir() + "/tests";
  std::vector<std::string> inputs;
  read_inputs(tests / "fuzz" / target.name, inputs);
  for (const std::string& more : target.more_inputs) read_inputs(tests / more, inputs);
  const std::uint32_t seed = test_seed();
  const char* given = std::getenv("SLUICE_FUZZ_SECONDS");
  const double seconds = given != nullptr ? std::strtod(given, nullptr) : SLUICE_FUZZ_DEFAULT_SECONDS;
  std::fprintf(stderr, "fuzz_%s: SLUICE_TEST_SEED=%u, %g s\n", target.name, seed, seconds);
  for (const std::string& input : inputs) run_input(target, input);
  const std::size_t first_features = coverage::total(), first_inputs = inputs.size();

  Mutator mutator(inputs, target.words, target.max_bytes, seed);
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::size_t runs = 0;
  Yield yield;
  for (; elapsed() < seconds && !(given == nullptr && yield.has_dried_up(elapsed())); ++runs) {
    std::string input = mutator.make();
    if (run_input(target, input) && inputs.size() < kMaxKept) inputs.push_back(std::move(input));
  }
  std::fprintf(
      stderr, "fuzz_%s: %zu inputs in %.0f s, %.0f a second; %zu features of the code by %zu inputs, %zu by %zu more\n",
      target.name, runs, elapsed(), static_cast<double>(runs) / std::max(elapsed(), 1e-9), first_features, first_inputs,
      coverage::total() - first_features, inputs.size() - first_inputs);
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  const sluice::FuzzTarget target = sluice::fuzz_target();
  sluice::guard_inputs(target.name);
  return argc > 1 ? sluice::replay(target, argc - 1, argv + 1) : sluice::explore(target);
}
