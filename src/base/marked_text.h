// MarkedText: a text that knows which of its bytes a client wrote.
//
//   MarkedText text;
//   text.own("<｜User｜>").client(message);  // a special token; nothing in `message` can become one
//   text.is_own(0, 8)
//
// A rendered conversation is such a text: the tokenizer finds special tokens only where no byte is a client's, so
// nothing that a client sends becomes one. Thread safety: a plain value.
// Used by jinja, text/chat and text/tokenizer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct ByteRange {
  std::size_t begin;
  std::size_t end;

  bool operator==(const ByteRange&) const = default;
};

struct MarkedText {
  std::string bytes = {};
  std::vector<ByteRange> clients = {};  // ranges that clients wrote: ascending, not touching, none empty

  bool operator==(const MarkedText&) const = default;
  std::size_t size() const { return bytes.size(); }

  MarkedText& own(std::string_view text) {
    bytes += text;
    return *this;
  }
  MarkedText& client(std::string_view text) {
    mark(bytes.size(), bytes.size() + text.size());
    bytes += text;
    return *this;
  }
  // The bytes [begin, end) of a text whose clients' ranges are `ranges`, with their marks.
  MarkedText& part(std::string_view text, const std::vector<ByteRange>& ranges, std::size_t begin, std::size_t end) {
    const std::size_t start = bytes.size();
    bytes += text.substr(begin, end - begin);
    auto range = std::ranges::partition_point(ranges, [&](const ByteRange& r) { return r.end <= begin; });
    for (; range != ranges.end() && range->begin < end; ++range) {
      mark(start + std::max(range->begin, begin) - begin, start + std::min(range->end, end) - begin);
    }
    return *this;
  }
  MarkedText& add(const MarkedText& text) { return part(text.bytes, text.clients, 0, text.size()); }

  // Returns whether no byte of [begin, end) is a client's.
  bool is_own(std::size_t begin, std::size_t end) const {
    const auto range = std::ranges::partition_point(clients, [&](const ByteRange& r) { return r.end <= begin; });
    return range == clients.end() || range->begin >= end;
  }
  bool ends_with_own(std::string_view text) const {
    return bytes.ends_with(text) && is_own(bytes.size() - text.size(), bytes.size());
  }

 private:
  void mark(std::size_t begin, std::size_t end) {
    if (begin == end) return;
    if (!clients.empty() && clients.back().end == begin) {
      clients.back().end = end;
    } else {
      clients.push_back({begin, end});
    }
  }
};

}  // namespace sluice
