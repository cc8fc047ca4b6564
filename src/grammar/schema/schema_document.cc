// Used by schema_expander.h and schema_product.h.
#include "grammar/schema/schema_document.h"

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

std::string_view text_at(const boost::json::object& object, std::string_view key) {
  const boost::json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string()) : std::string_view();
}

// The URL that `reference` (without a fragment) means in a document of the URL `base`.
std::string joined(std::string_view base, std::string_view reference) {
  const std::size_t colon = reference.find(':'), slash = reference.find('/');
  if (colon != reference.npos && colon < slash) return std::string(reference);  // an absolute URL
  const std::size_t authority = base.find("://");
  const std::size_t host_end = authority == base.npos ? 0 : std::min(base.find('/', authority + 3), base.size());
  if (reference.starts_with('/')) return std::string(base.substr(0, host_end)) + std::string(reference);
  const std::size_t last = base.rfind('/');
  const bool has_path = last != base.npos && last >= host_end;
  return std::string(base.substr(0, has_path ? last + 1 : 0)) + std::string(reference);
}

// Values of these keywords hold no schemas.
bool holds_values(std::string_view key) {
  return key == "enum" || key == "const" || key == "default" || key == "examples" || key == "example";
}

}  // namespace

SchemaDocument::SchemaDocument(boost::json::value root) : root_(std::move(root)) {
  const std::string_view draft = root_.is_object() ? text_at(root_.get_object(), "$schema") : std::string_view();
  const auto is_draft = [draft](std::string_view name) { return draft.find(name) != draft.npos; };
  has_plain_ids_ = is_draft("draft-03") || is_draft("draft-04");
  is_old_ = has_plain_ids_ || is_draft("draft-06") || is_draft("draft-07");
  resources_.emplace("", Resource());
  find_names(root_, "", "");
}

void SchemaDocument::find_names(const boost::json::value& value, const std::string& pointer, std::string resource) {
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.get_array().size(); ++i) {
      find_names(value.get_array()[i], pointer + pointer_step(i), resource);
    }
  }
  if (!value.is_object()) return;
  std::string_view id = text_at(value.get_object(), has_plain_ids_ ? "id" : "$id");
  if (id.ends_with('#')) id.remove_suffix(1);
  if (id.starts_with('#')) {  // how draft 7 writes an anchor
    resources_[resource].anchors.emplace(id.substr(1), pointer);
  } else if (!id.empty()) {
    const std::string url = joined(resources_[resource].url, id.substr(0, id.find('#')));
    resources_[pointer].url = url;
    by_url_.emplace(url, pointer);
    resource = pointer;
  }
  for (const char* key : {"$anchor", "$dynamicAnchor"}) {
    const std::string_view anchor = text_at(value.get_object(), key);
    if (!anchor.empty()) resources_[resource].anchors.emplace(anchor, pointer);
  }
  for (const auto& [key, inner] : value.get_object()) {
    if (!holds_values(key)) find_names(inner, pointer + pointer_step(key), resource);
  }
}

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
  const std::size_t hash = std::min(reference.find('#'), reference.size());
  const std::string_view url = reference.substr(0, hash);
  auto resource = resources_.begin();  // the root's resource
  for (auto at = resources_.begin(); at != resources_.end(); ++at) {
    const bool is_around = from.starts_with(at->first + "/");
    if (is_around && at->first.size() >= resource->first.size()) resource = at;
  }
  if (!url.empty()) {
    auto found = by_url_.find(joined(resource->second.url, url));
    if (found == by_url_.end()) found = by_url_.find(std::string(url));
    if (found == by_url_.end()) return fail(reference.substr(0, 100));
    resource = resources_.find(found->second);
  }
  std::string path = hash < reference.size() ? decode_reference(reference.substr(hash + 1)) : "";
  if (!path.empty() && path[0] != '/') {
    const auto anchor = resource->second.anchors.find(path);
    if (anchor == resource->second.anchors.end()) return fail("an anchor that is not there");
    path = anchor->second;
  } else {
    path = resource->first + path;
  }
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
