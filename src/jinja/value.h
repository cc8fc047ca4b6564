// The values that a template computes with: Python's, as far as templates can tell.
//
// Values are immutable but for namespaces, loops and generators, so they are shared, never copied. Texts are UTF-8 and
// are measured in code points, as Python's are. Ownership: a Value shares what it refers to; what a run made must not
// outlive the run (it is charged to the run's meter). Thread safety: values of one run belong to one thread; constants
// of a template are never written, and may be shared by runs on several threads.
// Used by jinja and jinja/library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/marked_text.h"

namespace sluice::jinja {

__extension__ using Int = __int128;  // holds every integer that JSON can write in 64 bits, signed or not, with room

// Counts the bytes that values hold at one time.
class Meter {
 public:
  void add(std::size_t bytes) { live_ += bytes; }
  void remove(std::size_t bytes) { live_ -= bytes; }
  std::size_t live() const { return live_; }

 private:
  std::size_t live_ = 0;
};

// An object's part of the meter, given back with the object. A constant of a template has none.
class Charge {
 public:
  Charge(Meter* meter, std::size_t bytes) : meter_(meter), bytes_(bytes) {
    if (meter_ != nullptr) meter_->add(bytes_);
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() {
    if (meter_ != nullptr) meter_->remove(bytes_);
  }

 private:
  Meter* meter_;
  std::size_t bytes_;
};

class Value;
class Run;
struct Arguments;
struct MacroNode;
struct Scope;

struct Text {
  Text(Meter* meter, std::string text);
  Text(Meter* meter, MarkedText text, bool has_marks);

  std::string bytes;
  std::vector<ByteRange> clients;  // see MarkedText
  bool has_marks;                  // false: made by an operation that does not tell where its bytes are from (marks.h)
  bool is_safe = false;            // markupsafe's Markup: what is added to it is escaped (safe_text.h)
  std::size_t length;              // in code points
  Charge charge;

  bool is_ascii() const { return length == bytes.size(); }
};

struct Hint {  // why a value is undefined, for the message when it is used
  Hint(Meter* meter, std::string text) : message(std::move(text)), charge(meter, sizeof(Hint) + message.size()) {}

  std::string message;
  Charge charge;
};

struct Sequence;
struct Dict;
struct Namespace;
struct Function;
struct Generator;
struct Loop;

class Value {
 public:
  enum class Kind : std::uint8_t {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kSequence,
    kDict,
    kNamespace,
    kFunction,
    kGenerator,
    kLoop
  };

  Value() = default;  // undefined, with nothing to say about it
  explicit Value(std::shared_ptr<const Hint> hint) : data_(Undefined{std::move(hint)}) {}
  explicit Value(std::shared_ptr<const Text> text) : data_(std::move(text)) {}
  explicit Value(std::shared_ptr<const Sequence> sequence) : data_(std::move(sequence)) {}
  explicit Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  explicit Value(std::shared_ptr<Namespace> space) : data_(std::move(space)) {}
  explicit Value(std::shared_ptr<const Function> function) : data_(std::move(function)) {}
  explicit Value(std::shared_ptr<Generator> generator) : data_(std::move(generator)) {}
  explicit Value(std::shared_ptr<Loop> loop) : data_(std::move(loop)) {}
  static Value none() { return Value(Data(None{})); }
  static Value boolean(bool value) { return Value(Data(value)); }
  static Value integer(Int value) { return Value(Data(value)); }
  static Value real(double value) { return Value(Data(value)); }
  static Value constant_text(std::string text) { return Value(std::make_shared<const Text>(nullptr, std::move(text))); }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_none() const { return is(Kind::kNone); }
  bool is_text() const { return is(Kind::kText); }
  bool is_safe_text() const;
  bool is_number() const { return is(Kind::kBool) || is(Kind::kInt) || is(Kind::kFloat); }
  bool is_integral() const { return is(Kind::kBool) || is(Kind::kInt); }  // Python's bool is an int

  // The content of a value of that kind. For other kinds it is nothing, 0 or an empty value, because the values of a
  // failed run are meaningless but must do no harm.
  bool as_bool() const;
  Int as_int() const;      // a bool is one, too
  double as_real() const;  // for any number
  const Text& text() const;
  std::string_view bytes() const { return text().bytes; }
  const std::shared_ptr<const Sequence>& sequence() const;
  const std::vector<Value>& items() const;  // a sequence's
  const Dict& dict() const;
  // Only for their kinds.
  Namespace& space() const { return *std::get<std::shared_ptr<Namespace>>(data_); }
  const Function& function() const { return *std::get<std::shared_ptr<const Function>>(data_); }
  Generator& generator() const { return *std::get<std::shared_ptr<Generator>>(data_); }
  Loop& loop() const { return *std::get<std::shared_ptr<Loop>>(data_); }
  // The message when an undefined value is used.
  std::string_view hint() const;

  // Returns whether it is, or holds, a client's text; a namespace or function, which may hold anything, counts as one.
  bool has_client() const;
  // Returns how deep it nests: 0 for a number, one more than its deepest item for a list.
  int depth() const;
  // Identity for objects, equality for other values.
  bool same_as(const Value& other) const;
  // Python's name of the type: "str", "NoneType".
  std::string_view type_name() const;

 private:
  struct Undefined {
    std::shared_ptr<const Hint> hint;
  };
  struct None {};
  using Data = std::variant<Undefined, None, bool, Int, double, std::shared_ptr<const Text>,
                            std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
                            std::shared_ptr<const Function>, std::shared_ptr<Generator>, std::shared_ptr<Loop>>;
  explicit Value(Data data) : data_(std::move(data)) {}

  Data data_;  // in the order of Kind
};

struct Sequence {
  enum class Flavor : std::uint8_t { kList, kTuple, kRange, kDictKeys, kDictValues, kDictItems };

  Sequence(Meter* meter, Flavor flavor, std::vector<Value> values);

  Flavor flavor;
  std::vector<Value> items;
  int depth;
  bool has_client;  // a text in it, however deep, is a client's (marks.h)
  Charge charge;
};

struct Dict {
  using Entries = std::vector<std::pair<Value, Value>>;

  // The keys must differ.
  Dict(Meter* meter, Entries pairs);
  // The value of a key that is a text; nullptr for none.
  const Value* find(std::string_view key) const;

  Entries entries;  // in the order of their insertion
  int depth;
  bool has_client;  // same as for a sequence
  Charge charge;
};

struct Namespace {
  explicit Namespace(Meter* meter) : charge(meter, sizeof(Namespace)) {}

  std::vector<std::pair<std::string, Value>> attributes;
  Charge charge;
};

// A macro, or a function of ours that may be bound to a receiver ("text".upper).
struct Function {
  using Native = Value (*)(Run& run, const Value& self, const Arguments& arguments);

  Function(Meter* meter, std::string_view function_name, Native code, Value receiver = {})
      : name(function_name), native(code), self(std::move(receiver)), charge(meter, sizeof(Function)) {}
  Function(Meter* meter, const MacroNode* node, Scope* definition);

  std::string_view name;
  Native native = nullptr;
  Value self;
  const MacroNode* macro = nullptr;
  Scope* scope = nullptr;  // where the macro was defined
  Charge charge;
};

// The result of map, select and the like: it is true whatever it holds, has no length, and can be gone through once.
struct Generator {
  Generator(Meter* meter, std::shared_ptr<const Sequence> values)
      : items(std::move(values)), charge(meter, sizeof(Generator)) {}

  std::shared_ptr<const Sequence> items;
  std::size_t next = 0;
  Charge charge;
};

// The special variable of a for loop. A loop with a filter finds its items as it goes, because what its body sets may
// decide about the next ones.
struct Loop {
  Loop(Meter* meter, std::shared_ptr<const Sequence> values) : source(std::move(values)), charge(meter, sizeof(Loop)) {}

  // The item of an iteration, nullptr beyond the last one.
  const Value* at(std::size_t index);
  std::size_t size();

  std::shared_ptr<const Sequence> source;
  std::function<bool(const Value&)> accepts = {};  // null: accepts all
  std::vector<Value> accepted = {};                // with a filter: the items so far
  std::size_t next_source = 0;                     // with a filter: index of the next item to test
  std::size_t index0 = 0;
  std::vector<Value> last_changed = {};
  bool has_changed = false;
  Charge charge;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Python's truth of a value.
bool truth(const Value& value);

}  // namespace sluice::jinja
