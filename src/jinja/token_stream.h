// TokenStream: the tokens of a template with the parser's place in them, and the first error.
// Thread safety: a local object.
// Used by expression_parser.h and parser.cc.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/lexer.h"

namespace sluice::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[next_]; }
  const Token& following() const { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
  int line() const { return current().line; }
  bool at(Token::Type type) const { return current().type == type; }
  bool at_sign(std::string_view sign) const { return at(Token::Type::kSign) && current().text == sign; }
  bool at_name(std::string_view name) const { return at(Token::Type::kName) && current().text == name; }

  Token take() { return at(Token::Type::kEnd) ? tokens_[next_] : std::move(tokens_[next_++]); }
  bool skip_sign(std::string_view sign) { return at_sign(sign) && skip(); }
  bool skip_name(std::string_view name) { return at_name(name) && skip(); }

  void expect_sign(std::string_view sign) {
    if (!skip_sign(sign)) fail_expecting("'" + std::string(sign) + "'");
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail_expecting("'" + std::string(name) + "'");
  }
  std::string expect_any_name() {
    if (at(Token::Type::kName)) return take().text;
    fail_expecting("a name");
    return {};
  }
  void expect(Token::Type type) {
    if (at(type)) {
      take();
    } else {
      fail_expecting(type == Token::Type::kBlockEnd ? "'%}'" : "'}}'");
    }
  }

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  // The first error sticks, and the stream is at its end from then on.
  void fail_expecting(const std::string& expected) { fail("expected " + expected + ", found " + describe()); }
  void fail(const std::string& message) { fail_at(line(), message); }
  void fail_at(int line, const std::string& message) {
    if (!status_.ok()) return;
    status_ = invalid_argument("line " + std::to_string(line) + ": " + message);
    next_ = tokens_.size() - 1;
  }

 private:
  bool skip() {
    ++next_;
    return true;
  }

  std::string describe() const {
    switch (current().type) {
      case Token::Type::kData:
      case Token::Type::kVariableBegin:
      case Token::Type::kBlockBegin:
        return "text outside of a tag";
      case Token::Type::kVariableEnd:
        return "'}}'";
      case Token::Type::kBlockEnd:
        return "'%}'";
      case Token::Type::kName:
      case Token::Type::kSign:
        return "'" + current().text + "'";
      case Token::Type::kString:
        return "a string";
      case Token::Type::kInteger:
      case Token::Type::kFloat:
        return "a number";
      case Token::Type::kEnd:
        break;
    }
    return "the end of the template";
  }

  std::vector<Token> tokens_;  // the last is kEnd
  std::size_t next_ = 0;
  Status status_;
};

}  // namespace sluice::jinja
