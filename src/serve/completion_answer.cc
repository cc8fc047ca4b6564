// The answers of /v1/completions.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
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
    for (std::size_t i = 0; i < delta.chosen.size(); ++i) {
      add(delta.chosen[i].token, &delta.chosen[i].logprob, delta.top[i], form);
    }
  }

  // Of an echoed prompt; the tokens that have none say null.
  void add(const std::vector<std::int32_t>& prompt, const PromptLogprobs& logprobs, const AnswerForm& form) {
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      if (i < static_cast<std::size_t>(logprobs.start)) {
        add(prompt[i], nullptr, {}, form);
        continue;
      }
      const PromptLogprob& own = logprobs.tokens[i - static_cast<std::size_t>(logprobs.start)];
      const auto top = std::min(own.top.size(), static_cast<std::size_t>(form.top_logprobs));
      add(prompt[i], &own.logprob, {own.top.begin(), own.top.begin() + static_cast<std::ptrdiff_t>(top)}, form);
    }
  }

  std::string take() {
    return fmt::format(R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],"text_offset":[{}]}})",
                       std::exchange(tokens, {}), std::exchange(token_logprobs, {}), std::exchange(top_logprobs, {}),
                       std::exchange(text_offset, {}));
  }

 private:
  void add(std::int32_t token, const float* logprob, const std::vector<TokenLogprob>& top, const AnswerForm& form) {
    for (std::string* list : {&tokens, &token_logprobs, &top_logprobs, &text_offset}) {
      if (!list->empty()) *list += ',';
    }
    std::string text;
    append_lossy_utf8(form.token_text(token), text);
    append_json_string(tokens, text);
    if (logprob != nullptr) {
      append_logprob(token_logprobs, *logprob);
      add_top({token, *logprob}, top, form);
    } else {
      token_logprobs += "null";
      top_logprobs += "null";
    }
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

// {"index":0,"text":"...","logprobs":...,"finish_reason":... and `more`}
void append_choice(std::string& out, int index, std::string_view text, std::string_view logprobs,
                   std::string_view finish_reason, std::string_view more) {
  fmt::format_to(std::back_inserter(out), R"({{"index":{},"text":)", index);
  append_json_string(out, text);
  fmt::format_to(std::back_inserter(out), R"(,"logprobs":{},"finish_reason":)", logprobs);
  out += finish_reason.empty() ? "null" : fmt::format("\"{}\"", finish_reason);
  out += more;
  out += '}';
}

class CompletionStreamWriter final : public AnswerWriter {
 public:
  explicit CompletionStreamWriter(AnswerForm form)
      : form_(std::move(form)), choices_(static_cast<std::size_t>(form_.choices)) {}

  void begin(const Usage& so_far, std::string& out) override {
    usage_ = so_far;
    if (form_.echo_logprobs) return;  // which come with the first token
    for (std::size_t i = 0; i < form_.echo.size(); ++i) append_chunk(out, static_cast<int>(i), form_.echo[i], "");
  }

  void delta(int choice, const GenerationDelta& delta, const Usage& so_far, std::string& out) override {
    if (delta.weights_version != nullptr) form_.head.weights_version = *delta.weights_version;
    usage_ = so_far;
    Choice& of = choices_[static_cast<std::size_t>(choice)];
    if (form_.echo_logprobs && delta.prompt_logprobs != nullptr) {
      of.logprobs.add(form_.prompt_of(choice), *delta.prompt_logprobs, form_);
      append_chunk(out, choice, form_.echo[static_cast<std::size_t>(choice)], "");
    }
    if (form_.logprobs) of.logprobs.add(delta, form_);
    of.token_ids.insert(of.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    of.exports.add(delta);
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
    append_choice(chunk, choice, text, of.logprobs.tokens.empty() ? "null" : of.logprobs.take(), finish_reason, more);
    chunk += ']';
    append_usage_so_far(chunk, usage_, form_);
    chunk += '}';
    append_event(out, chunk);
  }

  struct Choice {  // what waits for its next chunk
    LogprobLists logprobs;
    std::vector<std::int32_t> token_ids;
    ExportReport exports;  // for its last one
    bool begun = false;
  };
  AnswerForm form_;
  std::vector<Choice> choices_;
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
    if (delta.weights_version != nullptr) form_.head.weights_version = *delta.weights_version;
    Choice& choice = choices_[static_cast<std::size_t>(index)];
    if (delta.prompt_logprobs != nullptr) {
      choice.prompt_logprobs = delta.prompt_logprobs;
      if (form_.echo_logprobs) choice.logprobs.add(form_.prompt_of(index), *delta.prompt_logprobs, form_);
    }
    if (form_.logprobs) choice.logprobs.add(delta, form_);
    choice.token_ids.insert(choice.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    choice.exports.add(delta);
    for (const ChatDelta& piece : delta.text) choice.text += piece.text;
    if (delta.finished) choice.finish_reason = delta.finish_reason;
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
                    choice.finish_reason, more);
    }
    out += "],";
    append_usage(out, usage);
    out += '}';
  }

 private:
  struct Choice {
    std::string text;
    LogprobLists logprobs;
    std::vector<std::int32_t> token_ids;
    std::shared_ptr<const PromptLogprobs> prompt_logprobs;
    ExportReport exports;
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
