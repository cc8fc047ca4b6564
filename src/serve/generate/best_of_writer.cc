// Used by answer_planners.cc.
#include "serve/generate/best_of_writer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace sluice {
namespace {

class BestOfWriter final : public AnswerWriter {
 public:
  BestOfWriter(std::unique_ptr<AnswerWriter> writer, int prompts, int n, int best_of)
      : writer_(std::move(writer)), n_(n), best_of_(best_of), choices_(static_cast<std::size_t>(prompts * best_of)) {}

  void begin(const Usage& so_far, std::string& out) override { writer_->begin(so_far, out); }
  void fail(const ApiError& error, const Usage& so_far, std::string& out) override {
    writer_->fail(error, so_far, out);
  }
  std::string_view filler() const override { return writer_->filler(); }

  void delta(int index, const GenerationDelta& delta, const Usage& /*so_far*/, std::string& /*out*/) override {
    Choice& choice = choices_[static_cast<std::size_t>(index)];
    for (const TokenLogprob& token : delta.chosen) choice.logprob_sum += static_cast<double>(token.logprob);
    choice.tokens += delta.chosen.size();
    choice.deltas.push_back(delta);
  }

  void end(const Usage& usage, std::string& out) override {
    const int prompts = static_cast<int>(choices_.size()) / best_of_;
    for (int prompt = 0; prompt < prompts; ++prompt) {
      const std::vector<int> ranking = rank(prompt * best_of_);
      for (int place = 0; place < n_; ++place) {
        for (const GenerationDelta& delta :
             choices_[static_cast<std::size_t>(ranking[static_cast<std::size_t>(place)])].deltas) {
          writer_->delta(prompt * n_ + place, delta, usage, out);
        }
      }
    }
    writer_->end(usage, out);
  }

 private:
  struct Choice {
    std::vector<GenerationDelta> deltas;
    double logprob_sum = 0;
    std::size_t tokens = 0;

    double mean() const {
      return tokens > 0 ? logprob_sum / static_cast<double>(tokens) : -std::numeric_limits<double>::infinity();
    }
  };

  // The choices of the prompt whose first one is `first`, likeliest first.
  std::vector<int> rank(int first) const {
    std::vector<int> ranking(static_cast<std::size_t>(best_of_));
    std::iota(ranking.begin(), ranking.end(), first);
    std::ranges::stable_sort(ranking, [&](int a, int b) {
      return choices_[static_cast<std::size_t>(a)].mean() > choices_[static_cast<std::size_t>(b)].mean();
    });
    return ranking;
  }

  const std::unique_ptr<AnswerWriter> writer_;
  const int n_, best_of_;
  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_best_of_writer(std::unique_ptr<AnswerWriter> writer, int prompts, int n,
                                                  int best_of) {
  return std::make_unique<BestOfWriter>(std::move(writer), prompts, n, best_of);
}

}  // namespace sluice
