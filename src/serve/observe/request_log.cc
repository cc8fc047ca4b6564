// Used by serve/server.cc.
#include "serve/observe/request_log.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/log.h"

namespace sluice {
namespace {

using Fields = std::vector<LogField>;

void add_time(Fields& fields, const char* name, ServedRequest::Time from, ServedRequest::Time to) {
  if (from == ServedRequest::Time() || to == ServedRequest::Time()) return;
  fields.push_back({name, fmt::format("{:.6f}", std::chrono::duration<double>(to - from).count()), false});
}

void add_text(Fields& fields, const char* name, const std::string& value) {
  if (!value.empty()) fields.push_back({name, value});
}

void add_tokens(Fields& fields, const ServedRequest& record) {
  if (record.answer_id.empty()) return;
  fields.push_back({"answer", record.answer_id});
  fields.push_back({"prompt_tokens", fmt::format("{}", record.prompt_tokens), false});
  fields.push_back({"cached_tokens", fmt::format("{}", record.cached_tokens), false});
  fields.push_back({"completion_tokens", fmt::format("{}", record.completion_tokens), false});
  add_time(fields, "queue_s", record.received, record.admitted);
  add_time(fields, "ttft_s", record.received, record.first_token);
  add_text(fields, "finish", record.finish_reason);
}

}  // namespace

void log_request(const HttpSummary& summary, std::string_view route) {
  const bool routine = summary.status == 200 && (route.starts_with("/health") || route == "/metrics");
  const LogLevel level = routine ? LogLevel::kDebug : LogLevel::kInfo;
  if (!log_enabled(level)) return;
  const ServedRequest& record = summary.record;
  Fields fields{{"id", record.id}};
  add_text(fields, "key", record.key);
  add_text(fields, "peer", summary.peer);
  add_text(fields, "method", summary.method);
  add_text(fields, "path", summary.path);
  fields.push_back({"status", fmt::format("{}", summary.status), false});
  fields.push_back({"total_s", fmt::format("{:.6f}", summary.seconds), false});
  fields.push_back({"bytes_in", fmt::format("{}", summary.request_bytes), false});
  fields.push_back({"bytes_out", fmt::format("{}", summary.response_bytes), false});
  add_tokens(fields, record);
  if (summary.disconnected) fields.push_back({"client_left", "true", false});
  add_text(fields, "trace", record.trace_id);
  add_text(fields, "prompt", record.prompt);
  add_text(fields, "answers", record.answers);
  log_event(level, "request", fields);
}

}  // namespace sluice
