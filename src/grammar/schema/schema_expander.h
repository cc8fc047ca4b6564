// SchemaExpander: from a conjunction of JSON Schemas (2020-12) to the products that meet it: a value meets the
// conjunction if and only if it meets one of them. anyOf, oneOf, not, if and their like become several products; allOf
// and references one. Negations are pushed down to single keywords.
//
// Sound: a value that meets a product is valid. A schema that cannot be expressed is an error with the JSON pointer of
// the keyword, never left out; unknown keywords and formats say nothing, and are remarked. Thread safety: one thread at
// a time.
// Used by grammar/schema.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/schema/schema_document.h"
#include "grammar/schema/schema_product.h"
#include "sluice/status.h"

namespace sluice {

inline constexpr std::size_t kMaxProducts = 300;      // the most for one conjunction
inline constexpr std::int64_t kMaxExpanded = 40'000;  // steps for one document

class SchemaExpander {
 public:
  explicit SchemaExpander(SchemaDocument& document) : document_(document) {}

  Result<std::vector<SchemaProduct>> expand(const Conjunction& conjunction);
  // The characters of the strings that meet the conjunction; null: all.
  Result<DfaPtr> strings_of(const Conjunction& conjunction);
  // Nothing meets it, for a reason that shows without looking far.
  bool is_empty(const Conjunction& conjunction, int depth = 3);
  // The pointers of what said nothing so far, though someone may have meant something by it; each once.
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  using Products = std::vector<SchemaProduct>;
  using Object = boost::json::object;
  struct Keyword {
    Literal owner;
    const Object& schema;
    std::string_view name;
    const boost::json::value& value;
    std::string pointer;
  };
  using Handler = Products (SchemaExpander::*)(const Keyword&, bool holds, const SchemaProduct&);
  static Handler handler_of(std::string_view name);

  Products apply(Literal literal, const SchemaProduct& product);
  Products apply_all(const std::vector<Literal>& literals, const SchemaProduct& product);
  Products apply_keywords(Literal literal, const SchemaProduct& product);
  Products apply_keyword(const Keyword& keyword, bool holds, const SchemaProduct& product, Products out);
  static void add(Products& to, Products more);
  bool is_empty(const SchemaProduct& product, int depth);
  bool excludes(const SchemaProduct& product, Literal literal);

  // One for each keyword or kind of it: `product` and the keyword, or its negation.
  Products type(const Keyword& k, bool holds, const SchemaProduct& product);
  Products values(const Keyword& k, bool holds, const SchemaProduct& product);
  Products number(const Keyword& k, bool holds, const SchemaProduct& product);
  Products length(const Keyword& k, bool holds, const SchemaProduct& product);
  Products pattern(const Keyword& k, bool holds, const SchemaProduct& product);
  Products format(const Keyword& k, bool holds, const SchemaProduct& product);
  Products item_count(const Keyword& k, bool holds, const SchemaProduct& product);
  Products prefix_items(const Keyword& k, bool holds, const SchemaProduct& product);
  Products items(const Keyword& k, bool holds, const SchemaProduct& product);
  Products contains(const Keyword& k, bool holds, const SchemaProduct& product);
  Products unique_items(const Keyword& k, bool holds, const SchemaProduct& product);
  Products property_count(const Keyword& k, bool holds, const SchemaProduct& product);
  Products required(const Keyword& k, bool holds, const SchemaProduct& product);
  Products properties(const Keyword& k, bool holds, const SchemaProduct& product);
  Products pattern_properties(const Keyword& k, bool holds, const SchemaProduct& product);
  Products additional_properties(const Keyword& k, bool holds, const SchemaProduct& product);
  Products property_names(const Keyword& k, bool holds, const SchemaProduct& product);
  Products dependent_required(const Keyword& k, bool holds, const SchemaProduct& product);
  Products dependent_schemas(const Keyword& k, bool holds, const SchemaProduct& product);
  Products dependencies(const Keyword& k, bool holds, const SchemaProduct& product);
  Products unevaluated_properties(const Keyword& k, bool holds, const SchemaProduct& product);
  Products all_of(const Keyword& k, bool holds, const SchemaProduct& product);
  Products any_of(const Keyword& k, bool holds, const SchemaProduct& product);
  Products one_of(const Keyword& k, bool holds, const SchemaProduct& product);
  Products negation(const Keyword& k, bool holds, const SchemaProduct& product);
  Products condition(const Keyword& k, bool holds, const SchemaProduct& product);
  Products reference(const Keyword& k, bool holds, const SchemaProduct& product);
  Products ignored(const Keyword& k, bool holds, const SchemaProduct& product);
  Products refused(const Keyword& k, bool holds, const SchemaProduct& product);
  Products unknown(const Keyword& k, bool holds, const SchemaProduct& product);

  // The members of an object that the keywords of a schema, and of those that hold with it, evaluate.
  struct Evaluated;
  bool find_evaluated(Literal literal, Evaluated& out, int depth);

  void remark(std::string what);
  Products fail(const std::string& pointer, std::string_view message);
  Products fail(const Status& status, const std::string& pointer);
  // The number of a keyword, a count; nullopt after an error.
  std::optional<std::int64_t> count_of(const Keyword& k);
  std::optional<Literal> child(const Keyword& k, const boost::json::value& schema, const std::string& step);
  std::optional<std::vector<Literal>> children(const Keyword& k);
  DfaPtr checked(Result<Dfa> dfa, const std::string& pointer);
  DfaPtr pattern_dfa(std::string_view pattern, const std::string& pointer);
  void narrow(DfaPtr& constraint, const DfaPtr& more, const std::string& pointer);
  DfaPtr opposite(const DfaPtr& dfa, const Dfa& universe, const std::string& pointer);

  SchemaDocument& document_;
  std::map<std::string, DfaPtr> patterns_;
  std::vector<std::string> remarks_;
  Status error_;
  bool formats_are_asserted_ = true;
  int depth_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace sluice
