// Used by chat_parsers.cc.
#include "text/chat/parsers/think_parser.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice {

namespace {

constexpr std::string_view kThinkStart = "<think>";
constexpr std::string_view kThinkEnd = "</think>";

void append(std::vector<ChatDelta>& deltas, std::vector<ChatDelta> more) {
  deltas.insert(deltas.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

std::vector<ChatDelta> ThinkOutputParser::push(std::string_view text) {
  if (state_ == State::kDone) return {};
  pending_ += text;
  while (!pending_.empty() && state_ != State::kAnswer && step()) {
  }
  std::vector<ChatDelta> deltas = sink_.take();
  if (state_ == State::kAnswer) append(deltas, answer_->push(std::exchange(pending_, {})));
  return deltas;
}

std::vector<ChatDelta> ThinkOutputParser::finish(AnswerEnd end) {
  if (state_ == State::kDone) return {};
  std::vector<ChatDelta> deltas;
  if (end == AnswerEnd::kCut) drop_unfinished_marker(pending_);
  if (state_ == State::kOpened || state_ == State::kReasoning) {
    if (!pending_.empty()) sink_.reasoning(std::string(newlines_, '\n') + pending_);
    deltas = sink_.take();
  } else if (state_ == State::kStart) {
    deltas = answer_->push(pending_);
  }
  append(deltas, answer_->finish(end));
  state_ = State::kDone;
  pending_.clear();
  return deltas;
}

bool ThinkOutputParser::step() {
  switch (state_) {
    case State::kStart:
      return step_start();
    case State::kOpened:
      return step_opened();
    case State::kReasoning:
      return step_reasoning();
    case State::kClosed:
      return step_closed();
    case State::kAnswer:
    case State::kDone:
      break;
  }
  return false;
}

bool ThinkOutputParser::step_start() {
  blanks_ = std::min(pending_.find_first_not_of(kMarkupSpace, blanks_), pending_.size());
  const std::string_view text = std::string_view(pending_).substr(blanks_);
  if (text.starts_with(kThinkStart)) {
    pending_.erase(0, blanks_ + kThinkStart.size());
    state_ = State::kOpened;
    return true;
  }
  if (kThinkStart.starts_with(text)) return false;
  state_ = State::kAnswer;
  return true;
}

bool ThinkOutputParser::step_opened() {
  pending_.erase(0, std::min(pending_.find_first_not_of('\n'), pending_.size()));
  if (pending_.starts_with(kThinkStart)) {
    pending_.erase(0, kThinkStart.size());
    return true;
  }
  if (kThinkStart.starts_with(pending_)) return false;  // nothing, or what may become the tag
  state_ = State::kReasoning;
  return true;
}

bool ThinkOutputParser::step_reasoning() {
  static constexpr std::array kMarkers = {kThinkEnd};
  const MarkerMatch match = find_marker(pending_, kMarkers);
  const std::size_t newlines = newlines_before(pending_, match.position, pending_.size());
  const std::size_t end = match.position - newlines;
  if (end > 0) sink_.reasoning(std::string(std::exchange(newlines_, 0), '\n') + pending_.substr(0, end));
  newlines_ += newlines;
  if (!match.marker) {
    pending_.erase(0, match.position);
    return false;
  }
  pending_.erase(0, match.position + kThinkEnd.size());
  state_ = State::kClosed;
  return true;
}

bool ThinkOutputParser::step_closed() {
  pending_.erase(0, std::min(pending_.find_first_not_of('\n'), pending_.size()));
  if (!pending_.empty()) state_ = State::kAnswer;
  return true;
}

}  // namespace sluice
