#include "text/chat/parsers/hermes_parser.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice {

namespace {

constexpr std::string_view kCallOpen = "<tool_call>";
constexpr std::string_view kCallClose = "</tool_call>";

}  // namespace

std::vector<ChatDelta> HermesOutputParser::push(std::string_view text) {
  if (state_ == State::kDone) return {};
  pending_ += text;
  while (!pending_.empty() && step()) {
  }
  return sink_.take();
}

std::vector<ChatDelta> HermesOutputParser::finish(AnswerEnd end) {
  const bool is_cut = end == AnswerEnd::kCut;
  if (is_cut && state_ != State::kCall) drop_unfinished_marker(pending_);
  switch (state_) {
    case State::kContent:
      sink_.content(pending_);
      break;
    case State::kCall:
      call_->finish(end);
      if (!call_->has_started() && !is_cut) sink_.content(opening_ + pending_);
      break;
    case State::kAfterCall:
      if (pending_.size() == 1) sink_.content(pending_);  // more is the start of a tag
      break;
    case State::kDone:
      break;
  }
  state_ = State::kDone;
  pending_.clear();
  return sink_.take();
}

bool HermesOutputParser::step() {
  switch (state_) {
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

void HermesOutputParser::begin_call(std::string opening) {
  state_ = State::kCall;
  opening_ = std::move(opening);
  call_.emplace(sink_, /*needs_arguments=*/false);
  read_ = 0;
}

bool HermesOutputParser::step_content() {
  static constexpr std::array kMarkers = {kCallOpen};
  const MarkerMatch match = find_marker(pending_, kMarkers);
  const std::size_t end = match.position - newlines_before(pending_, match.position, 2);
  sink_.content(std::string_view(pending_).substr(0, end));
  if (!match.marker) {
    pending_.erase(0, end);
    return false;
  }
  const std::size_t next = match.position + kCallOpen.size();
  begin_call(pending_.substr(end, next - end));
  pending_.erase(0, next);
  return true;
}

bool HermesOutputParser::step_call() {
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

bool HermesOutputParser::step_after_call() {
  static constexpr std::array kMarkers = {kCallClose, kCallOpen};
  const MarkerMatch match = find_marker(pending_, kMarkers);
  sink_.content(std::string_view(pending_).substr(0, match.position));
  if (!match.marker) {
    pending_.erase(0, match.position);
    return false;
  }
  const std::string_view marker = kMarkers[*match.marker];
  pending_.erase(0, match.position + marker.size());
  sink_.after_markup();
  state_ = State::kContent;
  if (marker == kCallOpen) begin_call(std::string(kCallOpen));
  return true;
}

}  // namespace sluice
