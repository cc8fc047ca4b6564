// The answers of /v1/completions.
#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <utility>

#include "files/json.h"
#include "serve/api/openai/completion_logprobs.h"
#include "serve/api/openai/openai_response.h"

namespace sluice {
namespace {

// {"index":0,"text":"...","logprobs":...,"finish_reason":...,"stop_reason":... and `more`}
void append_choice(std::string& out, int index, std::string_view text, std::string_view logprobs,
                   std::string_view finish_reason, std::string_view stop_reason, std::string_view more) {
  fmt::format_to(std::back_inserter(out), R"({{"index":{},"text":)", index);
  append_json_string(out, text);
  fmt::format_to(std::back_inserter(out), R"(,"logprobs":{},"finish_reason":)", logprobs);
  out += finish_reason.empty() ? "null" : fmt::format("\"{}\"", finish_reason);
  fmt::format_to(std::back_inserter(out), R"(,"stop_reason":{})", stop_reason);
  out += more;
  out += '}';
}

class CompletionStreamWriter final : public AnswerWriter {
 public:
  explicit CompletionStreamWriter(AnswerForm form)
      : form_(std::move(form)), choices_(static_cast<std::size_t>(form_.choices)) {}

  void begin(const Usage& so_far, std::string& out) override {
    usage_ = so_far;
    if (form_.echo_logprobs) return;  // they come with the first token
    for (std::size_t i = 0; i < form_.echo.size(); ++i) append_chunk(out, static_cast<int>(i), form_.echo[i], "");
  }

  void delta(int choice, const GenerationDelta& delta, const Usage& so_far, std::string& out) override {
    if (delta.weights_version != nullptr) form_.head.weights_version = *delta.weights_version;
    usage_ = so_far;
    Choice& of = choices_[static_cast<std::size_t>(choice)];
    if (form_.echo_logprobs && delta.prompt_logprobs != nullptr) {
      const std::string& echo = form_.echo[static_cast<std::size_t>(choice)];
      of.logprobs.add_prompt(echo, form_.prompt_of(choice), *delta.prompt_logprobs, form_);
      append_chunk(out, choice, echo, "");
    }
    if (form_.logprobs) of.logprobs.add(delta, form_);
    of.token_ids.insert(of.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    of.exports.add(delta);
    std::string text;
    for (const ChatDelta& piece : delta.text) text += piece.text;
    const bool last = delta.finished && delta.failure.ok();
    if (last) of.stop_reason = stop_reason_json(delta, form_);
    if (!text.empty() || last) append_chunk(out, choice, text, last ? delta.finish_reason : "");
  }

  void end(const Usage& usage, std::string& out) override { append_stream_end(out, form_, "text_completion", usage); }

 private:
  void append_chunk(std::string& out, int choice, std::string_view text, std::string_view finish_reason) {
    Choice& of = choices_[static_cast<std::size_t>(choice)];
    std::string chunk, more;
    if (form_.token_ids) {
      if (!std::exchange(of.begun, true)) append_ids(more, "prompt_token_ids", form_.prompt_of(choice));
      append_ids(more, "token_ids", std::exchange(of.token_ids, {}));
    }
    if (!finish_reason.empty() && !form_.prompts.empty()) {
      of.exports.append(more, form_.prompt_of(choice).size(), form_);
    }
    append_head(chunk, form_.head, "text_completion");
    chunk += R"(,"choices":[)";
    append_choice(chunk, choice, text, of.logprobs.empty() ? "null" : of.logprobs.take(), finish_reason, of.stop_reason,
                  more);
    chunk += ']';
    append_usage_so_far(chunk, usage_, form_);
    chunk += '}';
    append_event(out, chunk);
  }

  struct Choice {  // parts that wait for the choice's next chunk
    CompletionLogprobs logprobs;
    std::vector<std::int32_t> token_ids;
    ExportReport exports;              // exports for its last chunk
    std::string stop_reason = "null";  // the stop reason of its last chunk
    bool begun = false;
  };
  AnswerForm form_;
  std::vector<Choice> choices_;
  Usage usage_;  // tokens so far
};

class CompletionWholeWriter final : public AnswerWriter {
 public:
  explicit CompletionWholeWriter(AnswerForm form)
      : form_(std::move(form)), choices_(static_cast<std::size_t>(form_.choices)) {
    for (std::size_t i = 0; i < form_.echo.size(); ++i) choices_[i].text = form_.echo[i];
  }

  void begin(const Usage& /*so_far*/, std::string& /*out*/) override {}

  void delta(int index, const GenerationDelta& delta, const Usage& /*so_far*/, std::string& /*out*/) override {
    if (delta.weights_version != nullptr) form_.head.weights_version = *delta.weights_version;
    Choice& choice = choices_[static_cast<std::size_t>(index)];
    if (delta.prompt_logprobs != nullptr) {
      choice.prompt_logprobs = delta.prompt_logprobs;
      if (form_.echo_logprobs) {
        choice.logprobs.add_prompt(choice.text, form_.prompt_of(index), *delta.prompt_logprobs, form_);
      }
    }
    if (form_.logprobs) choice.logprobs.add(delta, form_);
    choice.token_ids.insert(choice.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    choice.exports.add(delta);
    for (const ChatDelta& piece : delta.text) choice.text += piece.text;
    if (!delta.finished) return;
    choice.finish_reason = delta.finish_reason;
    choice.stop_reason = stop_reason_json(delta, form_);
  }

  void end(const Usage& usage, std::string& out) override {
    append_head(out, form_.head, "text_completion");
    out += R"(,"choices":[)";
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      if (i > 0) out += ',';
      Choice& choice = choices_[i];
      std::string more;
      if (!form_.prompts.empty()) {
        const std::vector<std::int32_t>& prompt = form_.prompt_of(static_cast<int>(i));
        append_prompt_logprobs(more, prompt, choice.prompt_logprobs.get(), form_);
        choice.exports.append(more, prompt.size(), form_);
        if (form_.token_ids) {
          append_ids(more, "prompt_token_ids", prompt);
          append_ids(more, "token_ids", choice.token_ids);
        }
      }
      append_choice(out, static_cast<int>(i), choice.text, form_.logprobs ? choice.logprobs.take() : "null",
                    choice.finish_reason, choice.stop_reason, more);
    }
    out += "],";
    append_usage(out, usage);
    out += '}';
  }

 private:
  struct Choice {
    std::string text;
    CompletionLogprobs logprobs;
    std::vector<std::int32_t> token_ids;
    std::shared_ptr<const PromptLogprobs> prompt_logprobs;
    ExportReport exports;
    std::string_view finish_reason;
    std::string stop_reason = "null";
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
