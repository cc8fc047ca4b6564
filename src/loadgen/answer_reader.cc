// Used by load_run.h.
#include "loadgen/answer_reader.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <utility>

#include "files/json.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostBodyBytes = 256 << 20;
constexpr std::size_t kShownBytes = 300;  // bytes of an error's body that a message shows

const json::value* find(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

const json::object* find_object(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  return value != nullptr ? value->if_object() : nullptr;
}

void append_string(const json::object& object, std::string_view key, std::string& out) {
  if (const json::value* value = find(object, key); value != nullptr && value->is_string()) out += value->get_string();
}

// Names and arguments of the tool calls of a message or a delta.
void append_calls(const json::object& message, std::string& out) {
  const json::value* calls = find(message, "tool_calls");
  if (calls == nullptr || !calls->is_array()) return;
  for (const json::value& call : calls->get_array()) {
    const json::object* function = call.is_object() ? find_object(call.get_object(), "function") : nullptr;
    if (function == nullptr) continue;
    append_string(*function, "name", out);
    append_string(*function, "arguments", out);
  }
}

// The numbers alone: chat's {"content": [{"logprob": x}, ...]} and completions' {"token_logprobs": [x, ...]}.
void append_logprobs(const json::object& logprobs, std::string& out) {
  const auto append = [&out](const json::value& number) { out += dump_json(number) + ","; };
  if (const json::value* list = find(logprobs, "token_logprobs"); list != nullptr && list->is_array()) {
    for (const json::value& number : list->get_array()) append(number);
  }
  if (const json::value* list = find(logprobs, "content"); list != nullptr && list->is_array()) {
    for (const json::value& token : list->get_array()) {
      if (const json::value* number = token.is_object() ? find(token.get_object(), "logprob") : nullptr)
        append(*number);
    }
  }
}

int integer(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  return value != nullptr && value->is_int64() ? static_cast<int>(value->get_int64()) : -1;
}

}  // namespace

const char* failure_name(Failure failure) {
  switch (failure) {
    case Failure::kNone:
      return "none";
    case Failure::kConnect:
      return "connect";
    case Failure::kStatus:
      return "status";
    case Failure::kTimeout:
      return "timeout";
    case Failure::kCut:
      return "cut";
    case Failure::kMalformed:
      return "malformed";
    case Failure::kErrorEvent:
      return "error_event";
    case Failure::kMixed:
      return "mixed";
    case Failure::kNoTokens:
      return "no_tokens";
    case Failure::kGivenUp:
      return "given_up";
  }
  return "unknown";
}

HttpEvents AnswerReader::events(std::function<void(AnswerRecord)> ended) {
  return {.on_head = [this](int status, bool events) { take_head(status, events); },
          .on_body = [this](std::string_view bytes) { take_bytes(bytes); },
          .on_end =
              [this, ended = std::move(ended)](CallEnd end, const std::string& reason) {
                record_.end = LoadClock::now();
                finish(end, reason);
                ended(std::move(record_));
              }};
}

void AnswerReader::fail(Failure failure, std::string reason) {
  if (record_.failure != Failure::kNone) return;  // the first failure is the cause
  record_.failure = failure;
  record_.reason = std::move(reason);
}

void AnswerReader::take_head(int status, bool events) {
  record_.status = status;
  streamed_ = events && status == 200;
}

void AnswerReader::take_bytes(std::string_view bytes) {
  if (!streamed_) {
    if (body_.size() + bytes.size() <= kMostBodyBytes) {
      body_ += bytes;
    } else {
      fail(Failure::kMalformed, "the answer is larger than 256 MiB");
    }
  } else if (!reader_.feed(bytes, [this](std::string_view data) { take_event(data); })) {
    fail(Failure::kMalformed, "an event is larger than 64 MiB");
  }
}

void AnswerReader::take_event(std::string_view data) {
  if (done_) return fail(Failure::kMalformed, "an event behind [DONE]");
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const Result<json::value> value = parse_json(data, "an event");
  if (!value.ok()) return fail(Failure::kMalformed, value.status().message());
  if (!value->is_object()) return fail(Failure::kMalformed, "an event that is not an object");
  take_object(value->get_object());
}

void AnswerReader::take_whole() {
  const Result<json::value> value = parse_json(body_, "the answer");
  if (!value.ok()) return fail(Failure::kMalformed, value.status().message());
  if (!value->is_object()) return fail(Failure::kMalformed, "the answer is not an object");
  take_object(value->get_object());
  done_ = true;
}

void AnswerReader::take_object(const json::object& object) {
  if (const json::value* error = find(object, "error"))
    return fail(Failure::kErrorEvent, dump_json(*error).substr(0, kShownBytes));
  std::string id;
  append_string(object, "id", id);
  if (id_.empty()) id_ = id;
  if (id != id_) return fail(Failure::kMixed, fmt::format("an event of '{}' in the answer '{}'", id, id_));
  take_usage(object);
  const json::value* choices = find(object, "choices");
  if (choices == nullptr || !choices->is_array()) return fail(Failure::kMalformed, "no list of choices");
  for (const json::value& choice : choices->get_array()) {
    if (choice.is_object()) take_choice(choice.get_object());
  }
}

void AnswerReader::take_choice(const json::object& choice) {
  std::string piece;
  for (const char* key : {"delta", "message"}) {
    if (const json::object* message = find_object(choice, key)) {
      append_string(*message, find(*message, "reasoning_content") != nullptr ? "reasoning_content" : "reasoning",
                    piece);
      append_string(*message, "content", piece);
      append_calls(*message, piece);
    }
  }
  append_string(choice, "text", piece);
  if (!piece.empty()) {
    record_.token_times.push_back(LoadClock::now());
    record_.text += piece;
    record_.pieces.push_back(std::move(piece));
  }
  if (const json::object* logprobs = find_object(choice, "logprobs")) append_logprobs(*logprobs, record_.logprobs);
  append_string(choice, "finish_reason", record_.finish_reason);
}

void AnswerReader::take_usage(const json::object& object) {
  const json::object* usage = find_object(object, "usage");
  if (usage == nullptr) return;
  record_.prompt_tokens = integer(*usage, "prompt_tokens");
  record_.completion_tokens = integer(*usage, "completion_tokens");
  if (const json::object* details = find_object(*usage, "prompt_tokens_details"))
    record_.cached_tokens = integer(*details, "cached_tokens");
}

void AnswerReader::finish(CallEnd end, const std::string& reason) {
  switch (end) {
    case CallEnd::kConnect:
      return fail(Failure::kConnect, reason);
    case CallEnd::kTimeout:
      return fail(Failure::kTimeout, reason);
    case CallEnd::kMalformed:
      return fail(Failure::kMalformed, reason);
    case CallEnd::kBroken:
      return fail(Failure::kCut, reason);
    case CallEnd::kGivenUp:
      return fail(Failure::kGivenUp, reason);
    case CallEnd::kWhole:
      break;
  }
  if (record_.status != 200)
    return fail(Failure::kStatus, fmt::format("{}: {}", record_.status, body_.substr(0, kShownBytes)));
  if (!streamed_) take_whole();
  if (!done_) return fail(Failure::kCut, "the stream ended without [DONE]");
  if (record_.finish_reason.empty()) return fail(Failure::kCut, "no choice has a finish_reason");
  if (record_.token_times.empty() && record_.completion_tokens != 0)
    return fail(Failure::kNoTokens, "the answer has neither text nor reasoning nor a tool call");
}

}  // namespace sluice
