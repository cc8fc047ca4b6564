// Used by expression_suffixes.cc and parser.cc.
#include "jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "jinja/library/builtins.h"
#include "jinja/parser.h"

namespace sluice::jinja {

namespace {

struct Sign {
  std::string_view text;
  Operator operation;
};

constexpr std::array kCompareSigns = {Sign{"==", Operator::kEqual},  Sign{"!=", Operator::kNotEqual},
                                      Sign{"<", Operator::kLess},    Sign{"<=", Operator::kLessOrEqual},
                                      Sign{">", Operator::kGreater}, Sign{">=", Operator::kGreaterOrEqual}};
constexpr std::array kSumSigns = {Sign{"+", Operator::kAdd}, Sign{"-", Operator::kSubtract}};
constexpr std::array kProductSigns = {Sign{"*", Operator::kMultiply}, Sign{"/", Operator::kDivide},
                                      Sign{"//", Operator::kFloorDivide}, Sign{"%", Operator::kModulo}};
constexpr std::array kPowerSigns = {Sign{"**", Operator::kPower}};

// The operator here, taken; nullptr for none of these.
template <class Signs>
const Sign* take_sign(TokenStream& tokens, const Signs& signs) {
  for (const Sign& sign : signs) {
    if (tokens.skip_sign(sign.text)) return &sign;
  }
  return nullptr;
}

// Counts one more level while it lives.
class Nested {
 public:
  Nested(int& level, TokenStream& tokens) : level_(level) {
    if (++level_ > kMaxTreeDepth) tokens.fail("an expression is nested too deep");
  }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  ~Nested() { --level_; }

 private:
  int& level_;
};

}  // namespace

ExprPtr ExpressionParser::node(Expr::Kind kind, int line) const {
  return std::make_unique<Expr>(Expr{.kind = kind, .line = line});
}

void ExpressionParser::deepen(Expr& parent, const ExprPtr& child) {
  if (child != nullptr) parent.depth = std::max(parent.depth, child->depth + 1);
  if (parent.depth > kMaxTreeDepth) tokens_.fail("an expression is nested too deep");
}

void ExpressionParser::add(Expr& parent, ExprPtr operand) {
  deepen(parent, operand);
  parent.operands.push_back(std::move(operand));
}

ExprPtr ExpressionParser::parse_conditional() {
  const Nested nested(nesting_, tokens_);
  ExprPtr value = parse_or();
  while (tokens_.ok() && tokens_.at_name("if")) {
    ExprPtr conditional = node(Expr::Kind::kConditional, tokens_.take().line);
    add(*conditional, parse_or());
    add(*conditional, std::move(value));
    add(*conditional, tokens_.skip_name("else") ? parse_conditional() : nullptr);
    value = std::move(conditional);
  }
  return value;
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr left = parse_and();
  while (tokens_.ok() && tokens_.at_name("or")) {
    ExprPtr both = node(Expr::Kind::kOr, tokens_.take().line);
    add(*both, std::move(left));
    add(*both, parse_and());
    left = std::move(both);
  }
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr left = parse_not();
  while (tokens_.ok() && tokens_.at_name("and")) {
    ExprPtr both = node(Expr::Kind::kAnd, tokens_.take().line);
    add(*both, std::move(left));
    add(*both, parse_not());
    left = std::move(both);
  }
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  if (!tokens_.at_name("not")) return parse_compare();
  const Nested nested(nesting_, tokens_);
  ExprPtr negation = node(Expr::Kind::kNot, tokens_.line());
  if (tokens_.ok()) tokens_.take();
  add(*negation, parse_not());
  return negation;
}

ExprPtr ExpressionParser::parse_compare() {
  ExprPtr first = parse_sum();
  ExprPtr chain = node(Expr::Kind::kCompare, tokens_.line());
  while (tokens_.ok()) {
    if (const Sign* sign = take_sign(tokens_, kCompareSigns)) {
      chain->operators.push_back(sign->operation);
    } else if (tokens_.skip_name("in")) {
      chain->operators.push_back(Operator::kIn);
    } else if (tokens_.at_name("not") && tokens_.following().type == Token::Type::kName &&
               tokens_.following().text == "in") {
      tokens_.take();
      tokens_.take();
      chain->operators.push_back(Operator::kNotIn);
    } else {
      break;
    }
    if (chain->operands.empty()) add(*chain, std::move(first));
    add(*chain, parse_sum());
  }
  return chain->operands.empty() ? std::move(first) : std::move(chain);
}

ExprPtr ExpressionParser::parse_sum() {
  ExprPtr left = parse_concat();
  while (const Sign* sign = take_sign(tokens_, kSumSigns)) {
    ExprPtr both = node(Expr::Kind::kBinary, tokens_.line());
    both->operators.push_back(sign->operation);
    add(*both, std::move(left));
    add(*both, parse_concat());
    left = std::move(both);
  }
  return left;
}

ExprPtr ExpressionParser::parse_concat() {
  ExprPtr first = parse_product();
  if (!tokens_.at_sign("~")) return first;
  ExprPtr all = node(Expr::Kind::kConcat, tokens_.line());
  add(*all, std::move(first));
  while (tokens_.skip_sign("~")) add(*all, parse_product());
  return all;
}

ExprPtr ExpressionParser::parse_product() {
  ExprPtr left = parse_power();
  while (const Sign* sign = take_sign(tokens_, kProductSigns)) {
    ExprPtr both = node(Expr::Kind::kBinary, tokens_.line());
    both->operators.push_back(sign->operation);
    add(*both, std::move(left));
    add(*both, parse_power());
    left = std::move(both);
  }
  return left;
}

ExprPtr ExpressionParser::parse_power() {
  ExprPtr left = parse_unary(/*with_filter=*/true);
  while (const Sign* sign = take_sign(tokens_, kPowerSigns)) {
    ExprPtr both = node(Expr::Kind::kBinary, tokens_.line());
    both->operators.push_back(sign->operation);
    add(*both, std::move(left));
    add(*both, parse_unary(/*with_filter=*/true));
    left = std::move(both);
  }
  return left;
}

ExprPtr ExpressionParser::parse_unary(bool with_filter) {
  const Nested nested(nesting_, tokens_);
  ExprPtr expr;
  if (tokens_.at_sign("-") || tokens_.at_sign("+")) {
    const Token sign = tokens_.take();
    expr = node(sign.text == "-" ? Expr::Kind::kNegative : Expr::Kind::kPositive, sign.line);
    add(*expr, parse_unary(/*with_filter=*/false));
  } else {
    expr = parse_primary();
  }
  expr = parse_postfix(std::move(expr));
  return with_filter ? parse_filters_and_tests(std::move(expr)) : std::move(expr);
}

ExprPtr ExpressionParser::parse_primary() {
  const Token& token = tokens_.current();
  ExprPtr constant = node(Expr::Kind::kConstant, token.line);
  switch (token.type) {
    case Token::Type::kName:
      return parse_name();
    case Token::Type::kString:
      return parse_string();
    case Token::Type::kInteger:
      constant->value = Value::integer(tokens_.take().integer);
      return constant;
    case Token::Type::kFloat:
      constant->value = Value::real(tokens_.take().real);
      return constant;
    case Token::Type::kSign:
      if (tokens_.at_sign("(")) return parse_parentheses();
      if (tokens_.at_sign("[")) return parse_list();
      if (tokens_.at_sign("{")) return parse_dict();
      break;
    case Token::Type::kData:
    case Token::Type::kVariableBegin:
    case Token::Type::kVariableEnd:
    case Token::Type::kBlockBegin:
    case Token::Type::kBlockEnd:
    case Token::Type::kEnd:
      break;
  }
  tokens_.fail_expecting("an expression");
  return constant;
}

ExprPtr ExpressionParser::parse_name() {
  const Token token = tokens_.take();
  ExprPtr constant = node(Expr::Kind::kConstant, token.line);
  if (token.text == "true" || token.text == "True") {
    constant->value = Value::boolean(true);
  } else if (token.text == "false" || token.text == "False") {
    constant->value = Value::boolean(false);
  } else if (token.text == "none" || token.text == "None") {
    constant->value = Value::none();
  } else {
    constant->kind = Expr::Kind::kName;
    constant->name_id = names_.id(token.text);
    note_use(token.text);
  }
  return constant;
}

void ExpressionParser::note_use(const std::string& name) {
  for (MacroNode* macro : open_macros_) {
    if (std::ranges::find(macro->parameter_names, name) != macro->parameter_names.end()) continue;
    if (name == "caller") macro->uses_caller = true;
    if (name == "kwargs") macro->uses_kwargs = true;
    if (name == "varargs") macro->uses_varargs = true;
  }
}

ExprPtr ExpressionParser::parse_string() {
  ExprPtr constant = node(Expr::Kind::kConstant, tokens_.line());
  std::string text;
  while (tokens_.at(Token::Type::kString)) text += tokens_.take().text;
  constant->value = Value::constant_text(std::move(text));
  return constant;
}

ExprPtr ExpressionParser::parse_parentheses() {
  tokens_.expect_sign("(");
  ExprPtr inner;
  if (tokens_.at_sign(")")) {
    inner = node(Expr::Kind::kTuple, tokens_.line());
  } else {
    inner = parse_tuple();
  }
  tokens_.expect_sign(")");
  return inner;
}

ExprPtr ExpressionParser::parse_list() {
  ExprPtr list = node(Expr::Kind::kList, tokens_.line());
  tokens_.expect_sign("[");
  while (tokens_.ok() && !tokens_.at_sign("]")) {
    if (!list->operands.empty()) tokens_.expect_sign(",");
    if (tokens_.at_sign("]")) break;
    add(*list, parse_expression());
  }
  tokens_.expect_sign("]");
  return list;
}

ExprPtr ExpressionParser::parse_dict() {
  ExprPtr dict = node(Expr::Kind::kDict, tokens_.line());
  tokens_.expect_sign("{");
  while (tokens_.ok() && !tokens_.at_sign("}")) {
    if (!dict->operands.empty()) tokens_.expect_sign(",");
    if (tokens_.at_sign("}")) break;
    add(*dict, parse_expression());
    tokens_.expect_sign(":");
    add(*dict, parse_expression());
  }
  tokens_.expect_sign("}");
  return dict;
}

bool ExpressionParser::at_tuple_end(std::string_view end_name) const {
  return tokens_.at(Token::Type::kVariableEnd) || tokens_.at(Token::Type::kBlockEnd) || tokens_.at_sign(")") ||
         (!end_name.empty() && tokens_.at_name(end_name));
}

ExprPtr ExpressionParser::parse_tuple(bool with_conditional, std::string_view end_name) {
  ExprPtr tuple = node(Expr::Kind::kTuple, tokens_.line());
  ExprPtr item = with_conditional ? parse_expression() : parse_or();
  if (!tokens_.at_sign(",")) return item;
  add(*tuple, std::move(item));
  while (tokens_.ok() && tokens_.skip_sign(",") && !at_tuple_end(end_name)) {
    add(*tuple, with_conditional ? parse_expression() : parse_or());
  }
  return tuple;
}

ExprPtr ExpressionParser::parse_target(bool with_namespace, std::string_view end_name) {
  ExprPtr tuple = node(Expr::Kind::kTuple, tokens_.line());
  ExprPtr item = parse_target_item(with_namespace);
  if (!tokens_.at_sign(",")) return item;
  add(*tuple, std::move(item));
  while (tokens_.ok() && tokens_.skip_sign(",") && !at_tuple_end(end_name) && !tokens_.at_sign("=")) {
    add(*tuple, parse_target_item(with_namespace));
  }
  return tuple;
}

ExprPtr ExpressionParser::parse_target_item(bool with_namespace) {
  const Nested nested(nesting_, tokens_);
  ExprPtr target = node(Expr::Kind::kName, tokens_.line());
  if (tokens_.skip_sign("(")) {
    target = parse_target(with_namespace);
    tokens_.expect_sign(")");
    return target;
  }
  const std::string name = tokens_.expect_any_name();
  constexpr std::array<std::string_view, 6> kConstants = {"true", "false", "none", "True", "False", "None"};
  if (std::ranges::find(kConstants, name) != kConstants.end()) tokens_.fail("can't assign to '" + name + "'");
  target->name_id = names_.id(name);
  if (with_namespace && tokens_.skip_sign(".")) {
    target->kind = Expr::Kind::kNamespaceRef;
    target->name = tokens_.expect_any_name();
  }
  return target;
}

ExprPtr ExpressionParser::parse_filters(ExprPtr input, bool starts_inline) {
  while (tokens_.ok() && (starts_inline || tokens_.skip_sign("|"))) {
    starts_inline = false;
    ExprPtr filter = node(Expr::Kind::kFilter, tokens_.line());
    filter->name = tokens_.expect_any_name();
    filter->filter = find_filter(filter->name);
    add(*filter, std::move(input));
    if (tokens_.at_sign("(")) {
      parse_arguments(*filter);
    } else {
      filter->call = std::make_unique<Expr::Call>();
    }
    input = std::move(filter);
  }
  return input;
}

ExprPtr ExpressionParser::parse_test(ExprPtr expr) {
  const int line = tokens_.take().line;
  const bool negated = tokens_.skip_name("not");
  ExprPtr test = node(Expr::Kind::kTest, line);
  test->name = tokens_.expect_any_name();
  test->test = find_test(test->name);
  add(*test, std::move(expr));
  const bool names_an_operator = tokens_.at_name("else") || tokens_.at_name("or") || tokens_.at_name("and");
  const bool has_argument = tokens_.at(Token::Type::kName) || tokens_.at(Token::Type::kString) ||
                            tokens_.at(Token::Type::kInteger) || tokens_.at(Token::Type::kFloat) ||
                            tokens_.at_sign("[") || tokens_.at_sign("{");
  if (tokens_.at_sign("(")) {
    parse_arguments(*test);
  } else {
    test->call = std::make_unique<Expr::Call>();
    if (has_argument && !names_an_operator) {
      if (tokens_.at_name("is")) tokens_.fail("tests can't be chained with 'is'");
      const Nested nested(nesting_, tokens_);
      test->call->positional.push_back(parse_postfix(parse_primary()));
      deepen(*test, test->call->positional.back());
    }
  }
  if (!negated) return test;
  ExprPtr negation = node(Expr::Kind::kNot, line);
  add(*negation, std::move(test));
  return negation;
}

}  // namespace sluice::jinja
