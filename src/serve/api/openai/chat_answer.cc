// The answers of /v1/chat/completions.
#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "files/json.h"
#include "serve/api/openai/openai_response.h"

namespace sluice {
namespace {

using Kind = ChatDelta::Kind;

void append_logprobs(std::string& out, std::string_view tokens, bool asked_for) {
  out += R"("logprobs":)";
  if (asked_for) {
    fmt::format_to(std::back_inserter(out), R"({{"content":[{}],"refusal":null}})", tokens);
  } else {
    out += "null";
  }
}

class ChatStreamWriter final : public AnswerWriter {
 public:
  explicit ChatStreamWriter(AnswerForm form)
      : form_(std::move(form)),
        tokens_(static_cast<std::size_t>(form_.choices)),
        ids_(static_cast<std::size_t>(form_.choices)),
        exports_(static_cast<std::size_t>(form_.choices)) {}

  void begin(const Usage& so_far, std::string& out) override {
    usage_ = so_far;
    for (int i = 0; i < form_.choices; ++i) append_chunk(out, i, R"({"role":"assistant","content":""})", "", {});
  }

  void delta(int choice, const GenerationDelta& delta, const Usage& so_far, std::string& out) override {
    if (delta.weights_version != nullptr) form_.head.weights_version = *delta.weights_version;
    usage_ = so_far;
    std::string& tokens = tokens_[static_cast<std::size_t>(choice)];
    append_token_logprobs(tokens, delta, form_);
    std::vector<std::int32_t>& ids = ids_[static_cast<std::size_t>(choice)];
    ids.insert(ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    exports_[static_cast<std::size_t>(choice)].add(delta);
    for (const ChatDelta& text : delta.text) append_chunk(out, choice, delta_json(text), "", std::exchange(tokens, {}));
    if (delta.finished && delta.failure.ok()) {
      stop_reason_ = stop_reason_json(delta, form_);
      append_chunk(out, choice, "{}", delta.finish_reason, std::exchange(tokens, {}));
    }
  }

  void end(const Usage& usage, std::string& out) override {
    append_stream_end(out, form_, "chat.completion.chunk", usage);
  }

 private:
  std::string delta_json(const ChatDelta& delta) {
    std::string json;
    switch (delta.kind) {
      case Kind::kReasoning:
        json = R"({"reasoning_content":)";
        break;
      case Kind::kContent:
        json = R"({"content":)";
        break;
      case Kind::kToolCall:
        json = fmt::format(R"({{"tool_calls":[{{"index":{},"id":"{}","type":"function","function":{{"name":)",
                           delta.index, random_id("call_"));
        break;
      case Kind::kToolCallArguments:
        json = fmt::format(R"({{"tool_calls":[{{"index":{},"function":{{"arguments":)", delta.index);
        break;
    }
    append_json_string(json, delta.text);
    if (delta.kind == Kind::kToolCall) json += R"(,"arguments":"")";
    json += delta.kind == Kind::kToolCall || delta.kind == Kind::kToolCallArguments ? "}}]}" : "}";
    return json;
  }

  void append_chunk(std::string& out, int choice, std::string_view delta, std::string_view finish_reason,
                    const std::string& tokens) {
    std::string chunk;
    append_head(chunk, form_.head, "chat.completion.chunk");
    fmt::format_to(std::back_inserter(chunk), R"(,"choices":[{{"index":{},"delta":)", choice);
    chunk += delta;
    chunk += ',';
    append_logprobs(chunk, tokens, form_.logprobs && !tokens.empty());
    chunk += R"(,"finish_reason":)";
    chunk += finish_reason.empty() ? "null" : fmt::format(R"("{}","stop_reason":{})", finish_reason, stop_reason_);
    if (form_.token_ids) append_ids(chunk, "token_ids", std::exchange(ids_[static_cast<std::size_t>(choice)], {}));
    if (!finish_reason.empty() && !form_.prompts.empty()) {
      exports_[static_cast<std::size_t>(choice)].append(chunk, form_.prompt_of(0).size(), form_);
    }
    chunk += "}]";
    if (form_.token_ids && !std::exchange(begun_, true)) append_ids(chunk, "prompt_token_ids", form_.prompt_of(0));
    append_usage_so_far(chunk, usage_, form_);
    chunk += '}';
    append_event(out, chunk);
  }

  AnswerForm form_;
  std::vector<std::string> tokens_;             // for each choice: log-probabilities that wait for its next chunk
  std::vector<std::vector<std::int32_t>> ids_;  // for each choice: token ids that wait for its next chunk
  std::vector<ExportReport> exports_;           // for each choice: exports for its last chunk
  bool begun_ = false;
  std::string stop_reason_;  // the stop reason of the choice whose last chunk is written
  Usage usage_;              // tokens so far
};

// One choice of a whole answer, gathered from its deltas.
class ChatChoice {
 public:
  void add(const GenerationDelta& delta, const AnswerForm& form) {
    append_token_logprobs(tokens_, delta, form);
    ids_.insert(ids_.end(), delta.token_ids.begin(), delta.token_ids.end());
    exports_.add(delta);
    for (const ChatDelta& text : delta.text) add(text);
    if (!delta.finished) return;
    finish_reason_ = delta.finish_reason;
    stop_reason_ = stop_reason_json(delta, form);
  }

  // {"index":0,"message":{...},"logprobs":...,"finish_reason":"..."}
  void append(std::string& out, std::size_t index, const AnswerForm& form) const {
    fmt::format_to(std::back_inserter(out), R"({{"index":{},"message":{{"role":"assistant","content":)", index);
    if (content_.empty() && !calls_.empty()) {
      out += "null";
    } else {
      append_json_string(out, content_);
    }
    out += R"(,"refusal":null)";
    if (!reasoning_.empty()) {
      out += R"(,"reasoning_content":)";
      append_json_string(out, reasoning_);
    }
    append_calls(out);
    out += "},";
    append_logprobs(out, tokens_, form.logprobs);
    fmt::format_to(std::back_inserter(out), R"(,"finish_reason":"{}","stop_reason":{})", finish_reason_, stop_reason_);
    if (form.token_ids) append_ids(out, "token_ids", ids_);
    if (!form.prompts.empty()) exports_.append(out, form.prompt_of(0).size(), form);
    out += '}';
  }

 private:
  struct Call {
    std::string name, arguments;
  };

  void add(const ChatDelta& delta) {
    switch (delta.kind) {
      case Kind::kReasoning:
        reasoning_ += delta.text;
        break;
      case Kind::kContent:
        content_ += delta.text;
        break;
      case Kind::kToolCall:
        calls_.push_back({delta.text, {}});
        break;
      case Kind::kToolCallArguments:
        calls_.at(static_cast<std::size_t>(delta.index)).arguments += delta.text;
        break;
    }
  }

  void append_calls(std::string& out) const {
    if (calls_.empty()) return;
    out += R"(,"tool_calls":[)";
    for (const Call& call : calls_) {
      if (out.back() != '[') out += ',';
      fmt::format_to(std::back_inserter(out), R"({{"id":"{}","type":"function","function":{{"name":)",
                     random_id("call_"));
      append_json_string(out, call.name);
      out += R"(,"arguments":)";
      append_json_string(out, call.arguments);
      out += "}}";
    }
    out += ']';
  }

  std::string reasoning_, content_, tokens_;
  std::vector<std::int32_t> ids_;
  ExportReport exports_;
  std::vector<Call> calls_;
  std::string finish_reason_, stop_reason_ = "null";
};

class ChatWholeWriter final : public AnswerWriter {
 public:
  explicit ChatWholeWriter(AnswerForm form)
      : form_(std::move(form)), choices_(static_cast<std::size_t>(form_.choices)) {}

  void begin(const Usage& /*so_far*/, std::string& /*out*/) override {}

  void delta(int choice, const GenerationDelta& delta, const Usage& /*so_far*/, std::string& /*out*/) override {
    if (delta.weights_version != nullptr) form_.head.weights_version = *delta.weights_version;
    choices_[static_cast<std::size_t>(choice)].add(delta, form_);
    if (delta.prompt_logprobs != nullptr) prompt_logprobs_ = delta.prompt_logprobs;
  }

  void end(const Usage& usage, std::string& out) override {
    append_head(out, form_.head, "chat.completion");
    out += R"(,"choices":[)";
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      if (i > 0) out += ',';
      choices_[i].append(out, i, form_);
    }
    out += ']';
    if (!form_.prompts.empty()) append_prompt_logprobs(out, form_.prompt_of(0), prompt_logprobs_.get(), form_);
    if (form_.token_ids) append_ids(out, "prompt_token_ids", form_.prompt_of(0));
    out += ',';
    append_usage(out, usage);
    out += '}';
  }

 private:
  AnswerForm form_;
  std::shared_ptr<const PromptLogprobs> prompt_logprobs_;
  std::vector<ChatChoice> choices_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_chat_writer(AnswerForm form, bool stream) {
  if (stream) return std::make_unique<ChatStreamWriter>(std::move(form));
  return std::make_unique<ChatWholeWriter>(std::move(form));
}

}  // namespace sluice
