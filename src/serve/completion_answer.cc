// The answers of /v1/completions.
#include <fmt/format.h>

#include <iterator>
#include <set>
#include <utility>

#include "base/utf8.h"
#include "files/json.h"
#include "serve/openai_response.h"

namespace sluice {
namespace {

// The four parallel lists of a choice's "logprobs".
struct LogprobLists {
  std::string tokens, token_logprobs, top_logprobs, text_offset;
  std::size_t offset = 0;  // in characters

  void add(const GenerationDelta& delta, const AnswerForm& form) {
    for (std::size_t i = 0; i < delta.chosen.size(); ++i) add(delta.chosen[i], delta.top[i], form);
  }

  std::string take() {
    return fmt::format(R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],"text_offset":[{}]}})",
                       std::exchange(tokens, {}), std::exchange(token_logprobs, {}), std::exchange(top_logprobs, {}),
                       std::exchange(text_offset, {}));
  }

 private:
  void add(const TokenLogprob& chosen, const std::vector<TokenLogprob>& top, const AnswerForm& form) {
    for (std::string* list : {&tokens, &token_logprobs, &top_logprobs, &text_offset}) {
      if (!list->empty()) *list += ',';
    }
    std::string text;
    append_lossy_utf8(form.token_text(chosen.token), text);
    append_json_string(tokens, text);
    append_logprob(token_logprobs, chosen.logprob);
    add_top(chosen, top, form);
    fmt::format_to(std::back_inserter(text_offset), "{}", offset);
    for (const char byte : text) offset += (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U ? 1 : 0;
  }

  // An object by text; tokens that read alike (parts of characters) keep the best one.
  void add_top(const TokenLogprob& chosen, const std::vector<TokenLogprob>& top, const AnswerForm& form) {
    std::vector<TokenLogprob> all = top;
    all.push_back(chosen);
    std::set<std::string> seen;
    top_logprobs += '{';
    for (const TokenLogprob& token : all) {
      std::string text;
      append_lossy_utf8(form.token_text(token.token), text);
      if (!seen.insert(text).second) continue;
      if (seen.size() > 1) top_logprobs += ',';
      append_json_string(top_logprobs, text);
      top_logprobs += ':';
      append_logprob(top_logprobs, token.logprob);
    }
    top_logprobs += '}';
  }
};

// {"index":0,"text":"...","logprobs":...,"finish_reason":...}
void append_choice(std::string& out, int index, std::string_view text, std::string_view logprobs,
                   std::string_view finish_reason) {
  fmt::format_to(std::back_inserter(out), R"({{"index":{},"text":)", index);
  append_json_string(out, text);
  fmt::format_to(std::back_inserter(out), R"(,"logprobs":{},"finish_reason":)", logprobs);
  out += finish_reason.empty() ? "null" : fmt::format("\"{}\"", finish_reason);
  out += '}';
}

class CompletionStreamWriter final : public AnswerWriter {
 public:
  explicit CompletionStreamWriter(AnswerForm form)
      : form_(std::move(form)), logprobs_(static_cast<std::size_t>(form_.choices)) {}

  void begin(const Usage& so_far, std::string& out) override {
    usage_ = so_far;
    for (std::size_t i = 0; i < form_.echo.size(); ++i) append_chunk(out, static_cast<int>(i), form_.echo[i], "");
  }

  void delta(int choice, const GenerationDelta& delta, const Usage& so_far, std::string& out) override {
    usage_ = so_far;
    if (form_.logprobs) logprobs_[static_cast<std::size_t>(choice)].add(delta, form_);
    std::string text;
    for (const ChatDelta& piece : delta.text) text += piece.text;
    const bool last = delta.finished && delta.failure.ok();
    if (!text.empty() || last) append_chunk(out, choice, text, last ? delta.finish_reason : "");
  }

  void end(const Usage& usage, std::string& out) override {
    if (form_.include_usage) {
      std::string chunk;
      append_head(chunk, form_.head, "text_completion");
      chunk += R"(,"choices":[],)";
      append_usage(chunk, usage);
      chunk += '}';
      append_event(out, chunk);
    }
    append_event(out, "[DONE]");
  }

 private:
  void append_chunk(std::string& out, int choice, std::string_view text, std::string_view finish_reason) {
    LogprobLists& lists = logprobs_[static_cast<std::size_t>(choice)];
    std::string chunk;
    append_head(chunk, form_.head, "text_completion");
    chunk += R"(,"choices":[)";
    append_choice(chunk, choice, text, lists.tokens.empty() ? "null" : lists.take(), finish_reason);
    chunk += ']';
    append_usage_so_far(chunk, usage_, form_);
    chunk += '}';
    append_event(out, chunk);
  }

  AnswerForm form_;
  std::vector<LogprobLists> logprobs_;
  Usage usage_;  // so far
};

class CompletionWholeWriter final : public AnswerWriter {
 public:
  explicit CompletionWholeWriter(AnswerForm form)
      : form_(std::move(form)), choices_(static_cast<std::size_t>(form_.choices)) {
    for (std::size_t i = 0; i < form_.echo.size(); ++i) choices_[i].text = form_.echo[i];
  }

  void begin(const Usage& /*so_far*/, std::string& /*out*/) override {}

  void delta(int index, const GenerationDelta& delta, const Usage& /*so_far*/, std::string& /*out*/) override {
    Choice& choice = choices_[static_cast<std::size_t>(index)];
    if (form_.logprobs) choice.logprobs.add(delta, form_);
    for (const ChatDelta& piece : delta.text) choice.text += piece.text;
    if (delta.finished) choice.finish_reason = delta.finish_reason;
  }

  void end(const Usage& usage, std::string& out) override {
    append_head(out, form_.head, "text_completion");
    out += R"(,"choices":[)";
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      if (i > 0) out += ',';
      Choice& choice = choices_[i];
      append_choice(out, static_cast<int>(i), choice.text, form_.logprobs ? choice.logprobs.take() : "null",
                    choice.finish_reason);
    }
    out += "],";
    append_usage(out, usage);
    out += '}';
  }

 private:
  struct Choice {
    std::string text;
    LogprobLists logprobs;
    std::string_view finish_reason;
  };
  AnswerForm form_;
  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_completion_writer(AnswerForm form, bool stream) {
  if (stream) return std::make_unique<CompletionStreamWriter>(std::move(form));
  return std::make_unique<CompletionWholeWriter>(std::move(form));
}

}  // namespace sluice
