// Used by json_calls_parser.h.
#include "text/chat/parsers/json_call.h"

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <utility>

#include "files/json.h"

namespace sluice {

namespace {

constexpr std::size_t kMaxKeyBytes = 4096;

constexpr std::array<std::string_view, 5> kCallKeys = {"name", "arguments", "parameters", "type", "id"};

// The text of a JSON string.
std::string decoded(const std::string& json) {
  const auto value = parse_json(json, "string");
  return value.ok() && value->is_string() ? std::string(value->get_string()) : std::string();
}

// The arguments of a call by the value that was written for them.
std::string arguments_text(const std::string& json) {
  const auto value = parse_json(json, "arguments");
  if (!value.ok() || value->is_null()) return "{}";
  if (!value->is_string()) return json;
  std::string text(value->get_string());
  const auto inner = parse_json(text, "arguments");
  return inner.ok() && inner->is_object() ? text : json;
}

}  // namespace

std::size_t JsonCallReader::push(std::string_view text) {
  std::size_t used = 0;
  while (used < text.size() && status_ == Status::kOpen) {
    const std::string_view rest = text.substr(used);
    if (state_ == State::kKeyText) {
      used += push_key(rest);
    } else if (state_ == State::kValue) {
      used += push_value(rest);
    } else if (kMarkupSpace.find(rest.front()) != std::string_view::npos || push_sign(rest.front())) {
      used += state_ == State::kKeyText ? 0 : 1;  // a key begins with its quote
    } else {
      status_ = Status::kBroken;
    }
  }
  return used;
}

bool JsonCallReader::push_sign(char c) {
  switch (state_) {
    case State::kObject:
      state_ = State::kKeyOrEnd;
      return c == '{';
    case State::kKeyOrEnd:
    case State::kKey:
      if (c == '}' && state_ == State::kKeyOrEnd) {
        end_object();
        return true;
      }
      begin(State::kKeyText);
      return c == '"';
    case State::kColon:
      begin(State::kValue);
      return c == ':';
    case State::kAfterValue:
      if (c == '}') end_object();
      if (c == ',') state_ = State::kKey;
      return c == '}' || c == ',';
    case State::kKeyText:
    case State::kValue:
      break;
  }
  return false;
}

void JsonCallReader::begin(State state) {
  state_ = state;
  json_ = JsonPrefix();
  raw_.clear();
}

std::size_t JsonCallReader::push_key(std::string_view text) {
  const std::size_t used = json_.push(text);
  raw_ += json_.take();
  if (json_.status() == JsonPrefix::Status::kComplete) {
    key_ = decoded(raw_);
    has_other_keys_ = has_other_keys_ || std::ranges::find(kCallKeys, key_) == kCallKeys.end();
    state_ = State::kColon;
  } else if (json_.status() == JsonPrefix::Status::kBroken || raw_.size() > kMaxKeyBytes) {
    status_ = Status::kBroken;
  }
  return used;
}

std::size_t JsonCallReader::push_value(std::string_view text) {
  const std::size_t used = json_.push(text);
  const std::string more = json_.take();
  raw_ += more;
  if (is_streaming_) {
    sink_.arguments(more);
  } else if (key_ == "arguments" || key_ == "parameters") {
    if (!name_.empty() && !has_arguments_ && raw_.starts_with('{')) {
      has_arguments_ = is_streaming_ = true;
      start();
      sink_.arguments(raw_);
    }
  }
  if (json_.status() == JsonPrefix::Status::kComplete) {
    end_value();
  } else if (json_.status() == JsonPrefix::Status::kBroken) {
    status_ = Status::kBroken;
  }
  return used;
}

void JsonCallReader::end_value() {
  state_ = State::kAfterValue;
  if (std::exchange(is_streaming_, false)) return;
  if (key_ == "name" && name_.empty()) {
    name_ = decoded(raw_);
  } else if ((key_ == "arguments" || key_ == "parameters") && !has_arguments_) {
    has_arguments_ = true;
    arguments_ = arguments_text(raw_);
  }
  if (has_arguments_ && !started_ && !name_.empty()) pass_on_arguments();
}

void JsonCallReader::start() {
  started_ = true;
  sink_.start_call(name_);
}

void JsonCallReader::pass_on_arguments() {
  start();
  sink_.arguments(arguments_.empty() ? "{}" : arguments_);
}

void JsonCallReader::end_object() {
  status_ = Status::kComplete;
  if (!started_ && !name_.empty() && !needs_arguments_) pass_on_arguments();
}

bool JsonCallReader::may_be_call() const {
  if (status_ == Status::kBroken || has_other_keys_) return false;
  if (state_ != State::kKeyText) return true;
  return std::ranges::any_of(kCallKeys,
                             [&](std::string_view key) { return ("\"" + std::string(key)).starts_with(raw_); });
}

void JsonCallReader::finish(AnswerEnd end) {
  if (std::exchange(is_streaming_, false)) {
    sink_.arguments(end == AnswerEnd::kComplete ? json_.completion() : json_.held_back());
    if (end != AnswerEnd::kComplete) sink_.cut_call();
  }
  if (status_ == Status::kOpen) status_ = Status::kBroken;
}

}  // namespace sluice
