#include "serve/answer_json.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "base/utf8.h"
#include "formats/json.h"

namespace sluice {

void append_head(std::string& out, const AnswerHead& head, std::string_view object) {
  out += R"({"id":)";
  append_json_string(out, head.id);
  fmt::format_to(std::back_inserter(out), R"(,"object":"{}","created":{},"model":)", object, head.created);
  append_json_string(out, head.model);
  out += R"(,"system_fingerprint":)";
  append_json_string(out, head.fingerprint);
}

void append_usage(std::string& out, const Usage& usage) {
  fmt::format_to(
      std::back_inserter(out),
      R"("usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
      R"("prompt_tokens_details":{{"cached_tokens":{}}},"completion_tokens_details":{{"reasoning_tokens":{}}}}})",
      usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens + usage.completion_tokens, usage.cached_tokens,
      usage.reasoning_tokens);
}

void append_usage_so_far(std::string& out, const Usage& usage, const AnswerForm& form) {
  if (!form.include_usage) return;
  out += ',';
  if (form.continuous_usage) {
    append_usage(out, usage);
  } else {
    out += R"("usage":null)";
  }
}

void append_token_text(std::string& out, std::string_view bytes) {
  std::string text;
  append_lossy_utf8(bytes, text);
  append_json_string(out, text);
}

void append_logprob(std::string& out, float logprob) {
  append_json_number(out, std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0);
}

}  // namespace sluice
