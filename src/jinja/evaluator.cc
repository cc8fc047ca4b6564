// Used by statements.cc and template.cc.
#include "jinja/evaluator.h"

#include <algorithm>
#include <utility>

#include "jinja/library/builtins.h"
#include "jinja/library/operations.h"
#include "jinja/marks.h"
#include "jinja/safe_text.h"

namespace sluice::jinja {

using ExprKind = Expr::Kind;

Value* Scope::find(int name_id) {
  const auto found = std::ranges::find(variables, name_id, &std::pair<int, Value>::first);
  return found == variables.end() ? nullptr : &found->second;
}

void Scope::set(int name_id, Value value) {
  if (Value* variable = find(name_id)) {
    *variable = std::move(value);
  } else {
    variables.emplace_back(name_id, std::move(value));
  }
}

int Evaluator::name_id(std::string_view name) const {
  const auto found = std::ranges::find(tree_.names, name);
  return found == tree_.names.end() ? -1 : static_cast<int>(found - tree_.names.begin());
}

void Evaluator::set_variable(std::string_view name, Value value) {
  if (const int id = name_id(name); id >= 0) variables_.set(id, std::move(value));
}

MarkedText Evaluator::render() {
  const ScopeGuard scope(*this);
  Capture output(*this);
  execute(tree_.body);
  return output.take();
}

Value Evaluator::evaluate(const Expr& expr) {
  if (!run_.step()) return {};
  const Nesting nesting(run_);
  run_.set_line(expr.line);
  return run_.failed() ? Value() : evaluate_node(expr);
}

Value Evaluator::evaluate_node(const Expr& expr) {
  const auto operand = [&](std::size_t i) { return evaluate(*expr.operands[i]); };
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.value;
    case ExprKind::kName:
      return evaluate_name(expr);
    case ExprKind::kNamespaceRef:
      break;  // a target is never evaluated
    case ExprKind::kAttribute: {
      const Value value = operand(0);
      return run_.failed() ? Value() : attribute(run_, value, expr.name);
    }
    case ExprKind::kSubscript: {
      const Value value = operand(0);
      const Value key = operand(1);
      return run_.failed() ? Value() : item(run_, value, key);
    }
    case ExprKind::kSlice:
      return evaluate_slice(expr);
    case ExprKind::kCall:
      return evaluate_call(expr, {});
    case ExprKind::kFilter:
      return evaluate_filter(expr, nullptr);
    case ExprKind::kTest:
      return evaluate_test(expr);
    case ExprKind::kNot:
      return Value::boolean(!truth(operand(0)));
    case ExprKind::kNegative:
      return negate(run_, operand(0));
    case ExprKind::kPositive: {
      const Value value = operand(0);
      return negate(run_, negate(run_, value));
    }
    case ExprKind::kBinary: {
      const Value left = operand(0);
      const Value right = operand(1);
      if (run_.failed()) return {};
      return settled(run_, arithmetic(run_, expr.operators[0], left, right), left,
                     {.positional = {right}, .named = {}});
    }
    case ExprKind::kConcat:
      return evaluate_concat(expr);
    case ExprKind::kCompare:
      return evaluate_compare(expr);
    case ExprKind::kAnd: {
      Value left = operand(0);
      return truth(left) ? operand(1) : left;
    }
    case ExprKind::kOr: {
      Value left = operand(0);
      return truth(left) ? left : operand(1);
    }
    case ExprKind::kConditional:
      return evaluate_conditional(expr);
    case ExprKind::kList:
      return run_.list(evaluate_all(expr.operands));
    case ExprKind::kTuple:
      return run_.tuple(evaluate_all(expr.operands));
    case ExprKind::kDict:
      return evaluate_dict(expr);
  }
  return {};
}

Value Evaluator::evaluate_name(const Expr& expr) {
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    if (const Value* found = scope->find(expr.name_id)) return *found;
  }
  const std::string& name = tree_.names[static_cast<std::size_t>(expr.name_id)];
  if (const GlobalFunction* global = find_global(name)) return run_.function(global->name, global->native);
  return run_.undefined("'" + name + "' is undefined");
}

Value Evaluator::evaluate_slice(const Expr& expr) {
  const Value value = evaluate(*expr.operands[0]);
  const auto part = [&](std::size_t i) {
    return expr.operands[i] == nullptr ? Value::none() : evaluate(*expr.operands[i]);
  };
  const Value from = part(1);
  const Value to = part(2);
  const Value step = part(3);
  return run_.failed() ? Value() : slice(run_, value, from, to, step);
}

Value Evaluator::evaluate_concat(const Expr& expr) {
  MarkedText text;
  for (const ExprPtr& operand : expr.operands) {
    const Value value = evaluate(*operand);
    if (!run_.allows(text.size())) return {};
    append_marked(run_, value, text);
  }
  return run_.marked(std::move(text));
}

Value Evaluator::evaluate_compare(const Expr& expr) {
  Value left = evaluate(*expr.operands[0]);
  for (std::size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = evaluate(*expr.operands[i + 1]);
    if (run_.failed() || !compare(run_, expr.operators[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Evaluator::evaluate_conditional(const Expr& expr) {
  if (truth(evaluate(*expr.operands[0]))) return evaluate(*expr.operands[1]);
  if (expr.operands[2] != nullptr) return evaluate(*expr.operands[2]);
  return run_.undefined("the inline if-expression was false and has no else");
}

Value Evaluator::evaluate_dict(const Expr& expr) {
  Dict::Entries entries;
  for (std::size_t i = 0; i < expr.operands.size() && !run_.failed(); i += 2) {
    Value key = evaluate(*expr.operands[i]);
    set_key(run_, entries, std::move(key), evaluate(*expr.operands[i + 1]));
  }
  return run_.dict(std::move(entries));
}

std::vector<Value> Evaluator::evaluate_all(const std::vector<ExprPtr>& exprs) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) values.push_back(evaluate(*expr));
  return values;
}

Value Evaluator::evaluate_filter(const Expr& expr, const Value* block) {
  const ExprPtr& operand = expr.operands[0];
  Value input;
  if (operand == nullptr) {
    input = *block;
  } else {
    // A chain of filters ends in what the block wrote.
    input = operand->kind == ExprKind::kFilter ? evaluate_filter(*operand, block) : evaluate(*operand);
  }
  const Arguments arguments = evaluate_arguments(*expr.call);
  run_.set_line(expr.line);
  if (expr.filter == nullptr) run_.fail("no filter named '" + expr.name + "'");
  if (!run_.step()) return {};
  return settled(run_, expr.filter->apply(run_, input, arguments), input, arguments);
}

Value Evaluator::evaluate_test(const Expr& expr) {
  const Value input = evaluate(*expr.operands[0]);
  const Arguments arguments = evaluate_arguments(*expr.call);
  run_.set_line(expr.line);
  if (expr.test == nullptr) run_.fail("no test named '" + expr.name + "'");
  return Value::boolean(!run_.failed() && expr.test->holds(run_, input, arguments));
}

Arguments Evaluator::evaluate_arguments(const Expr::Call& call) {
  Arguments arguments{.positional = evaluate_all(call.positional), .named = {}};
  for (const auto& [name, expr] : call.named) arguments.named.emplace_back(name, evaluate(*expr));
  if (call.star != nullptr) {
    const auto more = iterate(run_, evaluate(*call.star));
    if (more == nullptr) return arguments;
    arguments.positional.insert(arguments.positional.end(), more->items.begin(), more->items.end());
  }
  if (call.star_star != nullptr) {
    const Value more = evaluate(*call.star_star);
    if (!more.is(Value::Kind::kDict)) run_.fail("the argument after ** must be a mapping");
    for (const auto& [key, value] : more.dict().entries) {
      if (!key.is_text()) run_.fail("keywords must be strings");
      arguments.named.emplace_back(std::string(key.bytes()), value);
    }
  }
  return arguments;
}

// `caller` is defined for the call of a call block.
Value Evaluator::evaluate_call(const Expr& expr, Value caller) {
  const Value callee = evaluate(*expr.operands[0]);
  Arguments arguments = evaluate_arguments(*expr.call);
  if (!caller.is_undefined()) arguments.named.emplace_back("caller", std::move(caller));
  if (run_.failed()) return {};
  run_.set_line(expr.line);
  Value result = call(callee, std::move(arguments));
  run_.set_line(expr.line);
  return result;
}

Value Evaluator::call(const Value& callee, Arguments arguments) {
  if (callee.is(Value::Kind::kFunction)) {
    const Function& function = callee.function();
    if (function.macro != nullptr) return call_macro(function, std::move(arguments));
    Value result = settled_safe(run_, function.native(run_, function.self, arguments), function.self);
    return settled(run_, std::move(result), function.self, arguments);
  }
  if (callee.is_undefined()) {
    run_.fail_undefined(callee);
  } else {
    run_.fail("'" + std::string(callee.type_name()) + "' object is not callable");
  }
  return {};
}

Value Evaluator::call_macro(const Function& function, Arguments arguments) {
  const Nesting nesting(run_);
  if (run_.failed()) return {};
  const ScopeGuard scope(*this, function.scope);
  Capture output(*this);
  bind_parameters(*function.macro, arguments);
  execute(function.macro->body);
  return run_.marked(output.take());
}

void Evaluator::bind_parameters(const MacroNode& macro, Arguments& arguments) {
  const std::size_t count = macro.parameters.size();
  const std::size_t without_default = count - macro.defaults.size();
  const std::size_t given = std::min(count, arguments.positional.size());
  for (std::size_t i = 0; i < given; ++i) scope_->set(macro.parameters[i], std::move(arguments.positional[i]));
  arguments.positional.erase(arguments.positional.begin(),
                             arguments.positional.begin() + static_cast<std::ptrdiff_t>(given));
  for (std::size_t i = given; i < count; ++i) {
    const std::string& name = macro.parameter_names[i];
    const auto named = std::ranges::find_if(arguments.named, [&](const auto& entry) { return entry.first == name; });
    if (named != arguments.named.end()) {
      scope_->set(macro.parameters[i], std::move(named->second));
      arguments.named.erase(named);
    } else if (i < without_default) {
      scope_->set(macro.parameters[i], run_.undefined("parameter '" + name + "' was not provided"));
    } else {
      scope_->set(macro.parameters[i], evaluate(*macro.defaults[i - without_default]));
    }
  }
  bind_rest(macro, arguments);
}

void Evaluator::bind_rest(const MacroNode& macro, Arguments& arguments) {
  if (macro.uses_caller) {
    const auto caller =
        std::ranges::find_if(arguments.named, [](const auto& entry) { return entry.first == "caller"; });
    if (caller != arguments.named.end()) {
      scope_->set(name_id("caller"), std::move(caller->second));
      arguments.named.erase(caller);
    } else {
      scope_->set(name_id("caller"), run_.undefined("no caller defined"));
    }
  }
  if (macro.uses_kwargs) {
    Dict::Entries entries;
    for (auto& [name, value] : arguments.named) entries.emplace_back(run_.text(name), std::move(value));
    scope_->set(name_id("kwargs"), run_.dict(std::move(entries)));
  } else if (!arguments.named.empty()) {
    run_.fail("macro '" + macro.name + "' takes no keyword argument '" + arguments.named.front().first + "'");
  }
  if (macro.uses_varargs) {
    scope_->set(name_id("varargs"), run_.tuple(std::move(arguments.positional)));
  } else if (!arguments.positional.empty()) {
    run_.fail("macro '" + macro.name + "' takes not more than " + std::to_string(macro.parameters.size()) +
              " argument(s)");
  }
}

}  // namespace sluice::jinja
