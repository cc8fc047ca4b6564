// The parts of an answer that report on its prompt, on tokens by their ids (in the words of vLLM's API), and on what
// layers chose.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "serve/api/openai/openai_response.h"

namespace sluice {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t word = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t k = 0; k < 3; ++k) word = word << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) out += k <= count ? kDigits[word >> (18 - 6 * k) & 63U] : '=';
  }
  return out;
}

namespace {

void append_entry(std::string& out, const TokenLogprob& token, int rank, const AnswerForm& form) {
  fmt::format_to(std::back_inserter(out), R"("{}":{{"logprob":)", token.token);
  append_logprob(out, token.logprob);
  fmt::format_to(std::back_inserter(out), R"(,"rank":{},"decoded_token":)", rank);
  append_token_text(out, form.token_text(token.token));
  out += '}';
}

void append_little_endian(std::string& out, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255U);
}

void append_array(std::string& out, std::string_view name, std::array<std::size_t, 3> shape, std::string_view dtype,
                  const std::vector<int>& layers, std::string_view more, std::string_view bytes) {
  fmt::format_to(std::back_inserter(out), R"(,"{}":{{"shape":[{}],"dtype":"{}","layers":[{}]{},"data":"{}"}})", name,
                 fmt::join(shape, ","), dtype, fmt::join(layers, ","), more, base64(bytes));
}

void append_experts(std::string& out, const ExportedRows& of, std::size_t rows) {
  const std::size_t layers = of.expert_layers.size(), slots = static_cast<std::size_t>(of.slots);
  const std::size_t count = rows * layers * slots;
  const auto end = of.experts.begin() + static_cast<std::ptrdiff_t>(count);
  const bool narrow = std::all_of(of.experts.begin(), end, [](std::uint16_t id) { return id < 256; });
  std::string bytes;
  for (auto id = of.experts.begin(); id != end; ++id) append_little_endian(bytes, *id, narrow ? 1 : 2);
  append_array(out, "routed_experts", {rows, layers, slots}, narrow ? "uint8" : "uint16", of.expert_layers, "", bytes);
}

void append_indices(std::string& out, const ExportedRows& of, std::size_t rows) {
  const std::size_t layers = of.entry_layers.size();
  const auto counts = std::span(of.entry_counts).first(rows * layers);
  const std::int32_t width = counts.empty() ? 0 : *std::ranges::max_element(counts);
  std::string bytes;
  std::size_t at = 0;
  for (const std::int32_t count : counts) {
    for (std::int32_t i = 0; i < width; ++i) {
      append_little_endian(bytes, i < count ? static_cast<std::uint32_t>(of.entries[at++]) : 0xFFFFFFFFU, 4);
    }
  }
  append_array(out, "sparse_indices", {rows, layers, static_cast<std::size_t>(width)}, "int32", of.entry_layers,
               fmt::format(R"(,"tokens_per_entry":{})", of.tokens_per_entry), bytes);
}

}  // namespace

void ExportReport::add(const GenerationDelta& delta) {
  tokens_ += delta.token_ids.size();
  if (delta.exported == nullptr) return;
  const ExportedRows& more = *delta.exported;
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  rows_.rows += more.rows;
  if (!more.expert_layers.empty()) rows_.expert_layers = more.expert_layers, rows_.slots = more.slots;
  if (!more.entry_layers.empty()) {
    rows_.entry_layers = more.entry_layers, rows_.tokens_per_entry = more.tokens_per_entry;
  }
  append(rows_.experts, more.experts);
  append(rows_.entry_counts, more.entry_counts);
  append(rows_.entries, more.entries);
}

void ExportReport::append(std::string& out, std::size_t prompt_tokens, const AnswerForm& form) const {
  const std::size_t rows = std::min(static_cast<std::size_t>(rows_.rows), prompt_tokens + tokens_ - 1);
  if (form.experts) append_experts(out, rows_, rows);
  if (form.indices) append_indices(out, rows_, rows);
}

void append_ids(std::string& out, std::string_view name, const std::vector<std::int32_t>& ids) {
  fmt::format_to(std::back_inserter(out), R"(,"{}":[{}])", name, fmt::join(ids, ","));
}

void append_prompt_logprobs(std::string& out, const std::vector<std::int32_t>& prompt, const PromptLogprobs* logprobs,
                            const AnswerForm& form) {
  if (form.prompt_logprobs < 0) return;
  out += R"(,"prompt_logprobs":[)";
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (i > 0) out += ',';
    if (logprobs == nullptr || i < static_cast<std::size_t>(logprobs->start)) {
      out += "null";
      continue;
    }
    const PromptLogprob& own = logprobs->tokens[i - static_cast<std::size_t>(logprobs->start)];
    out += '{';
    append_entry(out, {prompt[i], own.logprob}, own.rank, form);
    const auto top = std::min(own.top.size(), static_cast<std::size_t>(form.prompt_logprobs));
    for (std::size_t t = 0; t < top; ++t) {
      if (own.top[t].token == prompt[i]) continue;
      out += ',';
      append_entry(out, own.top[t], static_cast<int>(t) + 1, form);
    }
    out += '}';
  }
  out += ']';
}

}  // namespace sluice
