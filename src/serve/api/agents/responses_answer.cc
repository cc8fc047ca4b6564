// The answers of /v1/responses.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <ctime>
#include <iterator>
#include <utility>
#include <vector>

#include "files/json.h"
#include "serve/api/agents/agent_answer.h"
#include "serve/generate/reasoning_seal.h"

namespace sluice {
namespace {

namespace json = boost::json;
using Kind = ChatDelta::Kind;

// An item of the output: reasoning, a message or a call.
struct ResponsesItem {
  Kind kind;  // kReasoning, kContent or kToolCall
  std::string id, call_id, text;
  ClientTool tool = {};  // the tool that is called
  std::string logprobs = {};
  std::string_view status = "in_progress";
};

// The one part of an item's content.
std::string part_json(Kind kind, std::string_view text, std::string_view logprobs) {
  if (kind == Kind::kReasoning) return fmt::format(R"({{"type":"reasoning_text","text":{}}})", quoted_json(text));
  return fmt::format(R"({{"type":"output_text","annotations":[],"logprobs":[{}],"text":{}}})", logprobs,
                     quoted_json(text));
}

class ResponsesWriter final : public AnswerWriter {
 public:
  ResponsesWriter(AnswerForm form, json::object echo, ClientTools tools, bool seals, bool stream)
      : form_(std::move(form)), echo_(std::move(echo)), tools_(std::move(tools)), seals_(seals), streams_(stream) {}

  void begin(const Usage& /*so_far*/, std::string& out) override {
    event(out, "response.created", R"("response":)" + response("in_progress", "", nullptr, nullptr));
    event(out, "response.in_progress", R"("response":)" + response("in_progress", "", nullptr, nullptr));
  }

  void delta(int /*choice*/, const GenerationDelta& delta, const Usage& /*so_far*/, std::string& out) override {
    if (delta.weights_version != nullptr) weights_version_ = *delta.weights_version;
    if (form_.logprobs) append_token_logprobs(logprobs_, delta, form_);
    for (const ChatDelta& text : delta.text) add(text, out);
    if (!delta.finished) return;
    if (delta.finish_reason == "length") ending_ = "incomplete";
    close(out, ending_);
  }

  void end(const Usage& usage, std::string& out) override {
    const std::string_view reason = ending_ == "incomplete" ? "max_output_tokens" : "";
    const std::string whole = response(ending_, reason, &usage, nullptr);
    if (!streams_) {
      out = whole;
      return;
    }
    event(out, fmt::format("response.{}", ending_), R"("response":)" + whole);
  }

  void fail(const ApiError& error, const Usage& so_far, std::string& out) override {
    close(out, "incomplete");
    event(out, "response.failed", R"("response":)" + response("failed", "", &so_far, &error));
  }

 private:
  void event(std::string& out, std::string_view type, std::string_view fields) {
    if (!streams_) return;
    append_named_event(out, type,
                       fmt::format(R"({{"type":"{}","sequence_number":{},{}}})", type, sequence_number_++, fields));
  }

  // "item_id":...,"output_index":...
  std::string place() const {
    return fmt::format(R"("item_id":"{}","output_index":{})", items_.back().id, items_.size() - 1);
  }

  void open(Kind kind, std::string_view name, std::string& out) {
    close(out, "completed");
    const bool is_call = kind == Kind::kToolCall;
    const auto known = tools_.find(name);
    const ClientTool tool = known != tools_.end() ? known->second : ClientTool{std::string(name), "", false};
    const std::string_view prefix = kind == Kind::kReasoning ? "rs_"
                                    : !is_call               ? "msg_"
                                    : tool.is_custom         ? "ctc_"
                                                             : "fc_";
    items_.push_back({kind, random_id(prefix), is_call ? random_id("call_") : "", "", tool});
    is_open_ = true;
    if (!streams_) return;
    event(out, "response.output_item.added",
          fmt::format(R"("output_index":{},"item":{})", items_.size() - 1, item_json(items_.back())));
    if (is_call) return;
    event(out, "response.content_part.added",
          fmt::format(R"({},"content_index":0,"part":{})", place(), part_json(kind, "", "")));
  }

  void add(const ChatDelta& delta, std::string& out) {
    const bool is_call = delta.kind == Kind::kToolCallArguments;
    const Kind kind = is_call ? Kind::kToolCall : delta.kind;
    if (delta.kind == Kind::kToolCall) return open(kind, delta.text, out);
    if (!is_open_ || items_.back().kind != kind) open(kind, "", out);
    ResponsesItem& item = items_.back();
    item.text += delta.text;
    // Log-probabilities belong to the text that their tokens let pass. Reasoning and calls have none in this API.
    const std::string logprobs = std::exchange(logprobs_, {});
    if (kind == Kind::kContent && !logprobs.empty()) item.logprobs += (item.logprobs.empty() ? "" : ",") + logprobs;
    if (!streams_ || item.tool.is_custom) return;
    const std::string text = quoted_json(delta.text);
    switch (kind) {
      case Kind::kReasoning:
        return event(out, "response.reasoning_text.delta",
                     fmt::format(R"({},"content_index":0,"delta":{})", place(), text));
      case Kind::kContent:
        return event(out, "response.output_text.delta",
                     fmt::format(R"({},"content_index":0,"delta":{},"logprobs":[{}])", place(), text, logprobs));
      default:
        return event(out, "response.function_call_arguments.delta", fmt::format(R"({},"delta":{})", place(), text));
    }
  }

  void close(std::string& out, std::string_view status) {
    if (!std::exchange(is_open_, false)) return;
    ResponsesItem& item = items_.back();
    item.status = status;
    if (!streams_) return;
    const std::string text = quoted_json(item.text);
    if (item.tool.is_custom) {
      const std::string input = quoted_json(custom_input(item.text));
      event(out, "response.custom_tool_call_input.delta", fmt::format(R"({},"delta":{})", place(), input));
      event(out, "response.custom_tool_call_input.done", fmt::format(R"({},"input":{})", place(), input));
    } else if (item.kind == Kind::kToolCall) {
      event(out, "response.function_call_arguments.done",
            fmt::format(R"({},"name":{},"arguments":{})", place(), quoted_json(item.tool.name), text));
    } else {
      const bool reasons = item.kind == Kind::kReasoning;
      event(out, reasons ? "response.reasoning_text.done" : "response.output_text.done",
            fmt::format(R"({},"content_index":0,"text":{}{})", place(), text,
                        reasons ? "" : fmt::format(R"(,"logprobs":[{}])", item.logprobs)));
      event(out, "response.content_part.done",
            fmt::format(R"({},"content_index":0,"part":{})", place(), part_json(item.kind, item.text, item.logprobs)));
    }
    event(out, "response.output_item.done",
          fmt::format(R"("output_index":{},"item":{})", items_.size() - 1, item_json(item)));
  }

  std::string item_json(const ResponsesItem& item) const {
    const bool is_new = item.status == "in_progress";
    switch (item.kind) {
      case Kind::kReasoning: {
        std::string out = fmt::format(R"({{"type":"reasoning","id":"{}","summary":[],"content":[{}],"status":"{}")",
                                      item.id, is_new ? "" : part_json(item.kind, item.text, ""), item.status);
        if (seals_ && !is_new) out += R"(,"encrypted_content":)" + quoted_json(sealed_reasoning(item.text));
        return out + "}";
      }
      case Kind::kContent:
        return fmt::format(R"({{"type":"message","id":"{}","role":"assistant","content":[{}],"status":"{}"}})", item.id,
                           is_new ? "" : part_json(item.kind, item.text, item.logprobs), item.status);
      default:
        return call_json(item);
    }
  }

  static std::string call_json(const ResponsesItem& item) {
    const ClientTool& tool = item.tool;
    const std::string space = tool.space.empty() ? "" : R"(,"namespace":)" + quoted_json(tool.space);
    if (tool.is_custom) {
      return fmt::format(
          R"({{"type":"custom_tool_call","id":"{}","call_id":"{}","name":{}{},"input":{},"status":"{}"}})", item.id,
          item.call_id, quoted_json(tool.name), space, quoted_json(custom_input(item.text)), item.status);
    }
    return fmt::format(
        R"({{"type":"function_call","id":"{}","call_id":"{}","name":{}{},"arguments":{},"status":"{}"}})", item.id,
        item.call_id, quoted_json(tool.name), space, quoted_json(item.text), item.status);
  }

  std::string response(std::string_view status, std::string_view incomplete_reason, const Usage* usage,
                       const ApiError* error) const {
    json::object head{{"id", form_.head.id}, {"object", "response"}, {"created_at", form_.head.created}};
    head["completed_at"] = status == "completed" ? json::value(std::int64_t{std::time(nullptr)}) : json::value();
    head["status"] = status;
    head["model"] = form_.head.model;
    head["system_fingerprint"] = form_.head.fingerprint;
    if (!weights_version_.empty()) head["weights_version"] = weights_version_;
    if (form_.head.seeds.size() == 1) head["seed"] = form_.head.seeds[0];
    for (const std::string_view key : {"instructions", "max_output_tokens", "max_tool_calls", "previous_response_id",
                                       "temperature", "top_p", "user"}) {
      head[key] = nullptr;
    }
    head["background"] = false;
    head["metadata"] = json::object();
    head["parallel_tool_calls"] = true;
    head["reasoning"] = json::object{{"effort", nullptr}, {"summary", nullptr}};
    head["service_tier"] = "default";
    head["store"] = false;
    head["text"] = json::object{{"format", json::object{{"type", "text"}}}};
    head["tool_choice"] = "auto";
    head["tools"] = json::array();
    head["truncation"] = "disabled";
    for (const auto& [key, value] : echo_) head[key] = value;
    head["incomplete_details"] = nullptr;
    if (!incomplete_reason.empty()) head["incomplete_details"] = json::object{{"reason", incomplete_reason}};
    head["error"] = nullptr;
    if (error != nullptr) {
      head["error"] = json::object{{"code", error->code.empty() ? "server_error" : std::string_view(error->code)},
                                   {"message", error->message}};
    }
    std::string out = dump_json(head);
    out.pop_back();
    out += R"(,"output":[)";
    for (const ResponsesItem& item : items_) {
      if (out.back() != '[') out += ',';
      out += item_json(item);
    }
    out += R"(],"usage":)";
    return out + (usage != nullptr ? usage_json(*usage) : "null") + "}";
  }

  static std::string usage_json(const Usage& usage) {
    return fmt::format(
        R"({{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{},"cache_write_tokens":0}},"output_tokens":{},)"
        R"("output_tokens_details":{{"reasoning_tokens":{}}},"total_tokens":{}}})",
        usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, usage.reasoning_tokens,
        usage.prompt_tokens + usage.completion_tokens);
  }

  const AnswerForm form_;
  const json::object echo_;
  const ClientTools tools_;
  const bool seals_, streams_;
  int sequence_number_ = 0;
  std::string weights_version_;  // known once something was computed
  std::vector<ResponsesItem> items_;
  std::string logprobs_;  // log-probabilities of tokens whose text has yet to pass
  bool is_open_ = false;  // the last item is open
  std::string_view ending_ = "completed";
};

}  // namespace

std::string quoted_json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

void append_named_event(std::string& out, std::string_view type, std::string_view data) {
  out += "event: ";
  out += type;
  out += '\n';
  append_event(out, data);
}

std::unique_ptr<AnswerWriter> make_responses_writer(AnswerForm form, json::object echo, ClientTools tools,
                                                    bool seals_reasoning, bool stream) {
  return std::make_unique<ResponsesWriter>(std::move(form), std::move(echo), std::move(tools), seals_reasoning, stream);
}

}  // namespace sluice
