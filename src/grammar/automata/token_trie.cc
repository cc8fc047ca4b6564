// Used by grammar and grammar/automata.
#include "grammar/automata/token_trie.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/threads/mutex.h"
#include "base/utf8.h"
#include "grammar/automata/token_runs.h"

namespace sluice {
namespace {

// `order`: ids by their bytes. Nodes are appended as the next text leaves the path to the one before.
std::vector<TokenTrie::Node> build_nodes(const TokenTrie& trie, const std::vector<std::int32_t>& order) {
  std::vector<TokenTrie::Node> nodes(1);
  std::vector<std::uint32_t> path{0};
  std::string_view last;
  for (const std::int32_t id : order) {
    const std::string_view text = trie.bytes(id);
    const auto [a, b] = std::ranges::mismatch(last, text);
    const auto shared = static_cast<std::size_t>(a - last.begin());
    for (; path.size() > shared + 1; path.pop_back()) nodes[path.back()].end = static_cast<std::uint32_t>(nodes.size());
    for (std::size_t i = shared; i < text.size(); ++i) {
      path.push_back(static_cast<std::uint32_t>(nodes.size()));
      nodes.push_back({.byte = static_cast<std::uint8_t>(text[i])});
    }
    nodes[path.back()].token = id;
    last = text;
  }
  for (const std::uint32_t node : path) nodes[node].end = static_cast<std::uint32_t>(nodes.size());
  for (std::uint32_t at = static_cast<std::uint32_t>(nodes.size()); at-- > 0;) {
    for (std::uint32_t child = at + 1; child < nodes[at].end; child = nodes[child].end) {
      nodes[at].kinds |= nodes[child].kinds | byte_kind(nodes[child].byte);
    }
  }
  nodes.shrink_to_fit();
  return nodes;
}

}  // namespace

std::uint64_t byte_kind(std::uint8_t byte) {
  static constexpr std::array<std::uint8_t, 256> kKinds = [] {
    std::array<std::uint8_t, 256> kinds{};
    std::uint8_t own = 24;  // the first symbol that stands for one byte
    for (std::size_t b = 0; b < 256; ++b) {
      const bool letter = (b | 0x20) >= 'a' && (b | 0x20) <= 'z', digit = b >= '0' && b <= '9';
      if (b >= 0x80) {
        kinds[b] = static_cast<std::uint8_t>((b - 0x80) / 8);
      } else if (letter) {
        kinds[b] = b < 'a' ? 16 : 17;
      } else if (digit) {
        kinds[b] = 18;
      } else if (b < ' ' || b == 0x7F) {
        kinds[b] = b == '\n' ? 19 : b == '\t' || b == '\r' ? 20 : 21;
      } else {
        kinds[b] = own++;
      }
    }
    return kinds;
  }();
  return std::uint64_t{1} << kKinds[byte];
}

int plain_characters(std::string_view text) {
  int count = 0;
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    if (c.kind != Utf8Char::Kind::kValid || c.code_point < 0x20 || c.code_point == '"' || c.code_point == '\\')
      return 0;
    if (++count > kPlainLevels.back()) return 0;
    text.remove_prefix(c.length);
  }
  return count;
}

TokenTrie::TokenTrie(std::span<const std::string_view> tokens, std::vector<std::int32_t> ends)
    : ends_(std::move(ends)), next_same_(tokens.size(), -1) {
  std::ranges::sort(ends_);
  bytes_at_.push_back(0);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = is_end(static_cast<std::int32_t>(id)) ? std::string_view() : tokens[id];
    text_.insert(text_.end(), token.begin(), token.end());
    bytes_at_.push_back(static_cast<std::uint32_t>(text_.size()));
    longest_ = std::max(longest_, token.size());
  }
  std::vector<std::int32_t> order;
  for (std::int32_t id = 0; id < vocab_size(); ++id) {
    if (!bytes(id).empty()) order.push_back(id);
  }
  std::ranges::sort(order,
                    [&](std::int32_t a, std::int32_t b) { return bytes(a) != bytes(b) ? bytes(a) < bytes(b) : a < b; });
  // If tokens have the same bytes, the first stands for all.
  std::vector<std::int32_t> distinct;
  for (const std::int32_t id : order) {
    if (!distinct.empty() && bytes(distinct.back()) == bytes(id)) {
      std::int32_t last = distinct.back();
      while (next_same(last) >= 0) last = next_same(last);
      next_same_[static_cast<std::size_t>(last)] = id;
    } else {
      distinct.push_back(id);
    }
  }
  texts_.resize(words());
  for (const std::int32_t id : order)
    texts_[static_cast<std::size_t>(id) / 32] |= 1U << (static_cast<unsigned>(id) % 32);
  std::vector<int> plain(tokens.size());
  for (const std::int32_t id : order) plain[static_cast<std::size_t>(id)] = plain_characters(bytes(id));
  for (std::size_t i = 0; i < kPlainLevels.size(); ++i) {
    Level& level = levels_[i];
    level.plain.resize(words());
    const auto is_ready = [&](std::int32_t id) {
      const int characters = plain[static_cast<std::size_t>(id)];
      return characters > 0 && characters <= kPlainLevels[i];
    };
    for (const std::int32_t id : order) {
      if (is_ready(id)) level.plain[static_cast<std::size_t>(id) / 32] |= 1U << (static_cast<unsigned>(id) % 32);
    }
    std::vector<std::int32_t> others;
    std::ranges::copy_if(distinct, std::back_inserter(others), [&](std::int32_t id) { return !is_ready(id); });
    level.nodes = build_nodes(*this, others);
  }
}

TokenTrie::~TokenTrie() = default;

bool TokenTrie::is_end(std::int32_t token) const {
  return std::ranges::binary_search(ends_, token);
}

std::string_view TokenTrie::bytes(std::int32_t token) const {
  if (token < 0 || token >= vocab_size()) return {};
  const auto id = static_cast<std::size_t>(token);
  return {text_.data() + bytes_at_[id], bytes_at_[id + 1] - bytes_at_[id]};
}

std::int32_t TokenTrie::longest_in(std::string_view text) const {
  const std::vector<Node>& nodes = levels_[0].nodes;
  std::int32_t best = -1;
  std::uint32_t at = 0;
  for (const char byte : text) {
    const std::uint32_t end = nodes[at].end;
    std::uint32_t child = at + 1;
    while (child < end && nodes[child].byte != static_cast<std::uint8_t>(byte)) child = nodes[child].end;
    if (child >= end) break;
    at = child;
    if (nodes[at].token >= 0) best = nodes[at].token;
  }
  return best;
}

std::vector<std::int32_t> TokenTrie::tokens_with(char byte) const {
  std::vector<std::int32_t> out;
  const char* const begin = text_.data();
  const char* const end = begin + text_.size();
  for (const char* at = begin; at != end && (at = std::find(at, end, byte)) != end;) {
    const auto offset = static_cast<std::uint32_t>(at - begin);
    const auto behind = std::ranges::upper_bound(bytes_at_, offset);
    out.push_back(static_cast<std::int32_t>(behind - bytes_at_.begin()) - 1);
    at = begin + *behind;
  }
  return out;
}

const TokenTrie::Level& TokenTrie::level(int plain_run) const {
  std::size_t level = 0;
  while (level + 1 < kPlainLevels.size() && kPlainLevels[level + 1] <= plain_run) ++level;
  return levels_[level];
}

std::shared_ptr<const TokenRuns> TokenTrie::runs(const ByteClass& bytes) const {
  const MutexLock lock(runs_mutex_);
  const auto found = std::ranges::find_if(runs_, [&](const auto& known) { return known->bytes() == bytes; });
  if (found != runs_.end()) {
    std::rotate(runs_.begin(), found, found + 1);
  } else {
    if (runs_.size() == kMostTokenRuns) runs_.pop_back();
    runs_.insert(runs_.begin(), std::make_shared<TokenRuns>(*this, bytes));
  }
  return runs_.front();
}

std::size_t TokenTrie::runs_bytes() const {
  const MutexLock lock(runs_mutex_);
  std::size_t bytes = 0;
  for (const auto& runs : runs_) bytes += runs->kept_bytes();
  return bytes;
}

}  // namespace sluice
