// Parses the suffixes of an expression: attributes, subscripts, calls, and where filters and tests begin.
// Used by expression_parser.cc and parser.cc.
#include <utility>

#include "jinja/expression_parser.h"

namespace sluice::jinja {

ExprPtr ExpressionParser::parse_postfix(ExprPtr expr) {
  while (tokens_.ok()) {
    if (tokens_.at_sign(".")) {
      expr = parse_attribute(std::move(expr));
    } else if (tokens_.at_sign("[")) {
      expr = parse_subscript(std::move(expr));
    } else if (tokens_.at_sign("(")) {
      expr = parse_call(std::move(expr));
    } else {
      break;
    }
  }
  return expr;
}

ExprPtr ExpressionParser::parse_filters_and_tests(ExprPtr expr) {
  while (tokens_.ok()) {
    if (tokens_.at_sign("|")) {
      expr = parse_filters(std::move(expr), /*starts_inline=*/false);
    } else if (tokens_.at_name("is")) {
      expr = parse_test(std::move(expr));
    } else if (tokens_.at_sign("(")) {
      expr = parse_call(std::move(expr));
    } else {
      break;
    }
  }
  return expr;
}

ExprPtr ExpressionParser::parse_attribute(ExprPtr expr) {
  const int line = tokens_.take().line;
  if (tokens_.at(Token::Type::kInteger)) {
    ExprPtr index = node(Expr::Kind::kConstant, line);
    index->value = Value::integer(tokens_.take().integer);
    ExprPtr subscript = node(Expr::Kind::kSubscript, line);
    add(*subscript, std::move(expr));
    add(*subscript, std::move(index));
    return subscript;
  }
  ExprPtr attribute = node(Expr::Kind::kAttribute, line);
  attribute->name = tokens_.expect_any_name();
  add(*attribute, std::move(expr));
  return attribute;
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr expr) {
  tokens_.expect_sign("[");
  if (tokens_.at_sign("]")) tokens_.fail_expecting("an index");
  ExprPtr result = parse_index(std::move(expr));
  tokens_.expect_sign("]");
  return result;
}

ExprPtr ExpressionParser::parse_index(ExprPtr expr) {
  const int line = tokens_.line();
  ExprPtr from = tokens_.at_sign(":") ? nullptr : parse_expression();
  if (!tokens_.skip_sign(":")) {
    ExprPtr subscript = node(Expr::Kind::kSubscript, line);
    add(*subscript, std::move(expr));
    add(*subscript, std::move(from));
    return subscript;
  }
  ExprPtr slice = node(Expr::Kind::kSlice, line);
  add(*slice, std::move(expr));
  add(*slice, std::move(from));
  add(*slice, tokens_.at_sign(":") || tokens_.at_sign("]") ? nullptr : parse_expression());
  const bool has_step = tokens_.skip_sign(":") && !tokens_.at_sign("]");
  add(*slice, has_step ? parse_expression() : nullptr);
  return slice;
}

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
  ExprPtr call = node(Expr::Kind::kCall, tokens_.line());
  add(*call, std::move(callee));
  parse_arguments(*call);
  return call;
}

void ExpressionParser::parse_arguments(Expr& call) {
  call.call = std::make_unique<Expr::Call>();
  tokens_.expect_sign("(");
  bool first = true;
  while (tokens_.ok() && !tokens_.at_sign(")")) {
    if (!std::exchange(first, false)) tokens_.expect_sign(",");
    if (tokens_.at_sign(")")) break;
    parse_argument(*call.call);
  }
  tokens_.expect_sign(")");
  for (const ExprPtr& argument : call.call->positional) deepen(call, argument);
  for (const auto& [name, argument] : call.call->named) deepen(call, argument);
  deepen(call, call.call->star);
  deepen(call, call.call->star_star);
}

void ExpressionParser::parse_argument(Expr::Call& call) {
  const auto ensure = [&](bool holds) {
    if (!holds) tokens_.fail("the arguments of a call are in a wrong order");
  };
  if (tokens_.skip_sign("*")) {
    ensure(call.star == nullptr && call.star_star == nullptr);
    call.star = parse_expression();
  } else if (tokens_.skip_sign("**")) {
    ensure(call.star_star == nullptr);
    call.star_star = parse_expression();
  } else if (tokens_.at(Token::Type::kName) && tokens_.following().type == Token::Type::kSign &&
             tokens_.following().text == "=") {
    ensure(call.star_star == nullptr);
    std::string name = tokens_.take().text;
    tokens_.take();
    call.named.emplace_back(std::move(name), parse_expression());
  } else {
    ensure(call.star == nullptr && call.star_star == nullptr && call.named.empty());
    call.positional.push_back(parse_expression());
  }
}

}  // namespace sluice::jinja
