// Used by engine/step/sequence_table.h.
#include "engine/step/drafts/copied_drafts.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace sluice {

void CopiedDrafts::predict(std::span<const TokenId> prediction) {
  SLUICE_CHECK(text_.empty(), "a prediction comes before the text");
  if (prediction.empty()) return;
  text_.assign(prediction.begin(), prediction.end());
  predicted_.assign(std::bit_ceil(2 * text_.size()), -1);
  add_pairs(1, &predicted_);
  text_.push_back(kSeparator);
  prediction_ = static_cast<std::int32_t>(text_.size());
}

// Returns the slot, in the hash table, of the pair that ends with this token.
std::size_t CopiedDrafts::place(std::int32_t last, const Chains& chains) const {
  const auto at = static_cast<std::size_t>(last);
  const auto word = static_cast<std::uint64_t>(static_cast<std::uint32_t>(text_[at - 1])) << 32 |
                    static_cast<std::uint32_t>(text_[at]);
  return static_cast<std::size_t>((word * 0x9E3779B97F4A7C15U) >> 20) & (chains.size() - 1);
}

// Adds the pairs that end with the text's token `first` or a later one.
void CopiedDrafts::add_pairs(std::size_t first, Chains* chains) {
  before_.resize(text_.size(), -1);
  for (auto last = static_cast<std::int32_t>(first); last < static_cast<std::int32_t>(text_.size()); ++last) {
    std::int32_t& latest = (*chains)[place(last, *chains)];
    before_[static_cast<std::size_t>(last)] = latest;
    latest = last;
  }
}

void CopiedDrafts::append(std::span<const TokenId> tokens) {
  const std::size_t first_pair = static_cast<std::size_t>(prediction_) + 1;
  std::size_t first = std::max(text_.size(), first_pair);
  text_.insert(text_.end(), tokens.begin(), tokens.end());
  if (text_.size() > own_.size()) {
    own_.assign(std::bit_ceil(std::max<std::size_t>(256, 2 * text_.size())), -1);
    first = first_pair;
  }
  add_pairs(first, &own_);
}

// Returns how many tokens up to `last` equal the tokens up to `end`.
int CopiedDrafts::match_length(std::int32_t last, std::int32_t end) const {
  int length = 0;
  while (length < kMostMatch && last - length >= 0 && end - length >= prediction_ &&
         text_[static_cast<std::size_t>(last - length)] == text_[static_cast<std::size_t>(end - length)]) {
    ++length;
  }
  return length;
}

// Returns the longest match in the chain of the pair that ends at `last`.
CopiedDrafts::Match CopiedDrafts::longest(std::int32_t last, std::int32_t end) const {
  Match best;
  for (int visits = 0; last >= 0 && visits < kMostVisits && best.length < kMostMatch; ++visits) {
    const int length = match_length(last, end);
    if (length >= kLeastMatch && length > best.length) best = {length, last + 1};
    last = before_[static_cast<std::size_t>(last)];
  }
  return best;
}

CopiedDrafts::Match CopiedDrafts::find() const {
  if (tokens() < kLeastMatch) return {};
  const auto end = static_cast<std::int32_t>(text_.size()) - 1;
  const Match own = longest(before_.back(), end);
  if (prediction_ == 0) return own;
  const Match predicted = longest(predicted_[place(end, predicted_)], end);
  if (predicted.length > 0 && predicted.length >= own.length) return predicted;
  if (tokens() <= kLeastMatch) return own;
  const Match before = longest(predicted_[place(end - 1, predicted_)], end - 1);
  return before.length > own.length && before.at + 1 < prediction_ ? Match{before.length, before.at + 1, true} : own;
}

CopiedDrafts::Match CopiedDrafts::beginning() const {
  return prediction_ > 0 && text_.back() == text_.front() ? Match{kLeastMatch, 1} : Match{};
}

int CopiedDrafts::copy(const Match& match, std::span<TokenId> to) const {
  const auto at = static_cast<std::size_t>(match.at);
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = at + i < text_.size() ? text_[at + i] : to[at + i - text_.size()];
    if (to[i] == kSeparator) return static_cast<int>(i);
  }
  return static_cast<int>(to.size());
}

}  // namespace sluice
