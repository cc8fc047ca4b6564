// Used by pretokenizer.h, pretokenizer_pattern.cc, text/tokenizer/tokenizer_decoder.h and
// text/tokenizer/tokenizer_normalizer.h.
#include "text/pretokenizer/pretokenizer_regex.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/check.h"

namespace sluice {
namespace {

// The steps that a match may backtrack, and the further ones for each byte before it: patterns of real tokenizers need
// less than one step a byte, while "(.*)*" would take years.
constexpr std::uint32_t kMatchSteps = 10'000, kMatchStepsPerByte = 32;

// The just-in-time code backtracks on a stack of its own, which grows on demand up to the maximum.
constexpr std::size_t kJitStackStart = std::size_t{64} << 10;
constexpr std::size_t kJitStackMax = std::size_t{64} << 20;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct RegexScratch::State {
  pcre2_match_data* match_data = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
};

RegexScratch::RegexScratch() : state_(std::make_unique<State>()) {
  state_->match_data = pcre2_match_data_create(1, nullptr);
  state_->context = pcre2_match_context_create(nullptr);
  SLUICE_CHECK(state_->match_data != nullptr && state_->context != nullptr, "out of memory");
  // The interpreter, which takes over when the stack of the just-in-time code does not suffice, is limited by memory
  // and by the steps of a match (find()).
  constexpr auto kUnlimited = std::numeric_limits<std::uint32_t>::max();
  pcre2_set_depth_limit(state_->context, kUnlimited);
  pcre2_set_heap_limit(state_->context, kUnlimited);
  state_->stack = pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr);
  if (state_->stack != nullptr) pcre2_jit_stack_assign(state_->context, nullptr, state_->stack);
}

RegexScratch::~RegexScratch() {
  if (state_->stack != nullptr) pcre2_jit_stack_free(state_->stack);
  pcre2_match_context_free(state_->context);
  pcre2_match_data_free(state_->match_data);
}

struct SplitRegex::Code {
  pcre2_code* code = nullptr;
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

SplitRegex::SplitRegex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
SplitRegex::SplitRegex(SplitRegex&&) noexcept = default;
SplitRegex& SplitRegex::operator=(SplitRegex&&) noexcept = default;
SplitRegex::~SplitRegex() = default;

Result<SplitRegex> SplitRegex::compile(std::string_view pattern, bool literal) {
  std::string translated(pattern);
  if (!literal) {
    SLUICE_ASSIGN_OR_RETURN(translated, translate_pattern(pattern));
  }
  const std::uint32_t options = literal ? PCRE2_UTF | PCRE2_LITERAL : PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE;
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  SLUICE_CHECK(context != nullptr, "out of memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_unique<Code>();
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), options, &error,
                             &offset, context.get());
  if (code->code == nullptr) {
    return invalid_argument(fmt::format("expected a valid regular expression, found \"{}\": {} at byte {}", translated,
                                        pcre2_message(error), offset));
  }
  // Without the compiler the interpreter does the same, slower.
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);
  std::uint32_t matches_empty = 0;
  pcre2_pattern_info(code->code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
  SplitRegex regex(std::move(code));
  regex.matches_empty_ = matches_empty != 0;
  return regex;
}

Result<bool> SplitRegex::find(std::string_view text, std::size_t from, RegexScratch& scratch, RegexMatch& match) const {
  const std::size_t steps = kMatchSteps + kMatchStepsPerByte * (text.size() - from);
  pcre2_set_match_limit(scratch.state_->context,
                        static_cast<std::uint32_t>(std::min<std::size_t>(steps, std::numeric_limits<int>::max())));
  const auto run = [&](std::uint32_t options) {
    return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, scratch.state_->match_data, scratch.state_->context);
  };
  int result = run(0);
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = run(PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    return resource_exhausted(
        fmt::format("cannot split {} bytes of text into words: {}", text.size() - from, pcre2_message(result)));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(scratch.state_->match_data);
  match = {bounds[0], bounds[1]};
  SLUICE_CHECK(match.begin >= from && match.end >= match.begin && match.end <= text.size(), "a match lies in the text");
  return true;
}

}  // namespace sluice
