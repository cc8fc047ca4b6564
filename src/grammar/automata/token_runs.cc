// Used by run_masks.h and token_trie.cc.
#include "grammar/automata/token_runs.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kMasks = 32;  // lengths that have a mask; few tokens are longer

}  // namespace

ByLength::ByLength(const Found& found) : items_(found.size()) {
  for (const auto& [length, number] : found) {
    if (begins_.size() < length + 2) begins_.resize(length + 2);
    ++begins_[length + 1];
  }
  for (std::size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
  std::vector<std::uint32_t> next = begins_;
  for (const auto& [length, number] : found) items_[next[length]++] = number;
}

std::span<const std::uint32_t> ByLength::of(std::size_t length) const {
  if (length >= lengths()) return {};
  return std::span(items_).subspan(begins_[length], begins_[length + 1] - begins_[length]);
}

std::span<const std::uint32_t> ByLength::up_to(std::size_t length) const {
  return length >= lengths() ? std::span(items_) : std::span(items_).first(begins_[length + 1]);
}

TokenRuns::TokenRuns(const TokenTrie& trie, const ByteClass& bytes) : bytes_(bytes) {
  ByLength::Found tokens, longer, inside;
  std::array<ByLength::Found, 256> exits;
  const std::vector<TokenTrie::Node>& nodes = trie.level(0).nodes;
  std::vector<std::uint32_t> ends{nodes[0].end};  // the ends of the nodes above, all of the class
  if (nodes.size() > 1) inside.emplace_back(0, 0);
  for (std::uint32_t at = 1; at < nodes.size();) {
    while (ends.back() <= at) ends.pop_back();
    const TokenTrie::Node& node = nodes[at];
    const auto length = static_cast<std::uint32_t>(ends.size());
    if (!bytes[node.byte]) {
      exits[node.byte].emplace_back(length - 1, at);
      at = node.end;
      continue;
    }
    for (std::int32_t id = node.token; id >= 0; id = trie.next_same(id)) {
      (length < kMasks ? tokens : longer).emplace_back(length, id);
    }
    if (at + 1 < node.end) {
      inside.emplace_back(length, at);
      ends.push_back(node.end);
    }
    ++at;
  }
  inside_ = ByLength(inside);
  longer_ = ByLength(longer);
  for (std::size_t b = 0; b < exits.size(); ++b) exits_[b] = ByLength(exits[b]);
  whole_.emplace_back(trie.words());
  const ByLength shorter(tokens);
  for (std::size_t length = 1; length < shorter.lengths(); ++length) {
    whole_.push_back(whole_.back());
    for (const std::uint32_t id : shorter.of(length)) whole_.back()[id / 32] |= 1U << (id % 32);
  }
}

std::size_t TokenRuns::kept_bytes() const {
  std::size_t bytes = sizeof(TokenRuns) + longer_.bytes() + inside_.bytes();
  for (const std::vector<std::uint32_t>& mask : whole_) bytes += sizeof(mask) + 4 * mask.size();
  for (const ByLength& nodes : exits_) bytes += nodes.bytes();
  return bytes;
}

void TokenRuns::add_whole(std::size_t length, std::span<std::uint32_t> words) const {
  const std::vector<std::uint32_t>& ready = whole_[std::min(length, whole_.size() - 1)];
  for (std::size_t i = 0; i < ready.size(); ++i) words[i] |= ready[i];
  for (const std::uint32_t id : longer_.up_to(length)) words[id / 32] |= 1U << (id % 32);
}

}  // namespace sluice
