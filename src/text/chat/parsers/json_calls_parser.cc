// Used by hermes_parser.h and llama3_parser.h.
#include "text/chat/parsers/json_calls_parser.h"

#include <utility>

namespace sluice {

std::vector<ChatDelta> JsonCallsParser::push(std::string_view text) {
  if (state_ == State::kDone) return {};
  pending_ += text;
  while (!pending_.empty() && step()) {
  }
  return sink_.take();
}

std::vector<ChatDelta> JsonCallsParser::finish(AnswerEnd end) {
  const bool is_cut = end == AnswerEnd::kCut;
  switch (state_) {
    case State::kStart:
      if (!is_cut) sink_.content(pending_);  // blanks, before whatever was to come
      break;
    case State::kContent:
      if (is_cut) drop_unfinished_marker(pending_);
      sink_.content(pending_);
      break;
    case State::kCall:
      finish_call(end);
      break;
    case State::kAfterCall:
      finish_after_call(is_cut);
      break;
    case State::kDone:
      break;
  }
  state_ = State::kDone;
  pending_.clear();
  return sink_.take();
}

void JsonCallsParser::finish_call(AnswerEnd end) {
  const bool may_be_call = is_tagged_ || sink_.has_whole_calls() || call_->may_be_call();
  call_->finish(end);
  if (call_->has_started() || (end == AnswerEnd::kCut && may_be_call)) return;
  sink_.content(opening_ + pending_);
}

bool JsonCallsParser::step() {
  switch (state_) {
    case State::kStart:
      return step_start();
    case State::kContent:
      return step_content();
    case State::kCall:
      return step_call();
    case State::kAfterCall:
      return step_after_call();
    case State::kDone:
      break;
  }
  return false;
}

void JsonCallsParser::begin_call(std::string opening, bool is_tagged) {
  state_ = State::kCall;
  opening_ = std::move(opening);
  is_tagged_ = is_tagged;
  call_.emplace(sink_, needs_arguments_);
  read_ = 0;
}

bool JsonCallsParser::step_content() {
  const MarkerMatch match = find_marker(pending_, {&tag_, 1});
  const std::size_t end = match.position - newlines_before(pending_, match.position, most_newlines_);
  sink_.content(std::string_view(pending_).substr(0, end));
  std::size_t next = end;
  if (match.marker) {
    next = match.position + tag_.size();
    begin_call(pending_.substr(end, next - end), /*is_tagged=*/true);
  }
  pending_.erase(0, next);
  return match.marker.has_value();
}

bool JsonCallsParser::step_call() {
  read_ += call_->push(std::string_view(pending_).substr(read_));
  if (call_->has_started()) {
    pending_.erase(0, read_);
    read_ = 0;
  }
  if (call_->status() == JsonCallReader::Status::kOpen) return false;
  if (call_->has_started()) {
    call_->finish(AnswerEnd::kComplete);
    sink_.after_markup();
    state_ = State::kAfterCall;
  } else {
    sink_.content(opening_);
    state_ = State::kContent;
  }
  return true;
}

}  // namespace sluice
