// The tree of a parsed template.
// Ownership: a node owns its children. Thread safety: not changed after parsing.
// Used by jinja and jinja/library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace sluice::jinja {

struct FilterEntry;
struct TestEntry;

enum class Operator : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kNotIn,
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  enum class Kind : std::uint8_t {
    kConstant,      // value
    kName,          // name_id
    kNamespaceRef,  // name_id, name: the target of {% set name_id.name = ... %}
    kAttribute,     // operand 0, name
    kSubscript,     // operand 0, index operand 1
    kSlice,         // operand 0, from, to and step operands 1 to 3, null where left out
    kCall,          // callee operand 0, call
    kFilter,        // input operand 0 (null in a filter block: what the block wrote), name, filter, call
    kTest,          // input operand 0, name, test, call
    kNot,           // operand 0
    kNegative,      // operand 0
    kPositive,      // operand 0
    kBinary,        // operands 0 and 1, operators[0]
    kConcat,        // operands
    kCompare,       // operands, one operator between each two
    kAnd,           // operands 0 and 1
    kOr,            // operands 0 and 1
    kConditional,   // test, then, else (may be null)
    kList,          // operands
    kTuple,         // operands
    kDict,          // keys and values in turn
  };
  struct Call {
    std::vector<ExprPtr> positional;
    std::vector<std::pair<std::string, ExprPtr>> named;
    ExprPtr star;       // *expression
    ExprPtr star_star;  // **expression
  };

  Kind kind;
  int line;
  int depth = 1;  // the depth of the tree below, this node included
  int name_id = -1;
  Value value = {};
  std::string name = {};
  std::vector<ExprPtr> operands = {};
  std::vector<Operator> operators = {};
  std::unique_ptr<Call> call = {};
  const FilterEntry* filter = nullptr;  // null: there is no such filter; using it is an error
  const TestEntry* test = nullptr;      // null: there is no such test; using it is an error
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

// A macro, or the body of a call block, which its callee calls as `caller`.
struct MacroNode {
  std::string name;
  int line = 0;
  std::vector<int> parameters;  // name ids
  std::vector<std::string> parameter_names;
  std::vector<ExprPtr> defaults;  // defaults of the last parameters
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;
  Body body;
};

struct Stmt {
  enum class Kind : std::uint8_t {
    kText,         // text
    kPrint,        // expressions
    kIf,           // expressions: the tests, bodies: one for each, and one more for else
    kFor,          // target, expressions: what to go through, the filter (may be null); bodies: body, else (may miss)
    kSet,          // target, expressions[0]
    kSetBlock,     // target, bodies[0], expressions[0]: the filters (may be null)
    kMacro,        // macro, name_id
    kCallBlock,    // macro: the caller; expressions[0]: the call
    kFilterBlock,  // expressions[0]: the filters, bodies[0]
    kWith,         // targets, expressions, bodies[0]
    kScope,        // bodies[0]: what it sets ends with it
    kBreak,
    kContinue,
  };

  Kind kind;
  int line;
  int name_id = -1;
  std::string text = {};
  std::vector<ExprPtr> targets = {};
  std::vector<ExprPtr> expressions = {};
  std::vector<Body> bodies = {};
  std::unique_ptr<MacroNode> macro = {};
};

// A whole template. Names are numbered; `names` has the name of an id.
struct TemplateTree {
  Body body;
  std::vector<std::string> names;
};

}  // namespace sluice::jinja
