// Used by chat_parsers.cc, text/chat/deepseek_v32_chat.cc, text/chat/deepseek_v4_chat.cc and text/chat/dsml_calls.h.
#include "text/chat/parsers/dsml_parser.h"

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <optional>
#include <utility>

#include "files/json.h"
#include "text/chat/parsers/marker_search.h"

namespace sluice {

namespace {

constexpr std::string_view kThinkClose = "</think>";
constexpr std::string_view kOpenInvoke = "<｜DSML｜invoke";  // attributes and ">" follow
constexpr std::string_view kCloseInvoke = "</｜DSML｜invoke>";
constexpr std::string_view kOpenParameter = "<｜DSML｜parameter";  // attributes and ">" follow
constexpr std::string_view kCloseParameter = "</｜DSML｜parameter>";
constexpr std::size_t kMaxTagBytes = 4096;  // longest invoke or parameter tag

// Text that find_marker holds back is an unfinished tag, not plain text, once it reaches into the bar of "<｜DSML" or
// "</｜DSML".
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

DsmlOutputParser::DsmlOutputParser(const DsmlBlock& block, bool starts_with_reasoning, bool reads_calls)
    : block_(block), reads_calls_(reads_calls), state_(starts_with_reasoning ? State::kReasoning : State::kContent) {}

std::vector<ChatDelta> DsmlOutputParser::push(std::string_view text) {
  if (state_ == State::kDone) return {};
  pending_ += text;
  while (step()) {
  }
  pending_.erase(0, consumed_);
  consumed_ = 0;
  return sink_.take();
}

std::vector<ChatDelta> DsmlOutputParser::finish(AnswerEnd end) {
  if (end == AnswerEnd::kCut) drop_unfinished_marker(pending_);
  switch (state_) {
    case State::kReasoning:
      sink_.reasoning(pending_);
      break;
    case State::kContent:
      sink_.content(pending_);
      break;
    case State::kBlock:
      if (!is_unfinished_tag(pending_)) sink_.content(pending_);
      break;
    case State::kValue:
      finish_value(end);
      break;
    case State::kInvoke:
      if (!is_unfinished_tag(pending_)) stray_ += pending_;
      finish_invoke(end);
      break;
    case State::kParameterHeader:
      finish_invoke(end);
      break;
    case State::kOpening:
    case State::kInvokeHeader:
    case State::kDone:
      break;
  }
  state_ = State::kDone;
  pending_.clear();
  return sink_.take();
}

bool DsmlOutputParser::step() {
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

bool DsmlOutputParser::step_reasoning() {
  static constexpr std::array kMarkers = {kThinkClose};
  const MarkerMatch match = find_marker(rest(), kMarkers);
  sink_.reasoning(rest().substr(0, match.position));
  consumed_ += match.position;
  if (!match.marker) return false;
  consumed_ += kThinkClose.size();
  state_ = State::kContent;
  return true;
}

bool DsmlOutputParser::step_content() {
  if (!reads_calls_) {
    sink_.content(rest());
    consumed_ = pending_.size();
    return false;
  }
  const std::array markers = {block_.open};
  const MarkerMatch match = find_marker(rest(), markers);
  // The blank line before a block belongs to it, as far as the model wrote one.
  const std::size_t end = match.position - newlines_before(rest(), match.position, 2);
  sink_.content(rest().substr(0, end));
  if (!match.marker) {
    consumed_ += end;
    return false;
  }
  const std::size_t next = match.position + block_.open.size();
  markup_ = rest().substr(end, next - end);
  consumed_ += next;
  state_ = State::kOpening;
  return true;
}

bool DsmlOutputParser::step_opening() {
  const std::size_t space = std::min(rest().find_first_not_of(kMarkupSpace), rest().size());
  markup_ += rest().substr(0, space);
  consumed_ += space;
  const std::string_view tail = rest();
  if (tail.starts_with(kOpenInvoke) || tail.starts_with(block_.close)) {
    sink_.after_markup();
    state_ = State::kBlock;
    return true;
  }
  if (kOpenInvoke.starts_with(tail) || block_.close.starts_with(tail)) return false;
  sink_.content(markup_);
  state_ = State::kContent;
  return true;
}

bool DsmlOutputParser::step_block() {
  const std::array markers = {kOpenInvoke, block_.close, block_.open};
  const MarkerMatch match = find_marker(rest(), markers);
  sink_.content(rest().substr(0, match.position));
  consumed_ += match.position;
  if (!match.marker) return false;
  const std::string_view marker = markers[*match.marker];
  consumed_ += marker.size();
  sink_.after_markup();
  if (marker == kOpenInvoke) begin_header(State::kInvokeHeader, marker);
  if (marker == block_.close) state_ = State::kContent;
  return true;  // a repeated opening tag is skipped
}

bool DsmlOutputParser::step_header() {
  const std::string_view text = rest();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') in_quotes_ = !in_quotes_;
    const bool too_long = markup_.size() + i >= kMaxTagBytes;
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

bool DsmlOutputParser::step_invoke() {
  const std::array markers = {kOpenParameter, kCloseInvoke, kOpenInvoke, block_.close};
  const MarkerMatch match = find_marker(rest(), markers);
  stray_ += rest().substr(0, match.position);
  consumed_ += match.position;
  if (!match.marker) return false;
  const std::string_view marker = markers[*match.marker];
  if (marker == kOpenParameter) {
    begin_header(State::kParameterHeader, marker);
  } else {
    end_call(State::kBlock);
    if (marker != kCloseInvoke) return true;  // the block consumes the tag
  }
  consumed_ += marker.size();
  return true;
}

bool DsmlOutputParser::step_value() {
  const std::array markers = {kCloseParameter, kOpenParameter, kCloseInvoke, block_.close};
  const MarkerMatch match = find_marker(rest(), markers);
  const bool closed = match.marker && markers[*match.marker] == kCloseParameter;
  // A line break before a tag is the value's own only if the tag closes it.
  const std::size_t end = closed ? match.position : match.position - newlines_before(rest(), match.position, 1);
  append_value(rest().substr(0, end));
  if (!match.marker) {
    consumed_ += end;
    return false;
  }
  consumed_ += match.position + (closed ? kCloseParameter.size() : 0);
  end_parameter();
  state_ = State::kInvoke;
  return true;
}

void DsmlOutputParser::begin_header(State header, std::string_view tag) {
  state_ = header;
  markup_ = tag;
  in_quotes_ = false;
}

void DsmlOutputParser::end_header(bool too_long) {
  std::optional<std::string> name = too_long ? std::nullopt : attribute(markup_, "name");
  if (state_ == State::kInvokeHeader) {
    if (name && !name->empty()) {
      begin_call(std::move(*name));
    } else {
      sink_.content(markup_);
      state_ = State::kBlock;
    }
  } else if (name) {
    begin_parameter(std::move(*name), attribute(markup_, "string") == "true");
  } else {
    stray_ += markup_;
    state_ = State::kInvoke;
  }
}

void DsmlOutputParser::begin_call(std::string name) {
  parameters_.clear();
  stray_.clear();
  sink_.start_call(std::move(name));
  state_ = State::kInvoke;
}

void DsmlOutputParser::end_call(State next) {
  std::string_view stray = trim_markup(stray_);
  if (!parameters_.empty()) {
    sink_.arguments("}");
  } else if (const auto object = parse_json(stray, "arguments"); object.ok() && object->is_object()) {
    sink_.arguments(std::string(stray));
    stray = {};
  } else {
    sink_.arguments("{}");
  }
  sink_.content(stray);
  stray_.clear();
  sink_.after_markup();
  state_ = next;
}

void DsmlOutputParser::finish_value(AnswerEnd end) {
  if (!is_unfinished_tag(pending_)) append_value(pending_);
  if (end == AnswerEnd::kComplete) {
    end_parameter();
  } else if (!is_string_ && !is_duplicate_) {
    sink_.arguments(trim_markup(value_));
  }
  finish_invoke(end);
}

void DsmlOutputParser::finish_invoke(AnswerEnd end) {
  end == AnswerEnd::kComplete ? end_call(State::kDone) : cut_call();
}

// No closing brace, and an opening one in any case: some clients take nothing at all for no arguments.
void DsmlOutputParser::cut_call() {
  std::string_view stray = trim_markup(stray_);
  if (parameters_.empty()) {
    if (parse_json(stray, "arguments").ok()) stray.remove_suffix(1);
    sink_.arguments(stray.starts_with('{') ? stray : "{");
  }
  sink_.cut_call();
}

void DsmlOutputParser::begin_parameter(std::string name, bool is_string) {
  is_string_ = is_string;
  is_duplicate_ = std::ranges::find(parameters_, name) != parameters_.end();
  value_.clear();
  state_ = State::kValue;
  if (is_duplicate_) return;
  std::string opening(parameters_.empty() ? "{" : ", ");
  append_json_string(opening, name);
  opening += is_string ? ": \"" : ": ";
  sink_.arguments(std::move(opening));
  parameters_.push_back(std::move(name));
}

void DsmlOutputParser::append_value(std::string_view text) {
  if (is_duplicate_ || text.empty()) return;
  if (is_string_) {
    std::string piece;
    append_json_piece(piece, text);
    sink_.arguments(std::move(piece));
  } else {
    value_ += text;
  }
}

void DsmlOutputParser::end_parameter() {
  if (is_duplicate_) return;
  if (is_string_) return sink_.arguments("\"");
  const std::string_view value = trim_markup(value_);
  sink_.arguments(parse_json(value, "parameter").ok() ? std::string(value) : json_string(value_));
}

}  // namespace sluice
