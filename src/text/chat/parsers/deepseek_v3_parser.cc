// Used by chat_parsers.cc.
#include "text/chat/parsers/deepseek_v3_parser.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice {

namespace {

constexpr std::string_view kOpenCalls = "<｜tool▁calls▁begin｜>";
constexpr std::string_view kCloseCalls = "<｜tool▁calls▁end｜>";
constexpr std::string_view kOpenCall = "<｜tool▁call▁begin｜>";
constexpr std::string_view kCloseCall = "<｜tool▁call▁end｜>";
constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
constexpr std::string_view kFence = "```";
constexpr std::size_t kMaxHeaderBytes = 4096;

// Text that find_marker holds back is plain text unless it reaches into the bar that all markers have.
bool is_unfinished_marker(std::string_view held_back) {
  return held_back.find('\xEF') != std::string_view::npos;
}

constexpr std::array kContentMarkers = {kOpenCalls, kOpenCall};
constexpr std::array kBlockMarkers = {kOpenCall, kCloseCalls, kCloseCall, kOpenCalls, kSeparator};
constexpr std::array kHeaderMarkers = {kSeparator, kCloseCall, kCloseCalls, kOpenCall};
constexpr std::array kEndMarkers = {kCloseCall, kCloseCalls, kOpenCall};

}  // namespace

std::vector<ChatDelta> DeepSeekV3OutputParser::push(std::string_view text) {
  if (state_ == State::kDone) return {};
  pending_ += text;
  while (!pending_.empty() && step()) {
  }
  return sink_.take();
}

std::vector<ChatDelta> DeepSeekV3OutputParser::finish(AnswerEnd end) {
  const bool is_complete = end == AnswerEnd::kComplete;
  if (end == AnswerEnd::kCut) drop_unfinished_marker(pending_);
  switch (state_) {
    case State::kContent:
      sink_.content(pending_);
      break;
    case State::kName:  // the name may be cut
      if (is_complete && start_call()) sink_.arguments("{}");
      break;
    case State::kArguments:
      arguments_.finish();
      sink_.arguments(arguments_.take() + (is_complete ? arguments_.completion() : arguments_.held_back()));
      if (!is_complete) sink_.cut_call();
      break;
    case State::kBlock:
      if (!is_unfinished_marker(pending_)) sink_.content(pending_);
      break;
    case State::kType:
    case State::kDone:
      break;
    case State::kTail:
      if (end == AnswerEnd::kCut && kFence.starts_with(trim_markup(tail_))) tail_.clear();
      take_end({});
      break;
  }
  state_ = State::kDone;
  pending_.clear();
  return sink_.take();
}

bool DeepSeekV3OutputParser::step() {
  switch (state_) {
    case State::kContent:
      return step_content();
    case State::kBlock:
      return step_block();
    case State::kType:
    case State::kName:
      return step_header();
    case State::kArguments:
      return step_arguments();
    case State::kTail:
      return step_tail();
    case State::kDone:
      break;
  }
  return false;
}

bool DeepSeekV3OutputParser::step_content() {
  const MarkerMatch match = find_marker(pending_, kContentMarkers);
  const std::size_t end = match.position - newlines_before(pending_, match.position, 2);
  sink_.content(std::string_view(pending_).substr(0, end));
  if (!match.marker) {
    pending_.erase(0, end);
    return false;
  }
  const std::string_view marker = kContentMarkers[*match.marker];
  pending_.erase(0, match.position + (marker == kOpenCalls ? kOpenCalls.size() : 0));
  sink_.after_markup();
  state_ = State::kBlock;
  return true;
}

bool DeepSeekV3OutputParser::step_block() {
  const MarkerMatch match = find_marker(pending_, kBlockMarkers);
  sink_.content(std::string_view(pending_).substr(0, match.position));
  pending_.erase(0, match.position);
  if (!match.marker) return false;
  const std::string_view marker = kBlockMarkers[*match.marker];
  pending_.erase(0, marker.size());
  sink_.after_markup();
  if (marker == kCloseCalls) state_ = State::kContent;
  if (marker == kOpenCall) {
    state_ = State::kType;
    type_.clear();
    name_.clear();
    tail_.clear();
    arguments_ = JsonPrefix();
  }
  return true;
}

// Up to the separator, and from there to the arguments: an opening brace, or a marker when there are none.
bool DeepSeekV3OutputParser::step_header() {
  std::string& header = state_ == State::kType ? type_ : name_;
  const MarkerMatch match = find_marker(pending_, kHeaderMarkers);
  const std::size_t brace = state_ == State::kName ? pending_.find('{') : std::string::npos;
  const std::size_t end = std::min({brace, match.position, kMaxHeaderBytes + 1 - header.size()});
  header += pending_.substr(0, end);
  pending_.erase(0, end);
  if (header.size() > kMaxHeaderBytes) {  // NOLINT(bugprone-branch-clone): the order of the cases counts
    give_up_header();
  } else if (end == brace) {
    state_ = State::kArguments;
    if (!start_call()) give_up_header();
  } else if (!match.marker) {
    return false;
  } else if (kHeaderMarkers[*match.marker] == kSeparator && state_ == State::kType) {
    pending_.erase(0, kSeparator.size());
    state_ = State::kName;
  } else if (start_call()) {
    sink_.arguments("{}");
    state_ = State::kTail;
  } else {
    give_up_header();
  }
  return true;
}

bool DeepSeekV3OutputParser::start_call() {
  std::string_view name = trim_markup(type_);
  const std::string_view behind = trim_markup(name_);
  if (name == "function" && !behind.empty() && !behind.starts_with("```")) {
    name = trim_markup(behind.substr(0, std::min(behind.find('\n'), behind.find("```"))));
  }
  if (name.empty()) return false;
  sink_.start_call(std::string(name));
  return true;
}

// No call: what the header was is content, and what follows stands between calls.
void DeepSeekV3OutputParser::give_up_header() {
  sink_.content(std::exchange(type_, {}));
  sink_.content(std::exchange(name_, {}));
  state_ = State::kBlock;
}

bool DeepSeekV3OutputParser::step_arguments() {
  pending_.erase(0, arguments_.push(pending_));
  sink_.arguments(arguments_.take());
  if (arguments_.status() == JsonPrefix::Status::kOpen) return false;
  if (arguments_.status() == JsonPrefix::Status::kBroken) sink_.arguments(arguments_.completion());
  sink_.after_markup();
  state_ = State::kTail;
  return true;
}

bool DeepSeekV3OutputParser::step_tail() {
  const MarkerMatch match = find_marker(pending_, kEndMarkers);
  tail_ += pending_.substr(0, match.position);
  pending_.erase(0, match.position);
  if (!match.marker) return false;
  take_end(kEndMarkers[*match.marker]);
  return true;
}

void DeepSeekV3OutputParser::take_end(std::string_view marker) {
  std::string_view rest = trim_markup(tail_);
  if (rest.starts_with(kFence)) rest = trim_markup(rest.substr(kFence.size()));
  sink_.content(rest);
  tail_.clear();
  sink_.after_markup();
  state_ = State::kBlock;
  if (marker == kCloseCall) pending_.erase(0, kCloseCall.size());  // the block consumes the other markers
}

}  // namespace sluice
