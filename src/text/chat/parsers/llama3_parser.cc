#include "text/chat/parsers/llama3_parser.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice {

namespace {

constexpr std::string_view kPythonTag = "<|python_tag|>";

}  // namespace

std::vector<ChatDelta> Llama3OutputParser::push(std::string_view text) {
  if (state_ == State::kDone) return {};
  pending_ += text;
  while (!pending_.empty() && step()) {
  }
  return sink_.take();
}

std::vector<ChatDelta> Llama3OutputParser::finish(AnswerEnd end) {
  const bool is_cut = end == AnswerEnd::kCut;
  switch (state_) {
    case State::kStart:
      if (!is_cut) sink_.content(pending_);  // blanks, before whatever was to come
      break;
    case State::kContent:
      if (is_cut) drop_unfinished_marker(pending_);
      sink_.content(pending_);
      break;
    case State::kCall: {
      const bool may_be_call = opening_ == kPythonTag || sink_.has_whole_calls() || call_->may_be_call();
      call_->finish(end);
      if (call_->has_started() || (is_cut && may_be_call)) break;
      sink_.content(opening_ + pending_);
      break;
    }
    case State::kBetween:  // what is left parts calls that did not come
    case State::kDone:
      break;
  }
  state_ = State::kDone;
  pending_.clear();
  return sink_.take();
}

bool Llama3OutputParser::step() {
  switch (state_) {
    case State::kStart:
      return step_start();
    case State::kContent:
      return step_content();
    case State::kCall:
      return step_call();
    case State::kBetween:
      return step_between();
    case State::kDone:
      break;
  }
  return false;
}

void Llama3OutputParser::begin_call(std::string opening) {
  state_ = State::kCall;
  opening_ = std::move(opening);
  call_.emplace(sink_, /*needs_arguments=*/true);
  read_ = 0;
}

// Past the bytes of `blank`, to a call if it begins there, else to content.
bool Llama3OutputParser::step_past(std::string_view blank) {
  blanks_ = std::min(pending_.find_first_not_of(blank, blanks_), pending_.size());
  if (blanks_ == pending_.size()) return false;
  if (pending_[blanks_] == '{') {
    begin_call(pending_.substr(0, blanks_));
    pending_.erase(0, blanks_);
  } else {
    state_ = State::kContent;
  }
  return true;
}

bool Llama3OutputParser::step_start() {
  return step_past(kMarkupSpace);
}

bool Llama3OutputParser::step_content() {
  static constexpr std::array kMarkers = {kPythonTag};
  const MarkerMatch match = find_marker(pending_, kMarkers);
  sink_.content(std::string_view(pending_).substr(0, match.position));
  pending_.erase(0, match.position);
  if (!match.marker) return false;
  pending_.erase(0, kPythonTag.size());
  begin_call(std::string(kPythonTag));
  return true;
}

bool Llama3OutputParser::step_call() {
  read_ += call_->push(std::string_view(pending_).substr(read_));
  if (call_->has_started()) {
    pending_.erase(0, read_);
    read_ = 0;
  }
  if (call_->status() == JsonCallReader::Status::kOpen) return false;
  if (call_->has_started()) {
    call_->finish(AnswerEnd::kComplete);
    sink_.after_markup();
    state_ = State::kBetween;
    blanks_ = 0;
  } else {
    sink_.content(opening_);
    state_ = State::kContent;
  }
  return true;
}

bool Llama3OutputParser::step_between() {
  return step_past(" \t\r\n;,");
}

}  // namespace sluice
