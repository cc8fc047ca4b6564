// Used by serve/generate/answer_constraint.cc, serve/generate/tool_constraint.cc and verify/law_constraint.cc.
#include "grammar/behind_marker.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice {

BehindMarker::BehindMarker(std::string marker, const Matcher& grammar, bool may_end)
    : marker_(std::move(marker)), borders_(marker_.size() + 1), grammar_(grammar), may_end_(may_end), steps_(1) {
  SLUICE_CHECK(!marker_.empty(), "a marker has text");
  for (std::size_t n = 2; n <= marker_.size(); ++n) {
    std::size_t border = borders_[n - 1];
    while (border > 0 && marker_[border] != marker_[n - 1]) border = borders_[border];
    borders_[n] = marker_[border] == marker_[n - 1] ? border + 1 : 0;
  }
}

std::size_t BehindMarker::advance(std::size_t matched, char byte) const {
  while (matched > 0 && marker_[matched] != byte) matched = borders_[matched];
  return marker_[matched] == byte ? matched + 1 : 0;
}

std::size_t BehindMarker::end_in(std::string_view bytes, std::size_t& matched) const {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    matched = advance(matched, bytes[i]);
    if (matched == marker_.size()) return i + 1;
  }
  return std::string_view::npos;
}

// Only a token with the last byte of the marker can reach its end.
Status BehindMarker::allowed(std::span<std::uint32_t> words) {
  if (steps_.back().begun) return grammar_.allowed(words);
  if (steps_.back().ended) return internal_error("a token was asked for behind the end of a constrained answer");
  const TokenTrie& trie = grammar_.trie();
  std::ranges::fill(words, 0U);
  std::ranges::copy(trie.texts(), words.begin());
  if (may_end_) {
    for (const std::int32_t id : trie.ends()) {
      words[static_cast<std::size_t>(id) / 32] |= 1U << (static_cast<unsigned>(id) % 32);
    }
  }
  for (const std::int32_t id : trie.tokens_with(marker_.back())) {
    const std::string_view bytes = trie.bytes(id);
    std::size_t matched = steps_.back().matched;
    const std::size_t end = end_in(bytes, matched);
    if (end == std::string_view::npos || end == bytes.size()) continue;
    Matcher next = grammar_;
    if (next.accept_bytes(bytes.substr(end))) continue;
    words[static_cast<std::size_t>(id) / 32] &= ~(1U << (static_cast<unsigned>(id) % 32));
  }
  return {};
}

bool BehindMarker::accept(std::int32_t token) {
  Step step = steps_.back();
  if (step.ended) return false;
  if (!step.begun && grammar_.trie().is_end(token)) {
    if (!may_end_) return false;
    step.ended = true;
  } else if (step.begun) {
    step.is_of_grammar = true;
    if (!grammar_.accept(token)) return false;
  } else {
    const std::string_view bytes = grammar_.trie().bytes(token);
    if (bytes.empty()) return false;
    const std::size_t end = end_in(bytes, step.matched);
    step.begun = end != std::string_view::npos;
    step.is_of_grammar = step.begun && end < bytes.size();
    if (step.is_of_grammar && !grammar_.accept_bytes(bytes.substr(end))) return false;
  }
  steps_.push_back(step);
  return true;
}

void BehindMarker::rollback(std::size_t tokens) {
  SLUICE_CHECK(tokens < steps_.size(), "no more is taken back than was accepted");
  for (; tokens > 0; --tokens) {
    if (steps_.back().is_of_grammar) grammar_.rollback(1);
    steps_.pop_back();
  }
}

int BehindMarker::forced(std::span<std::int32_t> tokens) {
  return steps_.back().begun ? grammar_.forced(tokens) : 0;
}

std::unique_ptr<TokenConstraint> BehindMarker::copy() const {
  return std::make_unique<BehindMarker>(*this);
}

}  // namespace sluice
