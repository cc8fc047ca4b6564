// The arrays of SchemaNetwork.
// Used by grammar/call_network.cc and schema_network.cc.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "grammar/schema/schema_network.h"

namespace sluice {
namespace {

using Counts = std::vector<std::int64_t>;  // one for each ArrayProduct::Contained

std::int64_t most_counted(const ArrayProduct::Contained& contained) {
  return contained.most == kNoLimit ? contained.least : contained.most;
}

// Items from here on are alike, and more of them are not counted.
std::int64_t places_of(const ArrayProduct& array) {
  std::int64_t out = array.most == kNoLimit ? array.least : array.most;
  if (!array.at.empty()) out = std::max(out, std::min(array.at.rbegin()->first + 1, array.most));
  for (const auto& [from, item] : array.items) out = std::max(out, std::min(from, array.most));
  for (const auto& contained : array.contained) out = std::max(out, std::min(contained.from, array.most));
  return out;
}

// The schemas that the item at `place` must meet if it is one of those `chosen` among the contained; nullopt: it may
// not be.
std::optional<Conjunction> item_of(const ArrayProduct& array, std::int64_t place, unsigned chosen, Counts& counts) {
  Conjunction out;
  if (const auto found = array.at.find(place); found != array.at.end()) out = found->second;
  for (const auto& [from, item] : array.items) {
    if (place >= from) out = with(std::move(out), item);
  }
  for (std::size_t c = 0; c < array.contained.size(); ++c) {
    const ArrayProduct::Contained& contained = array.contained[c];
    const bool limited = contained.most != kNoLimit;
    if ((chosen >> c & 1U) == 0) {
      if (place >= contained.from && limited) out = with(std::move(out), SchemaDocument::negated(contained.item.at(0)));
      continue;
    }
    if (place < contained.from || counts[c] >= most_counted(contained)) return std::nullopt;
    ++counts[c];
    out = with(std::move(out), contained.item);
  }
  return out;
}

}  // namespace

Status SchemaNetwork::add_array(std::int32_t rule, const ArrayProduct& array) {
  if (!array.unique.empty() && array.most > 1) return add_unique(rule, array);
  if (array.contained.size() > 4) return invalid_argument("more than four counts of contained items in one array");
  const std::int64_t places = places_of(array);
  std::map<std::pair<std::int64_t, Counts>, std::int32_t> behind;  // state after an item, by (place, counts)
  std::vector<std::pair<std::int64_t, Counts>> open;
  const auto may_end = [&](std::int64_t count, const Counts& counts) {
    bool all = count >= array.least;
    for (std::size_t c = 0; c < counts.size(); ++c) all = all && counts[c] >= array.contained[c].least;
    return all;
  };
  const auto add_items = [&](std::int32_t from, std::int64_t count, const Counts& counts) {
    if (array.most != kNoLimit && count >= array.most) return;
    for (unsigned chosen = 0; chosen < 1U << array.contained.size(); ++chosen) {
      std::pair<std::int64_t, Counts> next{std::min(count + 1, places), counts};
      const auto item = item_of(array, count, chosen, next.second);
      if (!item) continue;
      const auto [found, is_new] = behind.emplace(next, -1);
      if (is_new) {
        found->second = builder_.add_state();
        open.push_back(next);
      }
      builder_.add_empty(value(from, *item), found->second);
    }
  };
  const Counts none(array.contained.size());
  const std::int32_t first = text_.space(builder_.add_literal(builder_.start(rule), "["));
  if (may_end(0, none)) builder_.set_end(builder_.add_literal(first, "]"));
  add_items(first, 0, none);
  for (std::size_t i = 0; i < open.size(); ++i) {
    const auto [count, counts] = open[i];
    const std::int32_t state = behind.at(open[i]);
    if (may_end(count, counts)) builder_.set_end(builder_.add_literal(text_.space(state), "]"));
    add_items(text_.space(builder_.add_literal(state, ",")), count, counts);
    if (builder_.too_large()) break;
  }
  return {};
}

// The values that items may have, as they are written, and which may stand at each place.
struct SchemaNetwork::UniqueValues {
  std::vector<std::pair<bool, std::string>> values;  // (true, a string's characters) or (false, JSON)
  std::vector<unsigned> at;                          // for each place: bits of its values
};

namespace {

constexpr std::size_t kMostUniqueValues = 8;

// Returns the shortest text of the same number: "1.50" is 1.5, "-0" is 0.
std::string shortest_number(std::string text) {
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

// Adds the values of a product; false: they are too many.
bool add_values(const SchemaProduct& product, std::set<std::pair<bool, std::string>>& out) {
  if ((product.types & (kArrayValue | kObjectValue)) != 0) return false;
  for (const auto& [type, word] :
       {std::pair{kNullValue, "null"}, std::pair{kTrueValue, "true"}, std::pair{kFalseValue, "false"}}) {
    if ((product.types & type) != 0) out.emplace(false, word);
  }
  for (const auto& [type, texts] : {std::pair{kNumberValue, product.number}, std::pair{kStringValue, product.string}}) {
    if ((product.types & type) == 0) continue;
    const auto all = texts != nullptr ? list_texts(*texts, 2 * kMostUniqueValues) : std::nullopt;
    if (!all) return false;
    for (const std::string& text : *all) {
      out.emplace(type == kStringValue, type == kStringValue ? text : shortest_number(text));
    }
  }
  return true;
}

}  // namespace

Result<SchemaNetwork::UniqueValues> SchemaNetwork::unique_values(const ArrayProduct& array) {
  const Status too_many = invalid_argument(fmt::format(
      "{}: is supported for items that have at most {} values, or with maxItems 1", array.unique, kMostUniqueValues));
  if (!array.contained.empty()) return too_many;
  UniqueValues out;
  Counts none;
  for (std::int64_t place = 0; place < std::min<std::int64_t>(array.most, kMostUniqueValues + 1); ++place) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<SchemaProduct> products,
                            expander_.expand(item_of(array, place, 0, none).value_or(Conjunction())));
    std::set<std::pair<bool, std::string>> values;
    for (const SchemaProduct& product : products) {
      if (!add_values(product, values)) return too_many;
    }
    unsigned bits = 0;
    for (const auto& value : values) {
      auto found = std::ranges::find(out.values, value);
      if (found == out.values.end()) found = out.values.insert(found, value);
      if (out.values.size() > kMostUniqueValues) return too_many;
      bits |= 1U << (found - out.values.begin());
    }
    out.at.push_back(bits);
  }
  return out;
}

// A state for each set of values that were written.
Status SchemaNetwork::add_unique(std::int32_t rule, const ArrayProduct& array) {
  SLUICE_ASSIGN_OR_RETURN(const UniqueValues all, unique_values(array));
  std::vector<std::int32_t> rules;
  for (const auto& [is_string, text] : all.values) {
    rules.push_back(builder_.add_rule("item"));
    const std::int32_t start = builder_.start(rules.back());
    builder_.set_end(is_string ? text_.string_of(start, text) : builder_.add_literal(start, text));
  }
  std::map<unsigned, std::int32_t> behind;
  std::vector<unsigned> open;
  const auto add_items = [&](std::int32_t from, unsigned used) {
    const auto place = static_cast<std::size_t>(std::popcount(used));
    if (place >= all.at.size()) return;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const unsigned bit = 1U << i;
      if ((all.at[place] & ~used & bit) == 0) continue;
      const auto [found, is_new] = behind.emplace(used | bit, -1);
      if (is_new) {
        found->second = builder_.add_state();
        open.push_back(used | bit);
      }
      builder_.add_call(from, rules[i], found->second);
    }
  };
  const std::int32_t first = text_.space(builder_.add_literal(builder_.start(rule), "["));
  if (array.least == 0) builder_.set_end(builder_.add_literal(first, "]"));
  add_items(first, 0);
  for (std::size_t i = 0; i < open.size(); ++i) {
    const unsigned used = open[i];
    const std::int32_t state = behind.at(used);
    if (std::popcount(used) >= array.least) builder_.set_end(builder_.add_literal(text_.space(state), "]"));
    add_items(text_.space(builder_.add_literal(state, ",")), used);
  }
  return {};
}

}  // namespace sluice
