// The endpoints that show the engine at work.
#include <fmt/format.h>

#include <utility>

#include "serve/api/endpoints.h"
#include "telemetry/exports.h"

namespace sluice {
namespace {

constexpr std::size_t kAllSteps = 4096;

void respond_file(ApiContext& context, const HttpExchangePtr& exchange, const char* type, const char* name,
                  std::string (*write)(const std::vector<StepRecord>&)) {
  if (!is_open(context, exchange)) return;
  context.workers.run([&context, exchange, type, name, write] {
    HttpResponse response;
    response.content_type = type;
    response.headers = fmt::format("Content-Disposition: attachment; filename=\"{}\"\r\n", name);
    response.body = write(context.engine.steps(0, kAllSteps));
    exchange->respond(std::move(response));
  });
}

}  // namespace

void stream_engine(ApiContext& context, const HttpExchangePtr& exchange) {
  if (!is_open(context, exchange) || context.feed->watch(exchange)) return;
  HttpResponse response = error_response(
      {503, fmt::format("{} others look at the engine already; try again later", EngineFeed::kMostWatchers), "",
       "unavailable"});
  response.retry_after = 5;
  exchange->respond(std::move(response));
}

void export_trace(ApiContext& context, const HttpExchangePtr& exchange) {
  respond_file(context, exchange, "application/x-ndjson", "sluice-trace.jsonl", trace_lines);
}

void export_perfetto(ApiContext& context, const HttpExchangePtr& exchange) {
  respond_file(context, exchange, "application/json", "sluice-perfetto.json", chrome_trace);
}

}  // namespace sluice
