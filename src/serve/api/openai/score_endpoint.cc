// POST /v1/score: what the model says of the tokens of given texts; the server's `sluice score`.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <utility>

#include "serve/api/endpoints.h"
#include "serve/generate/answer_plan.h"

namespace sluice {
namespace {

template <class T, class Append>
void append_list(std::string& out, std::string_view name, const std::vector<T>& values, const Append& append) {
  fmt::format_to(std::back_inserter(out), R"(,"{}":[)", name);
  for (const T& value : values) {
    if (out.back() != '[') out += ',';
    append(value);
  }
  out += ']';
}

void append_distributions(std::string& out, const std::vector<PromptLogprob>& tokens, int vocab) {
  std::string bytes;
  bytes.reserve(tokens.size() * static_cast<std::size_t>(vocab) * sizeof(float));
  for (const PromptLogprob& token : tokens) {
    for (const float value : token.distribution) {
      const auto word = std::bit_cast<std::uint32_t>(value);
      for (int i = 0; i < 4; ++i) bytes += static_cast<char>(word >> (8 * i) & 255U);
    }
  }
  fmt::format_to(std::back_inserter(out), R"(,"distributions":{{"shape":[{},{}],"dtype":"float32","data":"{}"}})",
                 tokens.size(), vocab, base64(bytes));
}

constexpr std::int64_t kMostDistributionBytes = 4 * kMaxDistributionBytes;  // the most for all requests together

// Bytes of distributions that a request may keep, as long as it lives.
class Share {
 public:
  Share(std::shared_ptr<std::atomic<std::int64_t>> all, std::int64_t bytes) : all_(std::move(all)), bytes_(bytes) {
    fits_ = all_->fetch_add(bytes_) + bytes_ <= kMostDistributionBytes;
  }
  ~Share() { *all_ -= bytes_; }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  bool fits() const { return fits_; }

 private:
  std::shared_ptr<std::atomic<std::int64_t>> all_;
  std::int64_t bytes_;
  bool fits_ = false;
};

class ScoreWriter final : public AnswerWriter {
 public:
  ScoreWriter(AnswerForm form, int vocab, std::shared_ptr<const Share> share)
      : form_(std::move(form)),
        vocab_(vocab),
        share_(std::move(share)),
        texts_(static_cast<std::size_t>(form_.choices)) {}

  void begin(const Usage& /*so_far*/, std::string& /*out*/) override {}

  void delta(int index, const GenerationDelta& delta, const Usage& /*so_far*/, std::string& /*out*/) override {
    if (delta.weights_version != nullptr) form_.head.weights_version = *delta.weights_version;
    Text& text = texts_[static_cast<std::size_t>(index)];
    if (delta.prompt_logprobs != nullptr) text.scores = delta.prompt_logprobs;
    text.exports.add(delta);
  }

  void end(const Usage& usage, std::string& out) override {
    append_head(out, form_.head, "score");
    out += R"(,"data":[)";
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      if (i > 0) out += ',';
      append_text(out, i);
    }
    out += "],";
    append_usage(out, usage);
    out += '}';
  }

 private:
  struct Text {
    std::shared_ptr<const PromptLogprobs> scores;
    ExportReport exports;
  };

  void append_text(std::string& out, std::size_t index) {
    Text& text = texts_[index];
    const std::vector<std::int32_t>& ids = form_.prompt_of(static_cast<int>(index));
    fmt::format_to(std::back_inserter(out), R"({{"index":{},"start":{})", index,
                   text.scores != nullptr ? text.scores->start : 1);
    append_ids(out, "token_ids", ids);
    static const std::vector<PromptLogprob> kNone;
    const std::vector<PromptLogprob>& tokens = text.scores != nullptr ? text.scores->tokens : kNone;
    append_list(out, "logprobs", tokens, [&](const PromptLogprob& t) { append_logprob(out, t.logprob); });
    append_list(out, "ranks", tokens,
                [&](const PromptLogprob& t) { fmt::format_to(std::back_inserter(out), "{}", t.rank); });
    if (form_.prompt_logprobs > 0) append_best(out, tokens);
    if (share_ != nullptr) append_distributions(out, tokens, vocab_);
    text.exports.append(out, ids.size(), form_);
    text.scores = nullptr;  // it may be large
    out += '}';
  }

  static void append_best(std::string& out, const std::vector<PromptLogprob>& tokens) {
    append_list(out, "top_ids", tokens, [&](const PromptLogprob& token) {
      out += '[';
      for (const TokenLogprob& best : token.top) {
        fmt::format_to(std::back_inserter(out), "{}{}", out.back() == '[' ? "" : ",", best.token);
      }
      out += ']';
    });
    append_list(out, "top_logprobs", tokens, [&](const PromptLogprob& token) {
      out += '[';
      for (const TokenLogprob& best : token.top) {
        if (out.back() != '[') out += ',';
        append_logprob(out, best.logprob);
      }
      out += ']';
    });
  }

  AnswerForm form_;
  const int vocab_;
  const std::shared_ptr<const Share> share_;  // null: no distributions
  std::vector<Text> texts_;
};

// Takes the share for all texts together; null: none are asked for.
ApiResult<std::shared_ptr<const Share>> take_share(const ApiContext& context, const GenerationPlan& plan,
                                                   const GenerationOptions& options) {
  if (!options.engine.prompt_distributions) return std::shared_ptr<const Share>();
  const auto start = static_cast<std::size_t>(options.engine.prompt_logprobs_start);
  std::size_t rows = 0;
  for (const PromptTokens& prompt : plan.prompts) rows += prompt.ids.size() - std::min(prompt.ids.size(), start);
  const auto bytes =
      static_cast<std::int64_t>(rows * static_cast<std::size_t>(context.engine.vocab_size()) * sizeof(float));
  if (bytes > kMaxDistributionBytes) {
    return ApiError{400,
                    fmt::format("distributions: those of {} tokens are {} bytes, at most {} are given: score fewer at "
                                "a time, or take start or top",
                                rows, bytes, kMaxDistributionBytes),
                    "distributions", "invalid_value"};
  }
  auto share = std::make_shared<const Share>(context.distribution_bytes, bytes);
  if (share->fits()) return std::shared_ptr<const Share>(std::move(share));
  return ApiError{503, "distributions: other requests are being given too many already; try again", "", "busy"};
}

ApiResult<GenerationPlan> plan_score(ApiContext& context, std::string_view body) {
  auto parsed = parse_score_request(body, context.rules);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  auto& request = std::get<CompletionRequest>(parsed);
  if (auto error = check_model(context, request.model)) return *std::move(error);
  AnswerForm form = make_form(context, "score-", request.options, request.prompts.size());
  GenerationPlan plan;
  for (std::size_t i = 0; i < request.prompts.size(); ++i) {
    auto ids = prompt_ids(context, request, i);
    if (auto* error = std::get_if<ApiError>(&ids)) return std::move(*error);
    auto& prompt = std::get<std::vector<std::int32_t>>(ids);
    form.prompts.push_back(prompt);
    std::vector<std::int32_t> starts = context.message_starts.find(prompt);
    plan.prompts.push_back({std::move(prompt), std::move(starts)});
  }
  auto share = take_share(context, plan, request.options);
  if (auto* error = std::get_if<ApiError>(&share)) return std::move(*error);
  const auto make_writer = [vocab = context.engine.vocab_size(), share = std::move(std::get<0>(share))](
                               AnswerForm of, bool /*stream*/) {
    return std::make_unique<ScoreWriter>(std::move(of), vocab, share);
  };
  finish_plan(plan, std::move(form), make_writer, request.options);
  return plan;
}

}  // namespace

void score(ApiContext& context, const HttpExchangePtr& exchange) {
  generate(context, exchange, plan_score);
}

}  // namespace sluice
