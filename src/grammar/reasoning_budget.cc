// Used by serve/generate/tool_constraint.cc and verify/law_constraint.cc.
#include "grammar/reasoning_budget.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice {

ReasoningBudget::ReasoningBudget(std::shared_ptr<const TokenTrie> trie, ReasoningMarks marks, int budget,
                                 std::unique_ptr<TokenConstraint> inner)
    : trie_(std::move(trie)), marks_(std::move(marks)), budget_(budget), inner_(std::move(inner)), steps_(1) {
  SLUICE_CHECK(marks_.ends.find(marks_.ends.at(0), 1) == std::string::npos, "a mark's first byte occurs once");
  if (marks_.opens.empty()) steps_.back().phase = Phase::kReasoning;
}

ReasoningBudget::ReasoningBudget(const ReasoningBudget& other)
    : trie_(other.trie_),
      marks_(other.marks_),
      budget_(other.budget_),
      inner_(other.inner_ != nullptr ? other.inner_->copy() : nullptr),
      steps_(other.steps_) {}

std::vector<std::int32_t> ReasoningBudget::rest() const {
  const std::string_view rest = std::string_view(marks_.ends).substr(steps_.back().matched);
  std::vector<std::int32_t> out;
  for (std::size_t length = rest.size(); length > 0; --length) {
    const std::int32_t token = trie_->longest_in(rest.substr(0, length));
    if (token < 0) break;
    length = trie_->bytes(token).size();
    out.push_back(token);
    if (length == rest.size()) break;
  }
  return out;
}

Status ReasoningBudget::allowed(std::span<std::uint32_t> words) {
  if (inner_ != nullptr) {
    SLUICE_RETURN_IF_ERROR(inner_->allowed(words));
  } else {
    std::ranges::fill(words, ~0U);
  }
  if (!is_spent()) return {};
  std::vector<std::uint32_t> ending(words.size());
  for (const std::int32_t id : rest()) {
    ending[static_cast<std::size_t>(id) / 32] |= 1U << (static_cast<unsigned>(id) % 32);
  }
  bool any = false;
  for (std::size_t i = 0; i < words.size(); ++i) any = (words[i] &= ending[i]) != 0 || any;
  return any ? Status() : internal_error("no token of the vocabulary can end the reasoning");
}

void ReasoningBudget::read(Step& step, std::string_view bytes) const {
  if (step.phase == Phase::kStart) {
    step.start += bytes;
    step.start.erase(0, std::min(step.start.find_first_not_of(" \t\r\n"), step.start.size()));
    if (!step.start.starts_with(marks_.opens)) {
      if (!marks_.opens.starts_with(step.start)) step = {.phase = Phase::kDone};
      return;
    }
    const std::string behind = step.start.substr(marks_.opens.size());
    step = {.phase = Phase::kReasoning};
    return read(step, behind);
  }
  if (step.phase == Phase::kDone) return;
  for (const char byte : bytes) {
    if (byte != marks_.ends[step.matched]) step.matched = 0;
    if (byte == marks_.ends[step.matched] && ++step.matched == marks_.ends.size()) {
      step = {.phase = Phase::kDone};
      return;
    }
  }
}

bool ReasoningBudget::accept(std::int32_t token) {
  if (is_spent()) {
    const std::vector<std::int32_t> ending = rest();
    if (std::ranges::find(ending, token) == ending.end()) return false;
  }
  if (inner_ != nullptr && !inner_->accept(token)) return false;
  Step step = steps_.back();
  if (step.phase == Phase::kReasoning) ++step.tokens;
  read(step, trie_->bytes(token));
  steps_.push_back(std::move(step));
  return true;
}

void ReasoningBudget::rollback(std::size_t tokens) {
  SLUICE_CHECK(tokens < steps_.size(), "no more is taken back than was accepted");
  if (inner_ != nullptr) inner_->rollback(tokens);
  steps_.resize(steps_.size() - tokens);
}

int ReasoningBudget::forced(std::span<std::int32_t> tokens) {
  if (!is_spent()) return inner_ != nullptr ? inner_->forced(tokens) : 0;
  const std::vector<std::int32_t> ending = rest();
  if (ending.empty() || tokens.empty()) return 0;
  tokens[0] = ending[0];
  return 1;
}

}  // namespace sluice
