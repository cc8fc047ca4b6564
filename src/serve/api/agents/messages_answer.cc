// The answers of /v1/messages.
#include <fmt/format.h>

#include <iterator>
#include <utility>
#include <vector>

#include "files/json.h"
#include "serve/api/agents/agent_answer.h"
#include "serve/generate/reasoning_seal.h"

namespace sluice {
namespace {

using Kind = ChatDelta::Kind;

std::string_view messages_error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

struct MessagesBlock {
  Kind kind;  // kReasoning, kContent or kToolCall
  std::string id, name, text;
};

class MessagesWriter final : public AnswerWriter {
 public:
  MessagesWriter(AnswerForm form, int context_tokens, bool stream)
      : form_(std::move(form)), context_tokens_(context_tokens), streams_(stream) {}

  // The first event says how much of the prompt was cached, so it waits for the first token.
  void begin(const Usage& /*so_far*/, std::string& /*out*/) override {}

  void delta(int /*choice*/, const GenerationDelta& delta, const Usage& so_far, std::string& out) override {
    if (delta.weights_version != nullptr) weights_version_ = *delta.weights_version;
    start(so_far, out);
    for (const ChatDelta& text : delta.text) add(text, out);
    if (!delta.finished) return;
    close(out);
    stop_sequence_ = delta.stop_string;
    stop_reason_ = reason_of(delta, so_far);
  }

  void end(const Usage& usage, std::string& out) override {
    if (!streams_) {
      out = message(usage, true);
      return;
    }
    event(out, "message_delta", fmt::format(R"("delta":{{{}}},"usage":{})", endings(), usage_json(usage)));
    append_named_event(out, "message_stop", R"({"type":"message_stop"})");
  }

  void fail(const ApiError& error, const Usage& /*so_far*/, std::string& out) override {
    append_named_event(out, "error", messages_error_json(error.status, error.message));
  }

  std::string_view filler() const override { return "event: ping\ndata: {\"type\":\"ping\"}\n\n"; }

 private:
  void event(std::string& out, std::string_view type, std::string_view fields) const {
    if (streams_) append_named_event(out, type, fmt::format(R"({{"type":"{}",{}}})", type, fields));
  }

  void start(const Usage& so_far, std::string& out) {
    if (std::exchange(is_started_, true) || !streams_) return;
    event(out, "message_start", R"("message":)" + message(so_far, false));
    out += filler();
  }

  std::string_view reason_of(const GenerationDelta& delta, const Usage& usage) const {
    if (delta.finish_reason == "tool_calls") return "tool_use";
    if (delta.finish_reason == "length") {
      const bool is_full = usage.prompt_tokens + usage.completion_tokens >= context_tokens_;
      return is_full ? "model_context_window_exceeded" : "max_tokens";
    }
    return delta.stop_string.empty() ? "end_turn" : "stop_sequence";
  }

  void open(Kind kind, std::string_view name, std::string& out) {
    close(out);
    blocks_.push_back({kind, kind == Kind::kToolCall ? random_id("toolu_") : "", std::string(name), ""});
    is_open_ = true;
    if (!streams_) return;
    std::string block = R"({"type":"text","text":""})";
    if (kind == Kind::kReasoning) block = R"({"type":"thinking","thinking":"","signature":""})";
    if (kind == Kind::kToolCall) {
      block = fmt::format(R"({{"type":"tool_use","id":"{}","name":{},"input":{{}}}})", blocks_.back().id,
                          quoted_json(name));
    }
    event(out, "content_block_start", fmt::format(R"("index":{},"content_block":{})", blocks_.size() - 1, block));
  }

  void piece(std::string& out, std::string_view type, std::string_view key, std::string_view text) const {
    if (!streams_) return;
    event(
        out, "content_block_delta",
        fmt::format(R"("index":{},"delta":{{"type":"{}","{}":{}}})", blocks_.size() - 1, type, key, quoted_json(text)));
  }

  void add(const ChatDelta& delta, std::string& out) {
    if (delta.kind == Kind::kToolCall) return open(Kind::kToolCall, delta.text, out);
    const Kind kind = delta.kind == Kind::kToolCallArguments ? Kind::kToolCall : delta.kind;
    if (!is_open_ || blocks_.back().kind != kind) open(kind, "", out);
    blocks_.back().text += delta.text;
    if (kind == Kind::kReasoning) return piece(out, "thinking_delta", "thinking", delta.text);
    if (kind == Kind::kContent) return piece(out, "text_delta", "text", delta.text);
    piece(out, "input_json_delta", "partial_json", delta.text);
  }

  void close(std::string& out) {
    if (!std::exchange(is_open_, false)) return;
    if (blocks_.back().kind == Kind::kReasoning) {
      piece(out, "signature_delta", "signature", reasoning_seal(blocks_.back().text));
    }
    event(out, "content_block_stop", fmt::format(R"("index":{})", blocks_.size() - 1));
  }

  // Writes {} for a call that was cut: its input is no object.
  static std::string block_json(const MessagesBlock& block) {
    if (block.kind == Kind::kReasoning) {
      return fmt::format(R"({{"type":"thinking","thinking":{},"signature":"{}"}})", quoted_json(block.text),
                         reasoning_seal(block.text));
    }
    if (block.kind == Kind::kContent) return fmt::format(R"({{"type":"text","text":{}}})", quoted_json(block.text));
    const auto input = parse_json(block.text.empty() ? "{}" : block.text, "input");
    if (!input.ok() || !input->is_object()) return "";
    return fmt::format(R"({{"type":"tool_use","id":"{}","name":{},"input":{}}})", block.id, quoted_json(block.name),
                       dump_json(*input));
  }

  // "stop_reason":...,"stop_sequence":...
  std::string endings() const {
    return fmt::format(R"("stop_reason":{},"stop_sequence":{})",
                       stop_reason_.empty() ? "null" : quoted_json(stop_reason_),
                       stop_sequence_.empty() ? "null" : quoted_json(stop_sequence_));
  }

  // In this API the cached tokens are not part of input_tokens.
  static std::string usage_json(const Usage& usage) {
    return fmt::format(
        R"({{"input_tokens":{},"cache_creation_input_tokens":0,"cache_read_input_tokens":{},"output_tokens":{}}})",
        usage.prompt_tokens - usage.cached_tokens, usage.cached_tokens, usage.completion_tokens);
  }

  std::string message(const Usage& usage, bool whole) const {
    std::string out = fmt::format(R"({{"id":"{}","type":"message","role":"assistant","model":{},"content":[)",
                                  form_.head.id, quoted_json(form_.head.model));
    for (std::size_t i = 0; whole && i < blocks_.size(); ++i) {
      const std::string block = block_json(blocks_[i]);
      if (!block.empty() && out.back() != '[') out += ',';
      out += block;
    }
    out += ']';
    if (!weights_version_.empty()) out += R"(,"weights_version":)" + quoted_json(weights_version_);
    if (form_.head.seeds.size() == 1) out += fmt::format(R"(,"seed":{})", form_.head.seeds[0]);
    out += "," + endings() + R"(,"usage":)" + usage_json(usage) + "}";
    return out;
  }

  const AnswerForm form_;
  const int context_tokens_;
  const bool streams_;
  std::vector<MessagesBlock> blocks_;
  bool is_started_ = false, is_open_ = false;
  std::string_view stop_reason_;
  std::string stop_sequence_, weights_version_;
};

}  // namespace

std::string messages_error_json(int status, std::string_view message) {
  return fmt::format(R"({{"type":"error","error":{{"type":"{}","message":{}}}}})", messages_error_type(status),
                     quoted_json(message));
}

std::unique_ptr<AnswerWriter> make_messages_writer(AnswerForm form, int context_tokens, bool stream) {
  return std::make_unique<MessagesWriter>(std::move(form), context_tokens, stream);
}

}  // namespace sluice
