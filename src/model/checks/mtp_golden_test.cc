// The layer for multi-token prediction of the embedded model against reference numerics (tests/goldens): the logits of
// drafts and everything between, from teacher-forced drafts after each position.
#include <algorithm>
#include <cmath>
#include <map>

#include "model/checks/cache_testing.h"
#include "model/checks/golden_testing.h"

namespace sluice::mtp_golden_test {
namespace {

EngineSetup with_mtp(const std::string& profile, const std::string& compute = "auto") {
  EngineSetup options = options_of(profile, compute);
  options.mtp = true;
  return options;
}

// The prompt, then the first token of the model's answer.
std::vector<TokenId> tokens_of(const Golden& golden, const std::string& prompt, const std::string& mode) {
  auto ids = golden.read<std::int32_t>(prompt + ".prompt_ids");
  ids.push_back(golden.read<std::int32_t>(prompt + ".greedy_ids_" + mode).front());
  return ids;
}

struct Comparison {
  std::vector<double> differences;  // per position: the largest of a logit
  int same_argmax = 0;

  double quantile(double q) const {
    std::vector<double> sorted = differences;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))];
  }
};

// `mode` is the golden's: "plain" or "ref".
Comparison compare(const EngineSetup& options, const std::string& mode) {
  Loaded loaded(options);
  const Golden golden("goldens"), mtp("goldens", "sluice-tiny-v4-mtp");
  Comparison result;
  for (const std::string prompt : {"short", "chat", "thinking", "tool", "n130", "n300", "n515"}) {
    const auto ids = tokens_of(golden, prompt, mode);
    const auto positions = mtp.read<std::int32_t>(prompt + ".mtp_positions");
    const auto expected = mtp.read<float>(prompt + ".mtp_logits_" + mode);
    const auto width = expected.size() / positions.size(), step = 4096 / width;  // each step-th logit
    TestSequence sequence(loaded.model->cache_layout(), static_cast<int>(ids.size()) + 1);
    for (std::size_t j = 0; j < positions.size(); ++j) {
      const auto at = static_cast<std::size_t>(sequence.position());
      const auto rows = static_cast<std::size_t>(positions[j]) + 1 - at;
      if (rows > 0) sequence.run(*loaded.model, loaded.exec, std::span(ids).subspan(at, rows), {});
      const auto logits = sequence.draft(*loaded.model, loaded.exec, {&ids[at + rows], 1});
      double worst = 0;
      std::size_t best = 0, expected_best = 0;
      for (std::size_t v = 0; v < width; ++v) {
        worst = std::fmax(worst, std::fabs(double{logits[v * step]} - double{expected[j * width + v]}));
        if (logits[v * step] > logits[best * step]) best = v;
        if (expected[j * width + v] > expected[j * width + expected_best]) expected_best = v;
      }
      result.differences.push_back(worst);
      result.same_argmax += best == expected_best ? 1 : 0;
    }
  }
  fmt::print("{:<44} against {:<5}: median {:.1e}, worst {:.1e}, argmax equal at {} of {}\n",
             loaded.model->profile().text(), mode, result.quantile(0.5), result.quantile(1.0), result.same_argmax,
             result.differences.size());
  return result;
}

TEST(MtpGolden, PlainLogits) {
  const Comparison c = compare(with_mtp("plain"), "plain");
  EXPECT_LE(c.quantile(0.5), 3e-5);
  EXPECT_LE(c.quantile(1.0), 8e-5);
  EXPECT_EQ(c.same_argmax, static_cast<int>(c.differences.size()));
}

TEST(MtpGolden, RefLogits) {
  const Comparison c = compare(with_mtp("ref"), "ref");
  EXPECT_LE(c.quantile(0.5), 2e-3);
  EXPECT_LE(c.quantile(1.0), 2e-2);
  EXPECT_EQ(c.same_argmax, static_cast<int>(c.differences.size()));
}

// The default is at most as far away as the rounding of activations in official inference (golden_test.cc).
TEST(MtpGolden, DefaultIsNoFartherFromRefThanOfficialActivations) {
  const Comparison official = compare(with_mtp("ref", "fp8"), "ref"), ours = compare(with_mtp("default"), "ref");
  EXPECT_LE(ours.quantile(0.5), official.quantile(0.5));
  EXPECT_LE(ours.quantile(1.0), official.quantile(1.0));
}

// Compares the layer's intermediates at one position, by their relative L2 differences.
void expect_intermediates(const std::string& prefix, const std::string& prompt, const std::string& profile,
                          double bound) {
  Loaded loaded(with_mtp(profile));
  const Golden mtp("activations", "sluice-tiny-v4-mtp");
  const auto ids = tokens_of(Golden("goldens"), prompt, profile);
  const int position = mtp.read<std::int32_t>(prefix + ".mtp.positions").front();
  std::map<std::string, double> errors;
  const Observer observer = [&](std::string_view name, const float* values, int rows, int columns) {
    const std::string key = fmt::format("{}.{}", prefix, name);
    if (!name.starts_with("mtp.") || !mtp.has(key)) return;
    std::vector<float> expected;
    if (name.ends_with("router_ids")) {
      for (const std::int32_t id : mtp.read<std::int32_t>(key)) expected.push_back(static_cast<float>(id));
    } else {
      expected = mtp.read<float>(key);
    }
    ASSERT_EQ(rows, 1);
    ASSERT_EQ(expected.size(), static_cast<std::size_t>(columns)) << key;
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      difference += (values[i] - double{expected[i]}) * (values[i] - double{expected[i]});
      norm += double{expected[i]} * expected[i];
    }
    errors[std::string(name)] = std::sqrt(difference / norm);
  };
  TestSequence sequence(loaded.model->cache_layout(), static_cast<int>(ids.size()) + 1);
  const auto behind = static_cast<std::size_t>(position) + 1;
  sequence.run(*loaded.model, loaded.exec, std::span(ids).first(behind), {});
  sequence.draft(*loaded.model, loaded.exec, std::span(ids).subspan(behind, 1), &observer);
  EXPECT_EQ(errors.size(), 16U);
  for (const auto& [name, error] : errors) EXPECT_LE(error, bound) << name;
  const auto worst = std::ranges::max_element(errors, {}, [](const auto& e) { return e.second; });
  fmt::print("{} at {}: worst {:.1e}, {}\n", prefix, position, worst->second, worst->first);
}

TEST(MtpGolden, Intermediates) {
  expect_intermediates("chat_plain", "chat", "plain", 5e-6);
  expect_intermediates("chat", "chat", "ref", 1e-4);
  expect_intermediates("n300", "n300", "ref", 4e-3);  // an FP8 code of a key is another one
}

}  // namespace
}  // namespace sluice::mtp_golden_test
