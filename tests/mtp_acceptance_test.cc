// Measures how often the drafts of the embedded model's layer for multi-token prediction are the tokens that it goes on
// to choose. A mistake in the layer's state leaves every answer right and shows here alone. Held-out problems, greedy
// answers; and prose as the model card measures it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/storage/mapped_file.h"
#include "base/test_paths_testing.h"
#include "files/json.h"
#include "kernels/device/isa.h"
#include "model/checks/cache_testing.h"
#include "text/chat/chat.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice::mtp_acceptance_test {
namespace {

constexpr int kItems = 20, kLongestAnswer = 300;
constexpr TokenId kEndOfSentence = 1;

struct Acceptance {
  int depths[2] = {};  // drafts of that depth, all drafts before which were right
  int right[2] = {};

  double rate(std::size_t depth) const { return static_cast<double>(right[depth]) / depths[depth]; }
};

class MtpAcceptance : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = source_dir() + "/models/sluice-tiny-v4";
    EngineSetup options;
    options.mtp = true;
    model_ = load_model(exec_, folder, options, {}, nullptr).value();
    tokenizer_ = Tokenizer::load(folder).value();
    chat_ = load_chat_encoding(model_->config().model_type, folder, {}).value();
  }

  TokenId greedy(std::span<const float> logits) const {
    const auto last = logits.last(static_cast<std::size_t>(model_->config().vocab_size));
    return static_cast<TokenId>(std::ranges::max_element(last) - last.begin());
  }
  // The token that the model chooses behind these.
  TokenId step(TestSequence& sequence, std::span<const TokenId> ids) {
    const int last = static_cast<int>(ids.size()) - 1;
    return greedy(sequence.run(*model_, exec_, ids, {&last, 1}));
  }
  TokenId draft(TestSequence& sequence, std::span<const TokenId> given) {
    return greedy(sequence.draft(*model_, exec_, given));
  }

  std::vector<TokenId> prompt_of(const boost::json::object& item) const {
    ChatRequest request;
    request.thinking = item.at("mode") == "thinking";
    request.messages = parse_chat_messages(item.at("messages")).value();
    if (item.contains("tools")) request.tools = parse_chat_tools(item.at("tools")).value();
    const ChatPrompt prompt = chat_->render(request).value();
    return tokenizer_->encode(prompt.text, prompt.messages).value().ids;
  }

  // Behind every token of the answer two drafts.
  void add_answer(std::vector<TokenId> prompt, Acceptance* acceptance) {
    TestSequence sequence(model_->cache_layout(), static_cast<int>(prompt.size()) + kLongestAnswer + 2);
    while (prompt.size() > 512) {
      sequence.run(*model_, exec_, std::span(prompt).first(512), {});
      prompt.erase(prompt.begin(), prompt.begin() + 512);
    }
    TokenId newest = step(sequence, prompt);
    TokenId guess = -1;  // at depth 2, after the token that comes next
    for (int i = 0; i < kLongestAnswer && newest != kEndOfSentence; ++i) {
      const TokenId first = draft(sequence, {&newest, 1});
      const TokenId second = draft(sequence, std::vector<TokenId>{newest, first});
      const TokenId next = step(sequence, {&newest, 1});
      if (guess >= 0) ++acceptance->depths[1], acceptance->right[1] += guess == next;
      ++acceptance->depths[0], acceptance->right[0] += first == next;
      guess = first == next ? second : -1;
      newest = next;
    }
  }

  Acceptance of_task(const std::string& task) {
    const std::string text = read_text_file(test_data_dir() + "/evals/" + task + ".jsonl").value();
    Acceptance acceptance;
    std::size_t at = 0;
    for (int i = 0; i < kItems; ++i) {
      const std::size_t end = text.find('\n', at);
      add_answer(prompt_of(parse_json(text.substr(at, end - at), task).value().as_object()), &acceptance);
      at = end + 1;
    }
    fmt::print("{}: depth 1 {:.4f} of {}, depth 2 {:.4f} of {}\n", task, acceptance.rate(0), acceptance.depths[0],
               acceptance.rate(1), acceptance.depths[1]);
    return acceptance;
  }

  ThreadPool pool_{2};
  Exec exec_{&pool_, select_kernels("auto").value()};
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatEncoding> chat_;
};

TEST_F(MtpAcceptance, OfAnswers) {
  struct Task {
    const char* name;
    double second;
  };
  for (const Task& task : {Task{"arithmetic", 0.41}, {"lists", 0.45}, {"recall", 0.52}, {"tools", 0.55}}) {
    const Acceptance found = of_task(task.name);
    EXPECT_GE(found.rate(0), 0.995) << task.name;
    EXPECT_GE(found.rate(1), task.second) << task.name;
  }
}

// The share of drafts of a text's tokens that the model would have chosen too, in sequences as long as it was trained
// on.
TEST_F(MtpAcceptance, OfProse) {
  constexpr std::size_t kWindow = 2048;
  const auto ids = tokenizer_->encode(read_text_file(source_dir() + "/tests/evals/prose.txt").value()).value();
  int counted = 0, right = 0;
  for (std::size_t begin = 0; begin < ids.size(); begin += kWindow) {
    const auto window = std::span(ids).subspan(begin, std::min(kWindow, ids.size() - begin));
    TestSequence sequence(model_->cache_layout(), static_cast<int>(window.size()) + 1);
    for (std::size_t t = 0; t + 1 < window.size(); ++t) {
      const TokenId guess = t > 0 ? draft(sequence, {&window[t], 1}) : -1;
      const TokenId chosen = step(sequence, {&window[t], 1});
      if (t == 0 || chosen != window[t + 1]) continue;
      ++counted, right += guess == chosen;
    }
  }
  const double rate = static_cast<double>(right) / counted;
  fmt::print("prose: {} tokens, {:.4f} of {}\n", ids.size(), rate, counted);
  EXPECT_NEAR(rate, 0.747, 0.02);
}

}  // namespace
}  // namespace sluice::mtp_acceptance_test
