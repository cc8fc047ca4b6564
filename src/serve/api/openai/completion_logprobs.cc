// Used by completion_answer.cc.
#include "serve/api/openai/completion_logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/utf8.h"
#include "files/json.h"

namespace sluice {
namespace {

std::size_t characters_of(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::ranges::count_if(utf8, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

// Returns a token's text, or "bytes:..." if its bytes are no characters by themselves.
std::string name_of(std::string_view bytes) {
  if (valid_utf8_prefix(bytes) == bytes.size()) return std::string(bytes);
  std::string out = "bytes:";
  for (const char byte : bytes) {
    if (byte > ' ' && byte <= '~' && byte != '\\') {
      out += byte;
    } else {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(byte));
    }
  }
  return out;
}

}  // namespace

std::size_t CharacterCount::before(std::string_view bytes) {
  const bool goes_on = bytes.empty() || (static_cast<unsigned char>(bytes[0]) & 0xC0U) == 0x80U;
  if (!goes_on) end();
  const std::size_t count = count_;
  pending_ += bytes;
  const std::size_t certain = pending_.size() - incomplete_utf8_suffix(pending_);
  std::string text;
  append_lossy_utf8(std::string_view(pending_).substr(0, certain), text);
  count_ += characters_of(text);
  pending_.erase(0, certain);
  return count;
}

void CharacterCount::end() {
  std::string text;
  append_lossy_utf8(std::exchange(pending_, {}), text);
  count_ += characters_of(text);
}

void CompletionLogprobs::add(const GenerationDelta& delta, const AnswerForm& form) {
  for (std::size_t i = 0; i < delta.chosen.size(); ++i) {
    const std::int32_t token = delta.chosen[i].token;
    const std::string bytes = form.token_text(token);
    add(token, form.hides(token) ? std::string_view() : bytes, &delta.chosen[i].logprob, delta.top[i], form);
  }
}

// The prompt's text is the client's own: tokens that the tokenizer puts around it are not in it.
void CompletionLogprobs::add_prompt(std::string_view text, const std::vector<std::int32_t>& prompt,
                                    const PromptLogprobs& logprobs, const AnswerForm& form) {
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    std::string bytes = form.token_text(prompt[i]);
    if (text.starts_with(bytes)) {
      text.remove_prefix(bytes.size());
    } else if (form.is_special(prompt[i])) {
      bytes.clear();
    }
    if (i < static_cast<std::size_t>(logprobs.start)) {
      add(prompt[i], bytes, nullptr, {}, form);
      continue;
    }
    const PromptLogprob& own = logprobs.tokens[i - static_cast<std::size_t>(logprobs.start)];
    const auto top = std::min(own.top.size(), static_cast<std::size_t>(form.top_logprobs));
    add(prompt[i], bytes, &own.logprob, {own.top.begin(), own.top.begin() + static_cast<std::ptrdiff_t>(top)}, form);
  }
  characters_.end();
}

std::string CompletionLogprobs::take() {
  return fmt::format(R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],"text_offset":[{}]}})",
                     std::exchange(tokens_, {}), std::exchange(token_logprobs_, {}), std::exchange(top_logprobs_, {}),
                     std::exchange(text_offset_, {}));
}

void CompletionLogprobs::add(std::int32_t token, std::string_view shown, const float* logprob,
                             const std::vector<TokenLogprob>& top, const AnswerForm& form) {
  for (std::string* list : {&tokens_, &token_logprobs_, &top_logprobs_, &text_offset_}) {
    if (!list->empty()) *list += ',';
  }
  append_json_string(tokens_, name_of(form.token_text(token)));
  if (logprob != nullptr) {
    append_logprob(token_logprobs_, *logprob);
    add_top({token, *logprob}, top, form);
  } else {
    token_logprobs_ += "null";
    top_logprobs_ += "null";
  }
  fmt::format_to(std::back_inserter(text_offset_), "{}", characters_.before(shown));
}

// Appends the top tokens as an object by name. If several tokens read alike, the chosen one is shown, else the best.
void CompletionLogprobs::add_top(const TokenLogprob& chosen, const std::vector<TokenLogprob>& top,
                                 const AnswerForm& form) {
  const std::string chosen_name = name_of(form.token_text(chosen.token));
  std::vector<TokenLogprob> all = top;
  all.push_back(chosen);
  std::set<std::string> seen;
  top_logprobs_ += '{';
  for (const TokenLogprob& token : all) {
    const std::string name = name_of(form.token_text(token.token));
    if ((name == chosen_name && token.token != chosen.token) || !seen.insert(name).second) continue;
    if (seen.size() > 1) top_logprobs_ += ',';
    append_json_string(top_logprobs_, name);
    top_logprobs_ += ':';
    append_logprob(top_logprobs_, token.logprob);
  }
  top_logprobs_ += '}';
}

}  // namespace sluice
