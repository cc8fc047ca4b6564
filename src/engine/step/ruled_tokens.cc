// Used by sequence_table.h and verify/law_alone.h.
#include "engine/step/ruled_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace sluice {
namespace {

void ban(std::span<std::uint32_t> words, TokenId id) {
  words[static_cast<std::size_t>(id) / 32] &= ~(1U << (static_cast<unsigned>(id) % 32));
}

}  // namespace

RuledTokens::RuledTokens(std::shared_ptr<const TokenRules> rules, std::vector<TokenId> ends, std::size_t vocab)
    : rules_(std::move(rules)),
      ends_(std::move(ends)),
      vocab_(vocab),
      logit_bias_(rules_->logit_bias.begin(), rules_->logit_bias.end()) {
  if (!rules_->allowed_token_ids.empty()) allowed_.resize((vocab + 31) / 32);
  for (const TokenId id : rules_->allowed_token_ids) {
    allowed_[static_cast<std::size_t>(id) / 32] |= 1U << (static_cast<unsigned>(id) % 32);
  }
  if (rules_->changes_logits()) bias_.resize(vocab);
  for (const auto& [id, bias] : rules_->logit_bias) bias_[static_cast<std::size_t>(id)] = bias;
  if (needs_logits()) is_seen_.resize(vocab);
}

void RuledTokens::allow_all(std::span<std::uint32_t> words, std::size_t vocab) {
  std::ranges::fill(words, ~0U);
  if (vocab % 32 != 0) words[vocab / 32] = (1U << (vocab % 32)) - 1;
}

float RuledTokens::own_bias(TokenId id) const {
  float bias = 0.0F;
  if (const auto found = logit_bias_.find(id); found != logit_bias_.end()) bias = found->second;
  const auto count = in_answer_.find(id);
  if (count == in_answer_.end()) return bias;
  bias -= rules_->frequency_penalty * static_cast<float>(count->second);
  return bias - rules_->presence_penalty;
}

void RuledTokens::count(std::span<const TokenId> tokens, int prompt) {
  SLUICE_CHECK(tokens.size() >= counted_, "tokens are not taken back");
  for (; counted_ < tokens.size(); ++counted_) {
    const TokenId id = tokens[counted_];
    if (needs_logits() && !is_seen_[static_cast<std::size_t>(id)]) {
      is_seen_[static_cast<std::size_t>(id)] = true;
      seen_.push_back({id, counted_});
    }
    if (counted_ < static_cast<std::size_t>(prompt)) continue;
    ++in_answer_[id];
    if (!bias_.empty()) bias_[static_cast<std::size_t>(id)] = own_bias(id);
  }
}

void RuledTokens::forget(std::span<const TokenId> tokens, int prompt, std::size_t keep) {
  for (; counted_ > keep; --counted_) {
    const std::size_t last = counted_ - 1;
    const TokenId id = tokens[last];
    if (!seen_.empty() && seen_.back().first == last) {
      is_seen_[static_cast<std::size_t>(id)] = false;
      seen_.pop_back();
    }
    if (last >= static_cast<std::size_t>(prompt) && --in_answer_[id] == 0) in_answer_.erase(id);
    bias_[static_cast<std::size_t>(id)] = own_bias(id);
  }
}

// Bans the last token of each bad word whose other tokens end the answer.
void RuledTokens::ban_bad_words(std::span<const TokenId> answer, std::span<std::uint32_t> allowed) const {
  for (const std::vector<TokenId>& word : rules_->bad_words) {
    const std::size_t before = word.size() - 1;
    if (before <= answer.size() &&
        std::equal(word.begin(), word.end() - 1, answer.end() - static_cast<std::ptrdiff_t>(before))) {
      ban(allowed, word.back());
    }
  }
}

Status RuledTokens::apply(std::span<const TokenId> tokens, int prompt, std::span<const float> logits,
                          std::span<std::uint32_t> allowed) {
  if (!bias_.empty()) count(tokens, prompt);
  for (const auto& [id, first] : seen_) {
    const float l = logits[static_cast<std::size_t>(id)];
    const float penalized = l > 0 ? l / rules_->repetition_penalty : l * rules_->repetition_penalty;
    const float change = std::isfinite(l) ? penalized - l : 0.0F;
    bias_[static_cast<std::size_t>(id)] = change + own_bias(id);
  }
  const std::span<const TokenId> answer = tokens.subspan(static_cast<std::size_t>(prompt));
  for (std::size_t i = 0; i < allowed_.size(); ++i) allowed[i] &= allowed_[i];
  ban_bad_words(answer, allowed);
  if (answer.size() < static_cast<std::size_t>(rules_->min_tokens)) {
    for (const TokenId id : ends_) ban(allowed, id);
  }
  if (std::ranges::any_of(allowed, [](std::uint32_t word) { return word != 0; })) return {};
  return invalid_argument(
      fmt::format("allowed_token_ids, bad_words, min_tokens and what the answer is bound to leave no token behind its "
                  "first {}",
                  answer.size()));
}

Status validate(const TokenRules& rules, int vocab_size) {
  const auto check = [](const char* field, const SamplingRange<float>& range, float found) -> Status {
    if (range.contains(found)) return {};
    return invalid_argument(fmt::format("{}: expected {} to {}, found {}", field, range.low, range.high, found));
  };
  const auto check_id = [&](const char* field, TokenId id) -> Status {
    if (id >= 0 && id < vocab_size) return {};
    return invalid_argument(fmt::format("{}: expected token ids below {}, found {}", field, vocab_size, id));
  };
  SLUICE_RETURN_IF_ERROR(check("presence_penalty", kPenalties, rules.presence_penalty));
  SLUICE_RETURN_IF_ERROR(check("frequency_penalty", kPenalties, rules.frequency_penalty));
  SLUICE_RETURN_IF_ERROR(check("repetition_penalty", kRepetitionPenalties, rules.repetition_penalty));
  for (const auto& [id, bias] : rules.logit_bias) {
    SLUICE_RETURN_IF_ERROR(check_id("logit_bias", id));
    SLUICE_RETURN_IF_ERROR(check("logit_bias", kLogitBiases, bias));
  }
  if (rules.min_tokens < 0) {
    return invalid_argument(fmt::format("min_tokens: expected at least 0, found {}", rules.min_tokens));
  }
  for (const std::vector<TokenId>& word : rules.bad_words) {
    if (word.empty()) return invalid_argument("bad_words: expected at least one token each, found none");
    for (const TokenId id : word) SLUICE_RETURN_IF_ERROR(check_id("bad_words", id));
  }
  for (const TokenId id : rules.allowed_token_ids) SLUICE_RETURN_IF_ERROR(check_id("allowed_token_ids", id));
  return {};
}

}  // namespace sluice
