// A command's flags as a table: a row each, from which its help, man page, completion and errors are made.
//
//   add_flags(command, "Limits", {
//       {"--max-connections", &options.max_connections, "N", "Connections at once; further ones are answered 503"},
//       {"--isa", &options.isa, "NAME", "Kernels", {.choices = {"auto", "scalar"}}},
//       {"--half", choice(&options.half), "NAME", "Which schedules"},
//   });
//
// The target's value is the flag's default, and is shown as such: "N [1024]".
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/option_words.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice {

// A number of bytes, given as 512MiB or 4GB.
struct ByteTarget {
  std::int64_t* value;
};

// --NAME, and --no-NAME; with the default on.
struct SwitchTarget {
  bool* value;
};

// One of the words of an option (base/option_words.h).
struct ChoiceTarget {
  std::span<const std::string_view> words;
  std::size_t value;  // the default's index
  std::function<void(std::size_t index)> set;
};

// Returns a target that takes every word of the option, or only the first `most` of them.
template <class Option>
ChoiceTarget choice(Option* target, std::size_t most = SIZE_MAX) {
  const std::span<const std::string_view> words = option_words(*target);
  return {words.first(std::min(most, words.size())), static_cast<std::size_t>(*target),
          [target](std::size_t index) { *target = static_cast<Option>(index); }};
}

// A flag's value goes there. A bool's flag has none: it sets it. Lists of numbers are split at commas. The target must
// outlive the command.
using FlagTarget =
    std::variant<bool*, int*, std::int64_t*, std::uint64_t*, float*, double*, std::string*, std::vector<int>*,
                 std::vector<double>*, std::vector<std::string>*, std::optional<int>*, std::optional<float>*,
                 std::optional<std::uint64_t>*, ByteTarget, SwitchTarget, ChoiceTarget>;

struct FlagRules {
  std::vector<std::string> choices = {};                // empty: any value
  std::map<std::string, std::string> old_names = {};    // old names of choices: accepted, and read as the new name
  std::optional<std::pair<double, double>> range = {};  // both ends are allowed
  std::optional<std::string> shown_default = {};        // in place of the target's value
  std::vector<const char*> excludes = {}, needs = {};   // flags that stand above in the table, or in an earlier one
  bool is_required = false, is_split = false;           // split: a list of texts, at commas
  bool is_file = false;                                 // an existing file
};

struct Flag {
  const char* name;  // "--name", "-n,--name", or an argument's NAME
  FlagTarget target;
  const char* shape;  // the value's, in capitals: N, FILE, NAME, ...; "": a flag without one, or an argument
  std::string text;   // one sentence without its full stop; it reads alone
  FlagRules rules = {};
};

// Under this title in the help; "": not shown.
void add_flags(CLI::App& command, const std::string& group, std::initializer_list<Flag> flags);
inline constexpr const char* kOwnFlags = "Options";  // the title of a command's own

}  // namespace sluice
