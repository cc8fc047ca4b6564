// Run: what all parts of the interpreter share of one rendering: its limits, its first error, and the values that it
// makes.
//
// Limits are counted, never timed, so a template that fails does so everywhere and always. Whatever costs more than a
// step counts as several (work), and whatever could become large asks first (fits).
// Errors: the first sticks; from then on step() is false, every function returns as soon as it can, and values are
// meaningless. Ownership: values must not outlive their run. Thread safety: belongs to one thread.
// Used by jinja and jinja/library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.h"
#include "sluice/status.h"

namespace sluice::jinja {

struct Limits {
  std::int64_t max_nodes = 10'000'000;                  // evaluated nodes of the tree, items and 64-byte pieces of text
  std::size_t max_text_bytes = std::size_t{8} << 20;    // the output's, and any text's on the way
  std::size_t max_live_bytes = std::size_t{128} << 20;  // the sum over all values at one time
  int max_depth = 700;                                  // nodes being evaluated within each other, over all macros
  int max_value_depth = 200;                            // lists and dicts within each other
};

class Run {
 public:
  explicit Run(const Limits& limits, std::time_t now) : limits_(limits), now_(now) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run();

  // The first error, "line 3: message".
  const Status& status() const { return status_; }
  bool failed() const { return !status_.ok(); }
  void fail(std::string message);
  // Fails as an operation on an undefined value does.
  void fail_undefined(const Value& value) { fail(std::string(value.hint())); }
  void set_line(int line) { line_ = line; }

  // One node is evaluated; false if the run has failed.
  bool step();
  // Counts work worth this many nodes; false if the run has failed.
  bool work(std::size_t nodes);
  // Asks for, and counts, a text or list of this many bytes; false if the run has failed.
  bool fits(std::size_t bytes);
  // The same without counting, to ask while a text grows.
  bool allows(std::size_t bytes);

  // A text without marks, one with marks, and a part of another text: a view of its bytes.
  Value text(std::string bytes);
  Value marked(MarkedText text);
  Value part(const Value& text, std::string_view part);
  // The same text as one that is safe, or is not.
  Value as_safe(const Value& text, bool is_safe = true);
  Value sequence(std::vector<Value> items, Sequence::Flavor flavor = Sequence::Flavor::kList);
  Value list(std::vector<Value> items) { return sequence(std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(std::move(items), Sequence::Flavor::kTuple); }
  Value dict(Dict::Entries entries);
  Value undefined(std::string hint);
  Value space();
  Value generator(std::vector<Value> items);
  Value function(std::string_view name, Function::Native native, Value self = {});
  Meter* meter() { return &meter_; }

  const Limits& limits() const { return limits_; }
  std::time_t now() const { return now_; }

 private:
  friend class Nesting;
  Value checked(Value value);

  const Limits limits_;
  const std::time_t now_;
  Status status_;
  int line_ = 0;
  int depth_ = 0;
  std::int64_t nodes_ = 0;
  Meter meter_;
  std::vector<std::shared_ptr<Namespace>> spaces_;  // emptied at the end: only they can hold themselves
};

// One more level of evaluation while it lives; the run fails when there are too many.
class Nesting {
 public:
  explicit Nesting(Run& run) : run_(run) {
    if (++run_.depth_ > run_.limits_.max_depth) run_.fail("the template calls itself too deep");
  }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  ~Nesting() { --run_.depth_; }

 private:
  Run& run_;
};

}  // namespace sluice::jinja
