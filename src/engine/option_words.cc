// Used by cli, engine and verify.
#include "engine/option_words.h"

namespace sluice {

std::span<const std::string_view> option_words(LoadFormat /*option*/) {
  static constexpr std::string_view kWords[] = {"auto", "dummy"};
  return kWords;
}

std::span<const std::string_view> option_words(MlaPrefill /*option*/) {
  static constexpr std::string_view kWords[] = {"absorbed", "expanded"};
  return kWords;
}

std::span<const std::string_view> option_words(AsyncScheduling /*option*/) {
  static constexpr std::string_view kWords[] = {"auto", "on", "off"};
  return kWords;
}

std::span<const std::string_view> option_words(Speculative /*option*/) {
  static constexpr std::string_view kWords[] = {"auto", "mtp", "ngram", "off"};
  return kWords;
}

std::span<const std::string_view> option_words(SchedulingPolicy /*option*/) {
  static constexpr std::string_view kWords[] = {"fair", "fcfs", "priority", "prefill-first"};
  return kWords;
}

}  // namespace sluice
