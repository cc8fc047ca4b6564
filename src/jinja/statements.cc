// Used by evaluator.cc and template.cc.
#include <utility>

#include "jinja/evaluator.h"
#include "jinja/library/builtins.h"
#include "jinja/library/operations.h"
#include "jinja/marks.h"

namespace sluice::jinja {

using StmtKind = Stmt::Kind;

Evaluator::Flow Evaluator::execute(const Body& body) {
  const Nesting nesting(run_);
  for (const StmtPtr& stmt : body) {
    if (!run_.step()) return Flow::kBreak;
    run_.set_line(stmt->line);
    if (const Flow flow = execute(*stmt); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::execute(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::kText:
      write(stmt.text);
      return Flow::kNext;
    case StmtKind::kPrint:
      execute_print(stmt);
      return Flow::kNext;
    case StmtKind::kIf:
      return execute_if(stmt);
    case StmtKind::kFor:
      return execute_for(stmt);
    case StmtKind::kSet:
      execute_set(stmt);
      return Flow::kNext;
    case StmtKind::kSetBlock:
      return execute_set_block(stmt);
    case StmtKind::kMacro:
      execute_macro(stmt);
      return Flow::kNext;
    case StmtKind::kCallBlock:
      execute_call_block(stmt);
      return Flow::kNext;
    case StmtKind::kFilterBlock:
      return execute_filter_block(stmt);
    case StmtKind::kWith:
      return execute_with(stmt);
    case StmtKind::kScope: {
      const ScopeGuard scope(*this);
      return execute(stmt.bodies[0]);
    }
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void Evaluator::write(std::string_view own) {
  if (own.empty() || !run_.allows(out_->size() + own.size()) || !run_.work(own.size() / 64)) return;
  run_.meter()->add(own.size());
  out_->own(own);
}

void Evaluator::write(const Value& value) {
  const Value text = marked_text(run_, value);
  const std::size_t size = text.bytes().size();
  if (run_.failed() || size == 0 || !run_.allows(out_->size() + size) || !run_.work(size / 64)) return;
  run_.meter()->add(size);
  append_marked(run_, text, *out_);
}

void Evaluator::execute_print(const Stmt& stmt) {
  for (const ExprPtr& expr : stmt.expressions) {
    const Value value = evaluate(*expr);
    if (run_.failed()) return;
    write(value);
  }
}

Evaluator::Flow Evaluator::execute_if(const Stmt& stmt) {
  for (std::size_t i = 0; i < stmt.expressions.size(); ++i) {
    const bool holds = truth(evaluate(*stmt.expressions[i]));
    if (run_.failed()) return Flow::kBreak;
    if (holds) return execute(stmt.bodies[i]);
  }
  return stmt.bodies.size() > stmt.expressions.size() ? execute(stmt.bodies.back()) : Flow::kNext;
}

Evaluator::Flow Evaluator::execute_for(const Stmt& stmt) {
  auto source = iterate(run_, evaluate(*stmt.expressions[0]));
  if (run_.failed()) return Flow::kBreak;
  const Expr& target = *stmt.targets[0];
  const auto loop = std::make_shared<Loop>(run_.meter(), std::move(source));
  if (const ExprPtr& filter = stmt.expressions[1]) {
    loop->accepts = [this, &target, &filter, outer = scope_](const Value& value) {
      const ScopeGuard scope(*this, outer);
      assign(target, value);
      return !run_.failed() && truth(evaluate(*filter));
    };
  }
  const int loop_id = name_id("loop");
  bool completed_one = false;  // an iteration that a break or continue ended does not count, as in Jinja
  for (std::size_t i = 0; !run_.failed(); ++i) {
    const Value* value = loop->at(i);
    if (value == nullptr) break;
    loop->index0 = i;
    const ScopeGuard scope(*this);
    assign(target, *value);
    if (loop_id >= 0) scope_->set(loop_id, Value(loop));
    const Flow flow = execute(stmt.bodies[0]);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNext) completed_one = true;
  }
  loop->source = loop->accepts ? run_.list(std::exchange(loop->accepted, {})).sequence() : loop->source;
  loop->accepts = nullptr;  // the closure refers to this scope
  if (run_.failed()) return Flow::kBreak;
  if (completed_one || stmt.bodies.size() < 2) return Flow::kNext;
  const ScopeGuard scope(*this);
  return execute(stmt.bodies[1]);
}

void Evaluator::assign(const Expr& target, Value value) {
  if (run_.failed()) return;
  switch (target.kind) {
    case Expr::Kind::kName:
      return scope_->set(target.name_id, std::move(value));
    case Expr::Kind::kNamespaceRef: {
      for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
        const Value* space = scope->find(target.name_id);
        if (space != nullptr) return set_attribute(run_, *space, target.name, std::move(value));
      }
      return run_.fail("'" + tree_.names[static_cast<std::size_t>(target.name_id)] + "' is undefined");
    }
    default:
      break;
  }
  const auto items = iterate(run_, value);
  if (items == nullptr) return;
  const std::size_t expected = target.operands.size();
  if (items->items.size() < expected) {
    return run_.fail("not enough values to unpack (expected " + std::to_string(expected) + ", got " +
                     std::to_string(items->items.size()) + ")");
  }
  if (items->items.size() > expected) {
    return run_.fail("too many values to unpack (expected " + std::to_string(expected) + ")");
  }
  for (std::size_t i = 0; i < expected; ++i) assign(*target.operands[i], items->items[i]);
}

void Evaluator::execute_set(const Stmt& stmt) {
  assign(*stmt.targets[0], evaluate(*stmt.expressions[0]));
}

Evaluator::Flow Evaluator::execute_set_block(const Stmt& stmt) {
  Value text;
  {
    const ScopeGuard scope(*this);
    Capture output(*this);
    const Flow flow = execute(stmt.bodies[0]);
    if (flow != Flow::kNext) return flow;
    text = run_.marked(output.take());
    if (const ExprPtr& filter = stmt.expressions[0]) text = evaluate_filter(*filter, &text);
  }
  assign(*stmt.targets[0], std::move(text));
  return Flow::kNext;
}

Value Evaluator::make_macro(const MacroNode& node) {
  for (Scope* scope = scope_; scope != nullptr && !scope->is_captured; scope = scope->parent) {
    scope->is_captured = true;
  }
  return Value(std::make_shared<const Function>(run_.meter(), &node, scope_));
}

void Evaluator::execute_macro(const Stmt& stmt) {
  scope_->set(stmt.name_id, make_macro(*stmt.macro));
}

void Evaluator::execute_call_block(const Stmt& stmt) {
  const Value text = evaluate_call(*stmt.expressions[0], make_macro(*stmt.macro));
  if (!run_.failed()) write(text);
}

Evaluator::Flow Evaluator::execute_filter_block(const Stmt& stmt) {
  const ScopeGuard scope(*this);
  Value text;
  {
    Capture output(*this);
    const Flow flow = execute(stmt.bodies[0]);
    if (flow != Flow::kNext) return flow;
    text = run_.marked(output.take());
  }
  text = evaluate_filter(*stmt.expressions[0], &text);
  if (!run_.failed()) write(text);
  return Flow::kNext;
}

// All values are evaluated before any name is set.
Evaluator::Flow Evaluator::execute_with(const Stmt& stmt) {
  std::vector<Value> values = evaluate_all(stmt.expressions);
  const ScopeGuard scope(*this);
  for (std::size_t i = 0; i < values.size(); ++i) assign(*stmt.targets[i], std::move(values[i]));
  return execute(stmt.bodies[0]);
}

}  // namespace sluice::jinja
