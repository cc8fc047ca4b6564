// DeltaSink: collects the deltas of an answer in order, adjacent texts joined.
// Thread safety: belongs to one parser.
// Used by text/chat/parsers.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/chat.h"
#include "text/chat/parsers/marker_search.h"

namespace sluice {

class DeltaSink {
 public:
  void reasoning(std::string_view text) { add(ChatDelta::Kind::kReasoning, std::string(text), 0); }

  // Text of the answer. After markup, white space is held back: it counts only if other text follows.
  void content(std::string_view text) {
    if (!after_markup_) return add(ChatDelta::Kind::kContent, std::string(text), 0);
    space_ += text;
    if (is_blank(text)) return;
    after_markup_ = false;
    add(ChatDelta::Kind::kContent, std::exchange(space_, {}), 0);
  }
  void after_markup() {
    after_markup_ = true;
    space_.clear();
  }

  void start_call(std::string name) { add(ChatDelta::Kind::kToolCall, std::move(name), ++call_index_); }
  // Adds more of the arguments of the last call.
  void arguments(std::string_view text) { add(ChatDelta::Kind::kToolCallArguments, std::string(text), call_index_); }

  // The arguments of the last call end here, in their middle.
  void cut_call() { is_cut_ = true; }

  bool has_whole_calls() const { return call_index_ >= 0 && !is_cut_; }
  std::vector<ChatDelta> take() { return std::exchange(deltas_, {}); }

 private:
  void add(ChatDelta::Kind kind, std::string text, int index) {
    if (text.empty()) return;
    if (!deltas_.empty() && kind != ChatDelta::Kind::kToolCall && deltas_.back().kind == kind) {
      deltas_.back().text += text;
    } else {
      deltas_.push_back({.kind = kind, .text = std::move(text), .index = index});
    }
  }

  std::vector<ChatDelta> deltas_;
  bool after_markup_ = false;
  std::string space_;    // held back after markup
  int call_index_ = -1;  // the last call that started
  bool is_cut_ = false;
};

}  // namespace sluice
