// Used by jinja and jinja/library.
#include <algorithm>
#include <string>
#include <utility>

#include "jinja/library/operations.h"
#include "jinja/marks.h"
#include "jinja/unicode.h"

namespace sluice::jinja {

namespace {

std::size_t limit_of(Int most) {
  return most < 0 || most > Int(1) << 40U ? std::string_view::npos : static_cast<std::size_t>(most);
}

bool may_add(Run& run, const std::vector<std::string_view>& parts) {
  return run.step() && run.allows(parts.size() * sizeof(Value));
}

Value list_of(Run& run, const Value& text, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  for (const std::string_view part : parts) {
    items.push_back(run.part(text, part));
    if (run.failed()) return {};
  }
  return run.list(std::move(items));
}

std::size_t first_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Char c = decode_utf8(text.substr(at));
    if (is_space(c.code_point)) break;
    at += c.length;
  }
  return at;
}

// The start of the word at the end of `text`, which does not end in white space.
std::size_t last_word(std::string_view text) {
  std::size_t start = text.size();
  while (start > 0) {
    std::size_t previous = start - 1;
    while (previous > 0 && (static_cast<unsigned char>(text[previous]) & 0xC0U) == 0x80U) --previous;
    if (is_space(decode_utf8(text.substr(previous)).code_point)) break;
    start = previous;
  }
  return start;
}

// The bytes of a line's end at the start of `text`, 0 if there is none.
std::size_t line_end(std::string_view text) {
  if (text.starts_with("\r\n")) return 2;
  const Utf8Char c = decode_utf8(text);
  const bool ends = (c.code_point >= 0x0A && c.code_point <= 0x0D) || (c.code_point >= 0x1C && c.code_point <= 0x1E) ||
                    c.code_point == 0x85 || c.code_point == 0x2028 || c.code_point == 0x2029;
  return ends ? c.length : 0;
}

std::size_t count_parts(std::string_view text, std::string_view part, std::size_t most) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos && count < most;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

// An empty part is between all characters.
Value insert_between(Run& run, const Value& whole, const Value& new_part, std::size_t most) {
  const std::string_view text = whole.bytes();
  const auto& clients = whole.text().clients;
  MarkedText out;
  std::size_t read = 0;
  if (!run.work(text.size() / 4)) return {};
  for (std::size_t done = 0; done < most && run.allows(out.size()); ++done) {
    append_marked(run, new_part, out);
    if (read == text.size()) break;
    const std::size_t length = code_point_bytes(text, read);
    out.part(text, clients, read, read + length);
    read += length;
  }
  return run.marked(std::move(out.part(text, clients, read, text.size())));
}

}  // namespace

Value strip_text(Run& run, const Value& text, const Value& characters, bool left, bool right) {
  std::string_view bytes = text.bytes();
  const bool has_characters = !characters.is_undefined() && !characters.is_none();
  if (has_characters && !characters.is_text()) {
    run.fail("strip arg must be None or str");
    return {};
  }
  if (!run.work(has_characters ? characters.bytes().size() / 16 : 0)) return {};
  if (left) bytes = has_characters ? strip_left(bytes, characters.bytes()) : strip_left(bytes);
  if (right) bytes = has_characters ? strip_right(bytes, characters.bytes()) : strip_right(bytes);
  return bytes.size() == text.bytes().size() ? text : run.part(text, bytes);
}

Value split_text(Run& run, const Value& whole, std::string_view separator, Int most, bool from_right) {
  std::string_view text = whole.bytes();
  if (separator.empty()) run.fail("empty separator");
  if (!run.work(text.size() / 16)) return {};
  std::vector<std::string_view> parts;
  for (std::size_t left = limit_of(most); left > 0; --left) {
    const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos || !may_add(run, parts)) break;
    const std::string_view before = text.substr(0, at);
    const std::string_view after = text.substr(at + separator.size());
    parts.push_back(from_right ? after : before);
    text = from_right ? before : after;
  }
  parts.push_back(text);
  if (from_right) std::ranges::reverse(parts);
  return list_of(run, whole, parts);
}

Value split_words(Run& run, const Value& whole, Int most, bool from_right) {
  std::string_view text = whole.bytes();
  if (!run.work(text.size() / 16)) return {};
  std::vector<std::string_view> parts;
  std::size_t left = limit_of(most);
  for (; !run.failed(); --left) {
    text = from_right ? strip_right(text) : strip_left(text);
    if (text.empty() || left == 0) break;
    const std::size_t cut = from_right ? last_word(text) : first_space(text);
    parts.push_back(from_right ? text.substr(cut) : text.substr(0, cut));
    text = from_right ? text.substr(0, cut) : text.substr(cut);
    may_add(run, parts);
  }
  if (!text.empty()) parts.push_back(text);
  if (from_right) std::ranges::reverse(parts);
  return list_of(run, whole, parts);
}

Value split_lines(Run& run, const Value& whole, bool keep_ends) {
  std::string_view text = whole.bytes();
  if (!run.work(text.size() / 16)) return {};
  std::vector<std::string_view> parts;
  std::size_t length = 0;
  while (length < text.size()) {
    const std::size_t end = line_end(text.substr(length));
    if (end == 0) {
      length += code_point_bytes(text, length);
      continue;
    }
    parts.push_back(text.substr(0, length + (keep_ends ? end : 0)));
    text.remove_prefix(length + end);
    length = 0;
    if (!may_add(run, parts)) return {};
  }
  if (!text.empty()) parts.push_back(text);
  return list_of(run, whole, parts);
}

Value replace_text(Run& run, const Value& whole, std::string_view old_part, const Value& new_part, Int count) {
  const std::string_view text = whole.bytes();
  const auto& clients = whole.text().clients;
  const std::size_t most = limit_of(count);
  if (!run.work(text.size() / 32)) return {};
  if (old_part.empty()) return insert_between(run, whole, new_part, most);
  const std::size_t places = count_parts(text, old_part, most);
  if (!run.work(places / 4) || !run.allows(places * new_part.bytes().size())) return {};
  MarkedText out;
  out.bytes.reserve(text.size() - places * old_part.size() + places * new_part.bytes().size());
  std::size_t read = 0;
  for (std::size_t i = 0; i < places; ++i) {
    const std::size_t at = text.find(old_part, read);
    out.part(text, clients, read, at);
    append_marked(run, new_part, out);
    read = at + old_part.size();
  }
  return run.marked(std::move(out.part(text, clients, read, text.size())));
}

Value join_texts(Run& run, const std::vector<Value>& items, const Value& separator) {
  MarkedText out;
  for (std::size_t i = 0; i < items.size() && run.step() && run.allows(out.size()); ++i) {
    if (i > 0) append_marked(run, separator, out);
    append_marked(run, items[i], out);
  }
  return run.marked(std::move(out));
}

Value pad_text(Run& run, const Value& text, Int width, std::string_view fill, bool before, bool after) {
  const auto length = static_cast<Int>(text.text().length);
  if (width <= length) return text;
  const auto most = static_cast<Int>(run.limits().max_text_bytes) + 1;
  const auto missing = static_cast<std::size_t>(std::min(width - length, most));
  if (!run.fits(missing * fill.size())) return {};
  // Python's center puts the odd one before the text if the width is odd.
  std::size_t left = before ? missing : 0;
  if (before && after) left = missing / 2 + (missing & static_cast<std::size_t>(width) & 1U);
  std::string out;
  for (std::size_t i = 0; i < left; ++i) out += fill;
  out += text.bytes();
  for (std::size_t i = left; i < missing; ++i) out += fill;
  return run.text(std::move(out));
}

}  // namespace sluice::jinja
