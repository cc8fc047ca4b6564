#include "grammar/schema_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

std::string decode_reference(std::string_view text) {
  const auto hex = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
      out.push_back(static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2])));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

}  // namespace

SchemaDocument::SchemaDocument(boost::json::value root) : root_(std::move(root)) {}

Literal SchemaDocument::literal(const boost::json::value& schema, std::string pointer) {
  const auto [found, is_new] = known_.emplace(&schema, static_cast<Literal>(2 * schemas_.size()));
  if (is_new) {
    schemas_.push_back(&schema);
    pointers_.push_back(std::move(pointer));
  }
  return found->second;
}

Literal SchemaDocument::keep(boost::json::value schema, std::string pointer) {
  return literal(kept_.emplace_back(std::move(schema)), std::move(pointer));
}

Result<Literal> SchemaDocument::resolve(std::string_view reference, const std::string& from) {
  const auto fail = [&](std::string_view found) {
    return invalid_argument(
        fmt::format("{}: expected a reference within the schema, as \"#/$defs/name\", found {}", from, found));
  };
  if (!reference.starts_with('#')) return fail(reference.substr(0, 100));
  const std::string path = decode_reference(reference.substr(1));
  if (!path.empty() && path[0] != '/') return fail("an anchor");
  boost::system::error_code error;
  const boost::json::value* found = root_.find_pointer(path, error);
  if (found == nullptr) return fail("one to nothing");
  return literal(*found, path);
}

std::string pointer_step(std::string_view key) {
  std::string out = "/";
  for (const char c : key.substr(0, 100)) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string pointer_step(std::size_t index) {
  return fmt::format("/{}", index);
}

Conjunction with(Conjunction conjunction, Literal literal) {
  const auto at = std::ranges::lower_bound(conjunction, literal);
  if (at == conjunction.end() || *at != literal) conjunction.insert(at, literal);
  return conjunction;
}

Conjunction with(Conjunction conjunction, const Conjunction& more) {
  for (const Literal literal : more) conjunction = with(std::move(conjunction), literal);
  return conjunction;
}

}  // namespace sluice
