#include "cli/flags/flag_table.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <type_traits>

namespace sluice {
namespace {

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

// Returns the default as help shows it; "" if help shows none.
template <class T>
std::string default_text(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_arithmetic_v<T>) {
    return fmt::format("{}", value);
  } else if constexpr (IsVector<T>::value) {
    return value.empty() ? "" : fmt::format("{}", value.front());
  } else {
    return "";  // an optional value has no default
  }
}

std::string with_default(const Flag& flag, const std::string& value) {
  const std::string& shown = flag.rules.shown_default.value_or(value);
  return shown.empty() ? flag.shape : fmt::format("{} [{}]", flag.shape, shown);
}

CLI::Option* add(CLI::App& command, const Flag& flag, bool* value) {
  return command.add_flag(flag.name, *value, flag.text);
}

CLI::Option* add(CLI::App& command, const Flag& flag, ByteTarget target) {
  return command.add_option(flag.name, *target.value, flag.text)
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->option_text(with_default(flag, default_text(*target.value)));
}

CLI::Option* add(CLI::App& command, const Flag& flag, SwitchTarget target) {
  const std::string opposite = "--no-" + std::string(flag.name).substr(2);
  CLI::Option* on = command.add_flag_callback(flag.name, [target] { *target.value = true; }, flag.text);
  CLI::Option* off = command.add_flag_callback(opposite, [target] { *target.value = false; });
  off->option_text(" ")->excludes(on);
  return on->option_text("[on]");
}

CLI::Option* add(CLI::App& command, const Flag& flag, const ChoiceTarget& target) {
  const std::vector<std::string> words(target.words.begin(), target.words.end());
  const auto set = [words, set = target.set](const std::string& word) {
    set(static_cast<std::size_t>(std::ranges::find(words, word) - words.begin()));
  };
  return command.add_option_function<std::string>(flag.name, set, flag.text)
      ->check(CLI::IsMember(words))
      ->option_text(with_default(flag, words[target.value]));
}

template <class T>
CLI::Option* add(CLI::App& command, const Flag& flag, T* value) {
  const bool is_argument = flag.name[0] != '-';
  CLI::Option* option = command.add_option(flag.name, *value, flag.text);
  option->option_text(is_argument ? " " : with_default(flag, default_text(*value)));
  if constexpr (IsVector<T>::value) {
    if (flag.rules.is_split || !std::is_same_v<T, std::vector<std::string>>) option->delimiter(',');
  }
  return option;
}

void apply(CLI::App& command, const FlagRules& rules, CLI::Option& option) {
  if (!rules.choices.empty()) option.check(CLI::IsMember(rules.choices));
  if (!rules.old_names.empty()) {
    option.transform([names = rules.old_names](const std::string& given) {
      const auto found = names.find(given);
      return found == names.end() ? given : found->second;
    });
  }
  if (rules.range) option.check(CLI::Range(rules.range->first, rules.range->second));
  if (rules.is_file) option.check(CLI::ExistingFile);
  if (rules.is_required) option.required();
  for (const char* other : rules.excludes) option.excludes(command.get_option(other));
  for (const char* other : rules.needs) option.needs(command.get_option(other));
}

}  // namespace

void add_flags(CLI::App& command, const std::string& group, std::initializer_list<Flag> flags) {
  for (const Flag& flag : flags) {
    CLI::Option* option = std::visit([&](const auto& target) { return add(command, flag, target); }, flag.target);
    apply(command, flag.rules, *option);
    option->group(group);
    if (std::holds_alternative<SwitchTarget>(flag.target)) {
      command.get_option("--no-" + std::string(flag.name).substr(2))->group(group);
    }
  }
}

}  // namespace sluice
