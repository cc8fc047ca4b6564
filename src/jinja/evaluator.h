// Evaluator: walks the tree of a template and writes its output.
//
// Scopes are searched from the inside out: a loop, a macro, a with block and the like have a scope of their own, an if
// has none. A macro sees the scope in which it was defined, as that is when the macro is called.
// Ownership: keeps references to the run and the tree. Thread safety: belongs to one thread.
// Used by statements.cc and template.cc.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/run.h"

namespace sluice::jinja {

struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<int, Value>> variables = {};  // by name id
  bool is_captured = false;                           // a macro refers to it

  Value* find(int name_id);
  void set(int name_id, Value value);
};

class Evaluator {
 public:
  Evaluator(Run& run, const TemplateTree& tree) : run_(run), tree_(tree) {}
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  // Sets a variable; one that the template never names is ignored.
  void set_variable(std::string_view name, Value value);
  // The output; meaningless if the run failed.
  MarkedText render();

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class ScopeGuard;
  class Capture;

  // statements.cc
  Flow execute(const Body& body);
  Flow execute(const Stmt& stmt);
  void execute_print(const Stmt& stmt);
  Flow execute_if(const Stmt& stmt);
  Flow execute_for(const Stmt& stmt);
  void execute_set(const Stmt& stmt);
  Flow execute_set_block(const Stmt& stmt);
  void execute_macro(const Stmt& stmt);
  void execute_call_block(const Stmt& stmt);
  Flow execute_filter_block(const Stmt& stmt);
  Flow execute_with(const Stmt& stmt);
  void assign(const Expr& target, Value value);
  void write(std::string_view own);
  void write(const Value& value);
  Value make_macro(const MacroNode& node);

  // evaluator.cc
  Value evaluate(const Expr& expr);
  Value evaluate_node(const Expr& expr);
  Value evaluate_name(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Value evaluate_concat(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_conditional(const Expr& expr);
  Value evaluate_dict(const Expr& expr);
  Value evaluate_call(const Expr& expr, Value caller);
  // A filter without an input takes what its block wrote.
  Value evaluate_filter(const Expr& expr, const Value* block);
  Value evaluate_test(const Expr& expr);
  std::vector<Value> evaluate_all(const std::vector<ExprPtr>& exprs);
  Arguments evaluate_arguments(const Expr::Call& call);
  Value call(const Value& callee, Arguments arguments);
  Value call_macro(const Function& function, Arguments arguments);
  void bind_parameters(const MacroNode& macro, Arguments& arguments);
  void bind_rest(const MacroNode& macro, Arguments& arguments);

  int name_id(std::string_view name) const;

  Run& run_;
  const TemplateTree& tree_;
  Scope variables_;
  Scope* scope_ = &variables_;
  MarkedText* out_ = nullptr;
  std::vector<std::unique_ptr<Scope>> captured_;  // scopes that have ended but are used by macros
};

// The scope of a block, left at its end.
class Evaluator::ScopeGuard {
 public:
  ScopeGuard(Evaluator& evaluator, Scope* parent)
      : evaluator_(evaluator), previous_(evaluator.scope_), scope_(std::make_unique<Scope>(Scope{.parent = parent})) {
    evaluator_.scope_ = scope_.get();
  }
  explicit ScopeGuard(Evaluator& evaluator) : ScopeGuard(evaluator, evaluator.scope_) {}
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
  ~ScopeGuard() {
    evaluator_.scope_ = previous_;
    if (scope_->is_captured) evaluator_.captured_.push_back(std::move(scope_));
  }

 private:
  Evaluator& evaluator_;
  Scope* previous_;
  std::unique_ptr<Scope> scope_;
};

// Collects what is written while it lives.
class Evaluator::Capture {
 public:
  explicit Capture(Evaluator& evaluator) : evaluator_(evaluator), previous_(evaluator.out_) {
    evaluator_.out_ = &text_;
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() { stop(); }

  // Everything that was written.
  MarkedText take() {
    stop();
    return std::move(text_);
  }

 private:
  void stop() {
    if (evaluator_.out_ == &text_) evaluator_.run_.meter()->remove(text_.size());
    evaluator_.out_ = previous_;
  }

  Evaluator& evaluator_;
  MarkedText* previous_;
  MarkedText text_;
};

}  // namespace sluice::jinja
