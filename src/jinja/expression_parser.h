// The parser's part for expressions.
// Thread safety: a local object.
// Used by expression_suffixes.cc and parser.cc.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/ast.h"
#include "jinja/token_stream.h"

namespace sluice::jinja {

// Numbers the names of a template.
class NameTable {
 public:
  int id(const std::string& name) {
    const auto [entry, is_new] = ids_.emplace(name, static_cast<int>(names_.size()));
    if (is_new) names_.push_back(name);
    return entry->second;
  }
  std::vector<std::string> release() { return std::move(names_); }

 private:
  std::map<std::string, int> ids_;
  std::vector<std::string> names_;
};

// After an error (the stream has it) the results are meaningless, and may be null.
class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, NameTable& names) : tokens_(tokens), names_(names) {}

  ExprPtr parse_expression() { return parse_conditional(); }
  // An expression without `a if b`, where an `if` belongs to the statement.
  ExprPtr parse_or();
  // An expression, or several with commas between them, which are a tuple; ends before `end_name` as well.
  ExprPtr parse_tuple(bool with_conditional = true, std::string_view end_name = {});
  // Parses a target of an assignment: a name, a tuple of targets, with `with_namespace` also name.attribute.
  ExprPtr parse_target(bool with_namespace, std::string_view end_name = {});
  // name(arguments) | name ...: filters on what is null, as a filter block starts.
  ExprPtr parse_filters(ExprPtr input, bool starts_inline);

  // Macros whose body is being parsed; a use of kwargs, varargs or caller is noted in each.
  std::vector<MacroNode*>& open_macros() { return open_macros_; }

 private:
  ExprPtr parse_conditional();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter);
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_string();
  ExprPtr parse_parentheses();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_filters_and_tests(ExprPtr expr);
  ExprPtr parse_attribute(ExprPtr expr);
  ExprPtr parse_subscript(ExprPtr expr);
  ExprPtr parse_index(ExprPtr expr);
  ExprPtr parse_test(ExprPtr expr);
  ExprPtr parse_call(ExprPtr callee);
  ExprPtr parse_target_item(bool with_namespace);
  void parse_arguments(Expr& call);
  void parse_argument(Expr::Call& call);

  bool at_tuple_end(std::string_view end_name) const;
  void note_use(const std::string& name);
  ExprPtr node(Expr::Kind kind, int line) const;
  // Adds an operand; the depth grows with it.
  void add(Expr& parent, ExprPtr operand);
  void deepen(Expr& parent, const ExprPtr& child);

  TokenStream& tokens_;
  NameTable& names_;
  std::vector<MacroNode*> open_macros_;
  int nesting_ = 0;  // the depth of parse_primary and the like, which call each other
};

}  // namespace sluice::jinja
