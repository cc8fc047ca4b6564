// Used by expression_parser.cc, template.cc and text/chat/templates/chat_templates.cc.
#include "jinja/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "jinja/expression_parser.h"
#include "jinja/token_stream.h"

namespace sluice::jinja {

namespace {

using Names = std::initializer_list<std::string_view>;

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens) : tokens_(std::move(tokens)), expressions_(tokens_, names_) {}

  Result<TemplateTree> parse() {
    TemplateTree tree;
    tree.body = parse_body({});
    if (!tokens_.ok()) return tokens_.status();
    tree.names = names_.release();
    return tree;
  }

 private:
  // Statements up to a tag whose name is in `ends`; the stream is then at that name. At the top: to the end.
  Body parse_body(Names ends) {
    Body body;
    if (++depth_ > kMaxTreeDepth) tokens_.fail("statements are nested too deep");
    while (tokens_.ok()) {
      if (tokens_.at(Token::Type::kEnd)) {
        if (ends.size() > 0) tokens_.fail_expecting(listed(ends));
        break;
      }
      if (tokens_.at(Token::Type::kData)) {
        StmtPtr text = statement(Stmt::Kind::kText);
        text->text = tokens_.take().text;
        body.push_back(std::move(text));
      } else if (tokens_.at(Token::Type::kVariableBegin)) {
        StmtPtr print = statement(Stmt::Kind::kPrint);
        tokens_.take();
        print->expressions.push_back(expressions_.parse_tuple());
        tokens_.expect(Token::Type::kVariableEnd);
        body.push_back(std::move(print));
      } else {
        tokens_.take();  // {%
        if (std::ranges::any_of(ends, [&](std::string_view name) { return tokens_.at_name(name); })) break;
        body.push_back(parse_statement());
        tokens_.expect(Token::Type::kBlockEnd);
      }
    }
    --depth_;
    return body;
  }

  static std::string listed(Names names) {
    std::string text;
    for (const std::string_view name : names) text.append(text.empty() ? "'" : " or '").append(name).append("'");
    return text;
  }

  // The rest of an opening tag, the body, and the name of the closing tag.
  Body parse_block(Names ends) {
    tokens_.skip_sign(":");
    tokens_.expect(Token::Type::kBlockEnd);
    return parse_body(ends);
  }

  Body parse_block_to(std::string_view end) {
    Body body = parse_block({end});
    tokens_.expect_name(end);
    return body;
  }

  StmtPtr parse_statement() {
    using Parse = StmtPtr (StatementParser::*)();
    struct Tag {
      std::string_view name;
      Parse parse;
    };
    static constexpr std::array kTags = {Tag{"if", &StatementParser::parse_if},
                                         Tag{"for", &StatementParser::parse_for},
                                         Tag{"set", &StatementParser::parse_set},
                                         Tag{"macro", &StatementParser::parse_macro},
                                         Tag{"call", &StatementParser::parse_call_block},
                                         Tag{"filter", &StatementParser::parse_filter_block},
                                         Tag{"with", &StatementParser::parse_with},
                                         Tag{"print", &StatementParser::parse_print},
                                         Tag{"break", &StatementParser::parse_break},
                                         Tag{"continue", &StatementParser::parse_continue},
                                         Tag{"generation", &StatementParser::parse_generation}};
    for (const Tag& tag : kTags) {
      if (tokens_.at_name(tag.name)) return (this->*tag.parse)();
    }
    constexpr std::array<std::string_view, 6> kOtherFiles = {"include", "import", "from",
                                                             "extends", "block",  "autoescape"};
    const bool is_known =
        std::ranges::any_of(kOtherFiles, [&](std::string_view name) { return tokens_.at_name(name); });
    if (!tokens_.at(Token::Type::kName)) {
      tokens_.fail_expecting("the name of a tag");
    } else if (is_known) {
      tokens_.fail("the tag '" + tokens_.current().text + "' is not supported: a chat template stands alone");
    } else {
      tokens_.fail("unknown tag '" + tokens_.current().text + "'");
    }
    return statement(Stmt::Kind::kScope);
  }

  StmtPtr parse_if() {
    StmtPtr result = statement(Stmt::Kind::kIf);
    while (tokens_.ok()) {
      tokens_.take();  // if, elif
      result->expressions.push_back(expressions_.parse_tuple(/*with_conditional=*/false));
      result->bodies.push_back(parse_block({"elif", "else", "endif"}));
      if (tokens_.at_name("elif")) continue;
      if (tokens_.skip_name("else")) result->bodies.push_back(parse_block({"endif"}));
      tokens_.expect_name("endif");
      break;
    }
    return result;
  }

  StmtPtr parse_for() {
    StmtPtr result = statement(Stmt::Kind::kFor);
    tokens_.take();
    result->targets.push_back(expressions_.parse_target(/*with_namespace=*/false, "in"));
    tokens_.expect_name("in");
    result->expressions.push_back(expressions_.parse_tuple(/*with_conditional=*/false, "recursive"));
    result->expressions.push_back(tokens_.skip_name("if") ? expressions_.parse_expression() : nullptr);
    if (tokens_.at_name("recursive")) tokens_.fail("recursive loops are not supported; use a macro");
    ++loops_;
    result->bodies.push_back(parse_block({"endfor", "else"}));
    --loops_;
    if (tokens_.skip_name("else")) result->bodies.push_back(parse_block({"endfor"}));
    tokens_.expect_name("endfor");
    return result;
  }

  StmtPtr parse_set() {
    StmtPtr result = statement(Stmt::Kind::kSet);
    tokens_.take();
    result->targets.push_back(expressions_.parse_target(/*with_namespace=*/true));
    if (tokens_.skip_sign("=")) {
      result->expressions.push_back(expressions_.parse_tuple());
      return result;
    }
    result->kind = Stmt::Kind::kSetBlock;
    result->expressions.push_back(expressions_.parse_filters(nullptr, /*starts_inline=*/false));
    result->bodies.push_back(parse_block_to("endset"));
    return result;
  }

  void parse_parameters(MacroNode& macro) {
    tokens_.expect_sign("(");
    while (tokens_.ok() && !tokens_.at_sign(")")) {
      if (!macro.parameters.empty()) tokens_.expect_sign(",");
      const std::string name = tokens_.expect_any_name();
      macro.parameters.push_back(names_.id(name));
      macro.parameter_names.push_back(name);
      if (tokens_.skip_sign("=")) {
        macro.defaults.push_back(expressions_.parse_expression());
      } else if (!macro.defaults.empty()) {
        tokens_.fail("a parameter without a default follows one that has it");
      }
    }
    tokens_.expect_sign(")");
  }

  void parse_macro_body(MacroNode& macro, std::string_view end) {
    expressions_.open_macros().push_back(&macro);
    const int loops = std::exchange(loops_, 0);  // a break cannot leave the macro
    macro.body = parse_block_to(end);
    loops_ = loops;
    expressions_.open_macros().pop_back();
  }

  StmtPtr parse_macro() {
    StmtPtr result = statement(Stmt::Kind::kMacro);
    result->macro = std::make_unique<MacroNode>();
    result->macro->line = tokens_.take().line;
    result->macro->name = tokens_.expect_any_name();
    result->name_id = names_.id(result->macro->name);
    parse_parameters(*result->macro);
    parse_macro_body(*result->macro, "endmacro");
    return result;
  }

  StmtPtr parse_call_block() {
    StmtPtr result = statement(Stmt::Kind::kCallBlock);
    result->macro = std::make_unique<MacroNode>();
    result->macro->name = "caller";
    result->macro->line = tokens_.take().line;
    if (tokens_.at_sign("(")) parse_parameters(*result->macro);
    result->expressions.push_back(expressions_.parse_expression());
    const ExprPtr& call = result->expressions.front();
    if (tokens_.ok() && call->kind != Expr::Kind::kCall) tokens_.fail("expected a call after 'call'");
    parse_macro_body(*result->macro, "endcall");
    return result;
  }

  StmtPtr parse_filter_block() {
    StmtPtr result = statement(Stmt::Kind::kFilterBlock);
    tokens_.take();
    result->expressions.push_back(expressions_.parse_filters(nullptr, /*starts_inline=*/true));
    result->bodies.push_back(parse_block_to("endfilter"));
    return result;
  }

  StmtPtr parse_with() {
    StmtPtr result = statement(Stmt::Kind::kWith);
    tokens_.take();
    while (tokens_.ok() && !tokens_.at(Token::Type::kBlockEnd)) {
      if (!result->targets.empty()) tokens_.expect_sign(",");
      result->targets.push_back(expressions_.parse_target(/*with_namespace=*/false));
      tokens_.expect_sign("=");
      result->expressions.push_back(expressions_.parse_expression());
    }
    result->bodies.push_back(parse_block_to("endwith"));
    return result;
  }

  StmtPtr parse_print() {
    StmtPtr result = statement(Stmt::Kind::kPrint);
    tokens_.take();
    while (tokens_.ok() && !tokens_.at(Token::Type::kBlockEnd)) {
      if (!result->expressions.empty()) tokens_.expect_sign(",");
      result->expressions.push_back(expressions_.parse_expression());
    }
    return result;
  }

  StmtPtr parse_break() { return parse_loop_control(Stmt::Kind::kBreak); }
  StmtPtr parse_continue() { return parse_loop_control(Stmt::Kind::kContinue); }

  StmtPtr parse_loop_control(Stmt::Kind kind) {
    StmtPtr result = statement(kind);
    if (loops_ == 0) tokens_.fail("'" + tokens_.current().text + "' outside of a loop");
    tokens_.take();
    return result;
  }

  // Marks what the model is trained to write; what it sets ends with it.
  StmtPtr parse_generation() {
    StmtPtr result = statement(Stmt::Kind::kScope);
    tokens_.take();
    const int loops = std::exchange(loops_, 0);
    result->bodies.push_back(parse_block_to("endgeneration"));
    loops_ = loops;
    return result;
  }

  StmtPtr statement(Stmt::Kind kind) const {
    return std::make_unique<Stmt>(Stmt{.kind = kind, .line = tokens_.line()});
  }

  TokenStream tokens_;
  NameTable names_;
  ExpressionParser expressions_;
  int depth_ = 0;  // the number of bodies within each other
  int loops_ = 0;  // loops around this statement, within its macro
};

}  // namespace

Result<TemplateTree> parse_template(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return invalid_argument("expected at most " + std::to_string(kMaxTemplateBytes) + " bytes, found " +
                            std::to_string(source.size()));
  }
  SLUICE_ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize(source));
  return StatementParser(std::move(tokens)).parse();
}

}  // namespace sluice::jinja
