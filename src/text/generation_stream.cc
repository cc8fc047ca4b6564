// Used by cli, cli/commands, serve/api/openai and serve/generate.
#include "text/generation_stream.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace sluice {
namespace {

// Returns whether a parser may take a token of this text for a part of markup.
bool is_of(const AnswerMarkup& markup, std::string_view token) {
  const auto has = [token](std::string_view text) { return text.find(token) != std::string_view::npos; };
  if (markup.reads_reasoning && (has(kReasoningStart) || has(kReasoningEnd))) return true;
  if (markup.calls == nullptr) return false;
  const CallMarkup& c = *markup.calls;
  return std::ranges::any_of(
      std::to_array({c.begins, c.at_start, c.open, c.call, c.name_end, c.call_end, c.between, c.close, c.parameter,
                     c.is_text, c.is_json, c.parameter_end, c.tokens[0], c.tokens[1]}),
      has);
}

}  // namespace

GenerationStream::GenerationStream(const Tokenizer& tokenizer, const std::vector<std::string>& stop, bool logprobs,
                                   std::unique_ptr<ChatOutputParser> parser, ShownText shown)
    : tokenizer_(tokenizer),
      markup_(shown.special_tokens ? std::nullopt : shown.markup),
      detokenizer_(tokenizer, /*skip_special=*/parser == nullptr && !shown.special_tokens),
      stop_(stop, shown.stop_string),
      parser_(std::move(parser)),
      logprobs_(logprobs) {}

GenerationDelta GenerationStream::push(const Output& output) {
  GenerationDelta out;
  if (finished_) return out;
  cached_tokens_ = output.cached_tokens;
  out.prompt_logprobs = output.prompt_logprobs;
  out.exported = output.exported;
  out.weights_version = output.weights_version;
  if (output.token) {
    ++completion_tokens_;
    ++unattributed_tokens_;
    out.token_ids.push_back(*output.token);
    if (logprobs_) {
      out.chosen.push_back({*output.token, output.logprob});
      out.top.push_back(output.top);
    }
    const bool is_end_token = output.finished && output.reason == FinishReason::kStop;
    if (is_end_token) out.stop_token = output.token;
    if (!is_end_token && !hides(*output.token)) pass_on(detokenizer_.push(*output.token), out);
  }
  if (stop_.stopped()) {
    finish(FinishReason::kStop, out);
  } else if (output.finished && (output.reason == FinishReason::kStop || output.reason == FinishReason::kLength)) {
    // Half a character at the end of a cut chat answer may be part of a marker.
    const bool drop_rest = parser_ != nullptr && output.reason == FinishReason::kLength;
    if (!drop_rest) pass_on(detokenizer_.finish(), out);
    finish(output.reason, out);
  } else if (output.finished) {
    finished_ = out.finished = true;
    out.failure = output.reason == FinishReason::kCancelled ? unavailable("the request was cancelled") : output.status;
    if (out.failure.ok()) out.failure = internal_error("the engine ended the request without a reason");
  }
  return out;
}

bool GenerationStream::hides(std::int32_t token) const {
  return markup_ && parser_ != nullptr && tokenizer_.is_special(token) &&
         !is_of(*markup_, tokenizer_.token_bytes(token));
}

void GenerationStream::pass_on(std::string_view text, GenerationDelta& out) {
  if (text.empty() || stop_.stopped()) return;
  if (parser_ != nullptr) return deliver(parser_->push(text), out);
  deliver({{ChatDelta::Kind::kContent, std::string(text), 0}}, out);
}

void GenerationStream::deliver(std::vector<ChatDelta> deltas, GenerationDelta& out) {
  count_reasoning(deltas);
  for (ChatDelta& delta : deltas) {
    if (stop_.stopped()) return;
    const bool is_text = delta.kind == ChatDelta::Kind::kContent || delta.kind == ChatDelta::Kind::kReasoning;
    if (!is_text || delta.kind != text_kind_) deliver_held(out);
    if (is_text) {
      text_kind_ = delta.kind;
      delta.text = stop_.push(delta.text);
      if (delta.text.empty()) continue;
    }
    out.text.push_back(std::move(delta));
  }
}

void GenerationStream::deliver_held(GenerationDelta& out) {
  if (std::string held = stop_.finish(); !held.empty()) out.text.push_back({text_kind_, std::move(held), 0});
}

void GenerationStream::finish(FinishReason reason, GenerationDelta& out) {
  finished_ = out.finished = true;
  if (!stop_.stopped() && parser_ != nullptr) {
    deliver(parser_->finish(reason == FinishReason::kLength ? AnswerEnd::kCut : AnswerEnd::kComplete), out);
  }
  if (!stop_.stopped()) deliver_held(out);
  const bool is_stop = stop_.stopped() || reason == FinishReason::kStop;
  out.finish_reason = is_stop ? "stop" : "length";
  out.stop_string = stop_.found();
  if (is_stop && parser_ != nullptr && parser_->had_tool_calls()) out.finish_reason = "tool_calls";
}

// A token belongs to the text that its arrival lets pass; those that were held back go with the text that follows.
void GenerationStream::count_reasoning(const std::vector<ChatDelta>& text) {
  for (const ChatDelta& delta : text) {
    if (delta.kind == ChatDelta::Kind::kReasoning) reasoning_tokens_ += unattributed_tokens_;
    unattributed_tokens_ = 0;
  }
}

}  // namespace sluice
