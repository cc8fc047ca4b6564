// Used by text/tokenizer/tokenizer_parser.h.
#include "text/bpe/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "text/bpe/bpe_hash.h"

namespace sluice {
namespace {

// Up to this length a scan over all pairs beats a heap.
constexpr std::size_t kShortWord = 40;

// Buffers that a very long word left behind are given back above this many entries.
constexpr std::size_t kKeptEntries = std::size_t{1} << 16;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

bool occurs_in_utf8(unsigned byte) {
  return byte < 0xC0 || (byte > 0xC1 && byte < 0xF5);
}

std::int32_t find_byte(const BpeVocabulary& vocabulary, unsigned byte) {
  const char character = static_cast<char>(byte);
  return vocabulary.find(std::string_view(&character, 1));
}

}  // namespace

bool has_every_byte(const BpeVocabulary& vocabulary) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (occurs_in_utf8(byte) && find_byte(vocabulary, byte) == kNoToken) return false;
  }
  return true;
}

Bpe Bpe::create(const BpeVocabulary& vocabulary, bool ignore_merges, std::size_t expected_merges,
                std::int32_t unknown) {
  Bpe bpe;
  bpe.vocabulary_ = &vocabulary;
  bpe.ignore_merges_ = ignore_merges;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::int32_t id = find_byte(vocabulary, byte);
    bpe.byte_tokens_[byte] = id != kNoToken ? id : unknown;
  }
  bpe.drops_bytes_ = unknown == kNoToken && !has_every_byte(vocabulary);
  bpe.grow_table(expected_merges);
  return bpe;
}

Bpe Bpe::create(const BpeVocabulary& vocabulary, bool ignore_merges, std::size_t expected_merges,
                const BpeCharacters& characters) {
  Bpe bpe;
  bpe.vocabulary_ = &vocabulary;
  bpe.ignore_merges_ = ignore_merges;
  bpe.characters_ = characters;
  bpe.grow_table(expected_merges);
  return bpe;
}

void Bpe::add_merge(std::int32_t left, std::int32_t right, std::int32_t merged) {
  add_merge(left, right, merged, next_rank_++);
}

void Bpe::add_merge(std::int32_t left, std::int32_t right, std::int32_t merged, std::uint32_t rank) {
  if (2 * (rule_count_ + 1) > rules_.size()) grow_table(2 * rule_count_ + 16);
  const std::uint64_t pair = pair_key(left, right);
  Rule& rule = rules_[slot_of(pair)];
  if (rule.pair == kNoPair) ++rule_count_;
  rule = {pair, rank, merged};
}

void Bpe::encode_word(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& out) const {
  if (word.size() > BpeScratch::kMaxCachedBytes) return encode_uncached(word, scratch, out);
  if (word.size() <= 1 && !drops_bytes_ && !characters_) {
    if (!word.empty()) out.push_back(byte_tokens_[static_cast<unsigned char>(word[0])]);
    return;
  }
  if (scratch.cache_.empty()) scratch.cache_.resize(BpeScratch::kCachedWords);
  BpeScratch::CachedWord& entry = scratch.cache_[hash_bytes(word) % BpeScratch::kCachedWords];
  if (entry.length == word.size() && std::memcmp(entry.bytes.data(), word.data(), word.size()) == 0) {
    out.insert(out.end(), entry.ids.begin(), entry.ids.begin() + entry.tokens);
    return;
  }
  const std::size_t first = out.size();
  encode_uncached(word, scratch, out);
  const std::size_t tokens = out.size() - first;
  if (tokens > BpeScratch::kMaxCachedTokens) return;
  entry.length = static_cast<std::uint8_t>(word.size());
  entry.tokens = static_cast<std::uint8_t>(tokens);
  std::memcpy(entry.bytes.data(), word.data(), word.size());
  std::copy_n(out.begin() + static_cast<std::ptrdiff_t>(first), tokens, entry.ids.begin());
}

void Bpe::encode_uncached(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& out) const {
  if (ignore_merges_) {
    if (const std::int32_t id = vocabulary_->find(word); id != kNoToken) return out.push_back(id);
  }
  if (characters_) {
    std::vector<std::int32_t>& first = scratch.first_;
    first.clear();
    characters_->append(word, first);
    merge(first.size(), [&](std::size_t i) { return first[i]; }, scratch, out);
    if (first.capacity() > kKeptEntries) std::vector<std::int32_t>().swap(first);
    return;
  }
  if (drops_bytes_) {
    scratch.kept_.clear();
    for (const char c : word) {
      if (byte_tokens_[static_cast<unsigned char>(c)] != kNoToken) scratch.kept_.push_back(c);
    }
    word = scratch.kept_;
  }
  merge(word.size(), [&](std::size_t i) { return byte_tokens_[static_cast<unsigned char>(word[i])]; }, scratch, out);
}

template <class First>
void Bpe::merge(std::size_t count, const First& first, BpeScratch& scratch, std::vector<std::int32_t>& out) const {
  if (count <= kShortWord) {
    merge_short(count, first, out);
  } else {
    merge_long(count, first, scratch, out);
  }
}

template <class First>
void Bpe::merge_short(std::size_t count, const First& first, std::vector<std::int32_t>& out) const {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::array<std::int32_t, kShortWord> ids;
  std::array<std::int32_t, kShortWord> merged;  // [i]: the symbol that i and i + 1 merge to
  std::array<std::uint32_t, kShortWord> ranks;  // [i]: the rank of that merge, or kNone
  const auto look_up = [&](std::size_t i) {
    const Rule* rule = i + 1 < count ? find_rule(ids[i], ids[i + 1]) : nullptr;
    ranks[i] = rule != nullptr ? rule->rank : kNone;
    merged[i] = rule != nullptr ? rule->merged : kNoToken;
  };
  for (std::size_t i = 0; i < count; ++i) ids[i] = first(i);
  for (std::size_t i = 0; i < count; ++i) look_up(i);
  while (count > 1) {
    const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(count);
    const auto best = static_cast<std::size_t>(std::min_element(ranks.begin(), end) - ranks.begin());
    if (ranks[best] == kNone) break;
    ids[best] = merged[best];
    const std::size_t tail = count - best - 2;
    std::memmove(&ids[best + 1], ids.data() + best + 2, tail * sizeof ids[0]);
    std::memmove(&ranks[best + 1], ranks.data() + best + 2, tail * sizeof ranks[0]);
    std::memmove(&merged[best + 1], merged.data() + best + 2, tail * sizeof merged[0]);
    --count;
    if (best > 0) look_up(best - 1);
    look_up(best);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
}

template <class First>
void Bpe::merge_long(std::size_t symbol_count, const First& first, BpeScratch& scratch,
                     std::vector<std::int32_t>& out) const {
  using Candidate = BpeScratch::Candidate;
  // A min-heap: the lowest rank first, the leftmost of equals. A candidate stays in the heap when its symbols are gone;
  // it is recognised when it comes up, because what its place gives then is longer than what was noted.
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  const auto count = static_cast<std::int32_t>(symbol_count);
  auto& symbols = scratch.symbols_;
  auto& heap = scratch.heap_;
  symbols.clear();
  heap.clear();
  for (std::int32_t i = 0; i < count; ++i) {
    symbols.push_back({first(static_cast<std::size_t>(i)), i - 1, i + 1 < count ? i + 1 : -1});
  }
  for (std::int32_t i = 0; i < count; ++i) note_candidate(i, scratch);
  std::make_heap(heap.begin(), heap.end(), later);
  const auto note_and_sift = [&](std::int32_t left) {
    const std::size_t before = heap.size();
    note_candidate(left, scratch);
    if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), later);
  };
  while (!heap.empty()) {
    const Candidate best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    BpeScratch::Symbol& left = symbols[static_cast<std::size_t>(best.left)];
    if (left.id == kNoToken || left.next < 0) continue;
    BpeScratch::Symbol& right = symbols[static_cast<std::size_t>(left.next)];
    const Rule* rule = find_rule(left.id, right.id);
    if (rule == nullptr || rule->merged != best.merged) continue;
    left.id = best.merged;
    left.next = right.next;
    right.id = kNoToken;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = best.left;
    if (left.previous >= 0) note_and_sift(left.previous);
    note_and_sift(best.left);
  }
  for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next) {
    out.push_back(symbols[static_cast<std::size_t>(i)].id);
  }
  if (symbols.capacity() > kKeptEntries) std::vector<BpeScratch::Symbol>().swap(symbols);
  if (heap.capacity() > kKeptEntries) std::vector<Candidate>().swap(heap);
}

// Puts the merge of symbol `left` with its neighbour, if there is a rule, at the end of the heap's array.
void Bpe::note_candidate(std::int32_t left, BpeScratch& scratch) const {
  const BpeScratch::Symbol& symbol = scratch.symbols_[static_cast<std::size_t>(left)];
  if (symbol.next < 0) return;
  const Rule* rule = find_rule(symbol.id, scratch.symbols_[static_cast<std::size_t>(symbol.next)].id);
  if (rule != nullptr) scratch.heap_.push_back({rule->rank, left, rule->merged});
}

std::size_t Bpe::slot_of(std::uint64_t pair) const {
  const std::size_t mask = rules_.size() - 1;
  std::size_t index = mix_words(pair, 0x9E3779B97F4A7C15ULL) & mask;
  while (rules_[index].pair != kNoPair && rules_[index].pair != pair) index = (index + 1) & mask;
  return index;
}

const Bpe::Rule* Bpe::find_rule(std::int32_t left, std::int32_t right) const {
  const Rule& rule = rules_[slot_of(pair_key(left, right))];
  return rule.pair == kNoPair ? nullptr : &rule;
}

void Bpe::grow_table(std::size_t rules) {
  const std::size_t wanted = std::bit_ceil(2 * rules + 2);
  if (wanted <= rules_.size()) return;
  const std::vector<Rule> old = std::exchange(rules_, std::vector<Rule>(wanted));
  for (const Rule& rule : old) {
    if (rule.pair != kNoPair) rules_[slot_of(rule.pair)] = rule;
  }
}

}  // namespace sluice
