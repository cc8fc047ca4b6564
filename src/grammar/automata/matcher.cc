// Used by grammar/behind_marker.h, serve/generate/answer_constraint.cc, serve/generate/tool_constraint.cc and
// verify/law_constraint.cc.
#include "grammar/automata/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/threads/mutex.h"

namespace sluice {
namespace {

constexpr std::size_t kMostMatcherBytes = 64 << 20;  // above this, sets that are no longer needed are dropped

}  // namespace

Matcher::Matcher(std::shared_ptr<const TokenMasks> grammar)
    : grammar_(std::move(grammar)), shared_(std::make_shared<Shared>(grammar_->network())) {
  after_.push_back(shared_->sets.start());
}

Status Matcher::allowed(std::span<std::uint32_t> words) {
  const MutexLock lock(shared_->mutex);
  if (ended()) return internal_error("a token was asked for behind the end of a constrained answer");
  switch (after_.back() == kTooMany ? TokenMasks::Found::kTooMany
                                    : grammar_->allowed(shared_->sets, after_.back(), words)) {
    case TokenMasks::Found::kSome:
      return {};
    case TokenMasks::Found::kNone:
      return internal_error("no token of the vocabulary can go on with a constrained answer");
    case TokenMasks::Found::kTooMany:
      break;
  }
  return resource_exhausted(fmt::format(
      "the constraint is too ambiguous: the answer can be read in more than {} ways at once, or takes more than {} "
      "steps to follow; write it with fewer alternatives that begin alike",
      kMostParses, kMostMaskWork));
}

bool Matcher::accept(std::int32_t token) {
  if (trie().is_end(token)) {
    if (ended() || !complete()) return false;
    after_.push_back(kEnded);
    return true;
  }
  const std::string_view bytes = trie().bytes(token);
  return !bytes.empty() && accept_bytes(bytes);
}

bool Matcher::accept_bytes(std::string_view bytes) {
  if (ended() || after_.back() == kTooMany) return false;
  {
    const MutexLock lock(shared_->mutex);
    SetId set = after_.back();
    for (const char byte : bytes) {
      set = shared_->sets.step(set, static_cast<std::uint8_t>(byte));
      if (set == kNoSet) return false;
      if (set == kTooMany) break;
    }
    after_.push_back(set);
    if (shared_->sets.bytes() <= kMostMatcherBytes) return true;
  }
  start_anew();
  return true;
}

// A ParseSets of its own, with the sets that rollback() may need.
void Matcher::start_anew() {
  const std::shared_ptr<Shared> old = shared_;
  const std::shared_ptr<Shared> fresh = std::make_shared<Shared>(grammar_->network());
  const MutexLock lock(old->mutex), fresh_lock(fresh->mutex);
  shared_ = fresh;
  if (after_.size() > kMostRollback + 1) {
    after_.erase(after_.begin(), after_.end() - static_cast<std::ptrdiff_t>(kMostRollback + 1));
  }
  for (SetId& set : after_) {
    if (set >= 0) set = old->sets.copy_to(fresh->sets, set);
  }
}

void Matcher::rollback(std::size_t tokens) {
  SLUICE_CHECK(tokens < after_.size(), "no more is taken back than was accepted");
  after_.resize(after_.size() - tokens);
}

int Matcher::forced(std::span<std::int32_t> tokens) {
  constexpr std::size_t kMostBytes = 96;
  if (after_.back() < 0) return 0;
  std::string text;
  {
    const MutexLock lock(shared_->mutex);
    for (SetId set = after_.back(); set >= 0 && text.size() < kMostBytes;) {
      if (shared_->sets.set(set).complete) break;
      const std::vector<ParseSets::Range>& ranges = shared_->sets.ranges(set);
      if (ranges.size() != 1 || ranges[0].low != ranges[0].high) break;
      text += static_cast<char>(ranges[0].low);
      set = ranges[0].to;
    }
  }
  std::size_t at = 0, count = 0;
  while (at < text.size() && count < tokens.size()) {
    const std::int32_t token = trie().longest_in(std::string_view(text).substr(at));
    if (token < 0) break;
    tokens[count++] = token;
    at += trie().bytes(token).size();
  }
  return static_cast<int>(count);
}

std::unique_ptr<TokenConstraint> Matcher::copy() const {
  return std::make_unique<Matcher>(*this);
}

bool Matcher::complete() {
  const MutexLock lock(shared_->mutex);
  return after_.back() >= 0 && shared_->sets.set(after_.back()).complete;
}

}  // namespace sluice
