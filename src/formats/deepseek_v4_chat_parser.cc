#include "formats/deepseek_v4_chat_parser.h"

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <optional>
#include <span>
#include <utility>

#include "formats/deepseek_v4_chat_text.h"
#include "formats/json.h"

namespace sluice {

namespace {

namespace text = deepseek_v4_text;

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::size_t kMaxHeaderBytes = 4096;  // of an invoke or parameter tag

struct MarkerMatch {
  std::size_t position = 0;  // of the marker, of what may become one at the end of the text, or the end
  std::optional<std::size_t> marker;
};

// The first marker in `text`. All markers start with '<'.
MarkerMatch find_marker(std::string_view text, std::span<const std::string_view> markers) {
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::string_view tail = text.substr(at);
    for (std::size_t i = 0; i < markers.size(); ++i) {
      if (tail.starts_with(markers[i])) return {at, i};
      if (markers[i].starts_with(tail)) return {at, std::nullopt};
    }
  }
  return {text.size(), std::nullopt};
}

// How many of the bytes before `end`, at most `limit`, are newlines.
std::size_t newlines_before(std::string_view text, std::size_t end, std::size_t limit) {
  std::size_t count = 0;
  while (count < limit && count < end && text[end - count - 1] == '\n') ++count;
  return count;
}

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// What find_marker holds back is an unfinished tag, not text, once it reaches into the bar of "<｜DSML" or "</｜DSML".
bool is_unfinished_tag(std::string_view held_back) {
  return held_back.find('\xEF') != std::string_view::npos;
}

// The value of an attribute of a tag, ` key="value"`; a missing closing quote is forgiven.
std::optional<std::string> attribute(std::string_view tag, std::string_view key) {
  std::string opening(" ");
  opening.append(key).append("=\"");
  const std::size_t start = tag.find(opening);
  if (start == std::string_view::npos) return std::nullopt;
  const std::string_view value = tag.substr(start + opening.size());
  const std::size_t quote = value.find('"');
  return std::string(quote == std::string_view::npos ? value.substr(0, value.find_first_of(">\n"))
                                                     : value.substr(0, quote));
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace

DeepSeekV4OutputParser::DeepSeekV4OutputParser(bool starts_with_reasoning)
    : state_(starts_with_reasoning ? State::kReasoning : State::kContent) {}

std::vector<ChatDelta> DeepSeekV4OutputParser::push(std::string_view text) {
  if (state_ == State::kDone) return {};
  pending_ += text;
  while (step()) {
  }
  pending_.erase(0, consumed_);
  consumed_ = 0;
  return std::exchange(deltas_, {});
}

std::vector<ChatDelta> DeepSeekV4OutputParser::finish() {
  switch (state_) {
    case State::kReasoning:
      emit(ChatDelta::Kind::kReasoning, pending_);
      break;
    case State::kContent:
      emit_content(pending_);
      break;
    case State::kBlock:
      if (!is_unfinished_tag(pending_)) emit_content(pending_);
      break;
    case State::kValue:
      if (!is_unfinished_tag(pending_)) append_value(pending_);
      end_parameter();
      end_call(State::kDone);
      break;
    case State::kInvoke:
      if (!is_unfinished_tag(pending_)) stray_ += pending_;
      end_call(State::kDone);
      break;
    case State::kParameterHeader:
      end_call(State::kDone);
      break;
    case State::kOpening:
    case State::kInvokeHeader:
    case State::kDone:
      break;
  }
  state_ = State::kDone;
  pending_.clear();
  return std::exchange(deltas_, {});
}

bool DeepSeekV4OutputParser::step() {
  if (rest().empty()) return false;
  switch (state_) {
    case State::kReasoning:
      return step_reasoning();
    case State::kContent:
      return step_content();
    case State::kOpening:
      return step_opening();
    case State::kBlock:
      return step_block();
    case State::kInvokeHeader:
    case State::kParameterHeader:
      return step_header();
    case State::kInvoke:
      return step_invoke();
    case State::kValue:
      return step_value();
    case State::kDone:
      break;
  }
  return false;
}

bool DeepSeekV4OutputParser::step_reasoning() {
  static constexpr std::array kMarkers = {text::kThinkClose};
  const MarkerMatch match = find_marker(rest(), kMarkers);
  emit(ChatDelta::Kind::kReasoning, std::string(rest().substr(0, match.position)));
  consumed_ += match.position;
  if (!match.marker) return false;
  consumed_ += text::kThinkClose.size();
  state_ = State::kContent;
  return true;
}

bool DeepSeekV4OutputParser::step_content() {
  static constexpr std::array kMarkers = {text::kOpenCalls};
  const MarkerMatch match = find_marker(rest(), kMarkers);
  // The blank line before a block belongs to it, as far as the model wrote one.
  const std::size_t end = match.position - newlines_before(rest(), match.position, 2);
  emit_content(rest().substr(0, end));
  if (!match.marker) {
    consumed_ += end;
    return false;
  }
  const std::size_t next = match.position + text::kOpenCalls.size();
  markup_ = rest().substr(end, next - end);
  consumed_ += next;
  state_ = State::kOpening;
  return true;
}

bool DeepSeekV4OutputParser::step_opening() {
  const std::size_t space = std::min(rest().find_first_not_of(kSpace), rest().size());
  markup_ += rest().substr(0, space);
  consumed_ += space;
  const std::string_view tail = rest();
  if (tail.starts_with(text::kOpenInvoke) || tail.starts_with(text::kCloseCalls)) {
    after_markup();
    state_ = State::kBlock;
    return true;
  }
  if (text::kOpenInvoke.starts_with(tail) || text::kCloseCalls.starts_with(tail)) return false;
  emit_content(markup_);
  state_ = State::kContent;
  return true;
}

bool DeepSeekV4OutputParser::step_block() {
  static constexpr std::array kMarkers = {text::kOpenInvoke, text::kCloseCalls, text::kOpenCalls};
  const MarkerMatch match = find_marker(rest(), kMarkers);
  emit_content(rest().substr(0, match.position));
  consumed_ += match.position;
  if (!match.marker) return false;
  const std::string_view marker = kMarkers[*match.marker];
  consumed_ += marker.size();
  after_markup();
  if (marker == text::kOpenInvoke) begin_header(State::kInvokeHeader, marker);
  if (marker == text::kCloseCalls) state_ = State::kContent;
  return true;  // a repeated opening tag says nothing
}

bool DeepSeekV4OutputParser::step_header() {
  const std::string_view text = rest();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') in_quotes_ = !in_quotes_;
    const bool too_long = markup_.size() + i >= kMaxHeaderBytes;
    const bool ends = text[i] == '\n' || (text[i] == '>' && !in_quotes_);
    if (!ends && !too_long) continue;
    markup_ += text.substr(0, i + 1);
    consumed_ += i + 1;
    end_header(too_long);
    return true;
  }
  markup_ += text;
  consumed_ += text.size();
  return false;
}

bool DeepSeekV4OutputParser::step_invoke() {
  static constexpr std::array kMarkers = {text::kOpenParameter, text::kCloseInvoke, text::kOpenInvoke,
                                          text::kCloseCalls};
  const MarkerMatch match = find_marker(rest(), kMarkers);
  stray_ += rest().substr(0, match.position);
  consumed_ += match.position;
  if (!match.marker) return false;
  const std::string_view marker = kMarkers[*match.marker];
  if (marker == text::kOpenParameter) {
    begin_header(State::kParameterHeader, marker);
  } else {
    end_call(State::kBlock);
    if (marker != text::kCloseInvoke) return true;  // the block takes the tag
  }
  consumed_ += marker.size();
  return true;
}

bool DeepSeekV4OutputParser::step_value() {
  static constexpr std::array kMarkers = {text::kCloseParameter, text::kOpenParameter, text::kCloseInvoke,
                                          text::kCloseCalls};
  const MarkerMatch match = find_marker(rest(), kMarkers);
  const bool closed = match.marker && kMarkers[*match.marker] == text::kCloseParameter;
  // A line break before a tag is the value's own only if the tag closes it.
  const std::size_t end = closed ? match.position : match.position - newlines_before(rest(), match.position, 1);
  append_value(rest().substr(0, end));
  if (!match.marker) {
    consumed_ += end;
    return false;
  }
  consumed_ += match.position + (closed ? text::kCloseParameter.size() : 0);
  end_parameter();
  state_ = State::kInvoke;
  return true;
}

void DeepSeekV4OutputParser::begin_header(State header, std::string_view tag) {
  state_ = header;
  markup_ = tag;
  in_quotes_ = false;
}

void DeepSeekV4OutputParser::end_header(bool too_long) {
  std::optional<std::string> name = too_long ? std::nullopt : attribute(markup_, "name");
  if (state_ == State::kInvokeHeader) {
    if (name && !name->empty()) {
      begin_call(std::move(*name));
    } else {
      emit_content(markup_);
      state_ = State::kBlock;
    }
  } else if (name) {
    begin_parameter(std::move(*name), attribute(markup_, "string") == "true");
  } else {
    stray_ += markup_;
    state_ = State::kInvoke;
  }
}

void DeepSeekV4OutputParser::begin_call(std::string name) {
  ++call_index_;
  parameters_.clear();
  stray_.clear();
  emit(ChatDelta::Kind::kToolCall, std::move(name));
  state_ = State::kInvoke;
}

void DeepSeekV4OutputParser::end_call(State next) {
  std::string_view stray = trim(stray_);
  if (!parameters_.empty()) {
    emit(ChatDelta::Kind::kToolCallArguments, "}");
  } else if (const auto object = parse_json(stray, "arguments"); object.ok() && object->is_object()) {
    emit(ChatDelta::Kind::kToolCallArguments, std::string(stray));
    stray = {};
  } else {
    emit(ChatDelta::Kind::kToolCallArguments, "{}");
  }
  emit_content(stray);
  stray_.clear();
  after_markup();
  state_ = next;
}

void DeepSeekV4OutputParser::begin_parameter(std::string name, bool is_string) {
  is_string_ = is_string;
  is_duplicate_ = std::ranges::find(parameters_, name) != parameters_.end();
  value_.clear();
  state_ = State::kValue;
  if (is_duplicate_) return;
  std::string opening(parameters_.empty() ? "{" : ", ");
  append_json_string(opening, name);
  opening += is_string ? ": \"" : ": ";
  emit(ChatDelta::Kind::kToolCallArguments, std::move(opening));
  parameters_.push_back(std::move(name));
}

void DeepSeekV4OutputParser::append_value(std::string_view text) {
  if (is_duplicate_ || text.empty()) return;
  if (is_string_) {
    const std::string quoted = json_string(text);
    emit(ChatDelta::Kind::kToolCallArguments, quoted.substr(1, quoted.size() - 2));
  } else {
    value_ += text;
  }
}

void DeepSeekV4OutputParser::end_parameter() {
  if (is_duplicate_) return;
  if (is_string_) return emit(ChatDelta::Kind::kToolCallArguments, "\"");
  const std::string_view value = trim(value_);
  emit(ChatDelta::Kind::kToolCallArguments,
       parse_json(value, "parameter").ok() ? std::string(value) : json_string(value_));
}

void DeepSeekV4OutputParser::after_markup() {
  after_markup_ = true;
  space_.clear();
}

void DeepSeekV4OutputParser::emit_content(std::string_view text) {
  if (after_markup_) {
    space_ += text;
    if (text.find_first_not_of(kSpace) == std::string_view::npos) return;
    after_markup_ = false;
    return emit(ChatDelta::Kind::kContent, std::exchange(space_, {}));
  }
  emit(ChatDelta::Kind::kContent, std::string(text));
}

void DeepSeekV4OutputParser::emit(ChatDelta::Kind kind, std::string text) {
  const bool of_call = kind == ChatDelta::Kind::kToolCall || kind == ChatDelta::Kind::kToolCallArguments;
  if (text.empty()) return;
  const int index = of_call ? call_index_ : 0;
  if (!deltas_.empty() && kind != ChatDelta::Kind::kToolCall && deltas_.back().kind == kind) {
    deltas_.back().text += text;
  } else {
    deltas_.push_back({.kind = kind, .text = std::move(text), .index = index});
  }
}

}  // namespace sluice
