// Used by cli/manual/manual_commands.cc and metrics.h.
#include "telemetry/metric_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace sluice {
namespace {

// These sentences say which requests count where some do not simply run to their end.
constexpr std::string_view kEnded =
    "It counts requests whose answers have all ended by themselves, also by a stop string or a limit, and none that "
    "left, was late or failed. Preemptions and swaps are part of the times.";
constexpr std::string_view kLengths =
    "It counts requests whose answers have all ended by themselves, also by a stop string or a limit, and none that "
    "left, was late or failed.";
constexpr std::string_view kLookedUp =
    "A prompt counts whole and once, when it is admitted first, also if its request leaves or is late afterwards.";
constexpr std::string_view kHowever = "Preemptions and swaps do not make it count again.";
constexpr std::string_view kAsItComes =
    "It counts at that moment, whatever becomes of the request; a preemption or a swap makes the time longer.";
constexpr std::string_view kOnce =
    "A prompt counts once, whatever its n is and however often it is preempted; of one that left or was late counts "
    "what was done until then.";
constexpr std::string_view kAll = "It counts all, whatever becomes of their requests.";
constexpr std::string_view kNow = "It is read at the moment; what has ended is no part of it.";
constexpr std::string_view kNone = "It has nothing to do with requests.";
constexpr std::string_view kExchange = "It counts once, when the exchange with the client has ended.";
constexpr std::string_view kAnswers =
    "Answers that had not ended count as abort if their request left, deadline if it was late, error if it failed.";

constexpr MetricInfo kMetrics[] = {
    // Requests, from their arrival to their end.
    {"sluice_num_requests_running", "gauge", "", "answer", "Answers that are being computed.", kNow},
    {"sluice_num_requests_waiting", "gauge", "", "answer",
     "Answers that wait for memory or a place; a request waits as one until its prompt is computed.",
     "Preempted and swapped ones wait, too."},
    {"sluice_num_requests_waiting_by_reason", "gauge", "reason", "answer",
     "Answers that wait, by what they lacked when they were looked at last.", "Preempted and swapped ones wait, too."},
    {"sluice_num_requests_paused", "gauge", "", "answer",
     "Running and waiting answers whose clients have too much left to read.", kNow},
    {"sluice_e2e_request_latency_seconds", "histogram", "", "request",
     "From the end of a request's header to its last token: queue and inference time together.", kEnded},
    {"sluice_request_queue_time_seconds", "histogram", "", "request",
     "From the end of a request's header until one of its answers got memory for the first time.", kEnded},
    {"sluice_request_inference_time_seconds", "histogram", "", "request",
     "From then to the request's last token: prefill and decode time together.", kEnded},
    {"sluice_request_prefill_time_seconds", "histogram", "", "request",
     "From when a request got memory to its first token.", kEnded},
    {"sluice_request_decode_time_seconds", "histogram", "", "request",
     "From the first token of a request to the last one of all its answers.", kEnded},
    {"sluice_request_prompt_tokens", "histogram", "", "request",
     "Tokens of all prompts of a request, as in its usage: cached ones, too, and each prompt once.", kLengths},
    {"sluice_request_generation_tokens", "histogram", "", "request",
     "Tokens of all answers to a request, as in its usage.", kLengths},
    {"sluice_time_to_first_token_seconds", "histogram", "", "answer",
     "From the end of a request's header to the first token of each of its answers.", kAsItComes},
    {"sluice_inter_token_latency_seconds", "histogram", "", "token",
     "Between two tokens of an answer; all but its first one count.", kAsItComes},
    {"sluice_time_per_output_token_seconds", "histogram", "", "token",
     "The same as the inter-token latency, by its older name.", kAsItComes},
    {"sluice_stream_delay_seconds", "histogram", "", "write",
     "From the making of a token to its event being with the system.", kAsItComes},
    {"sluice_request_success_total", "counter", "finished_reason", "answer",
     "Answers that ended by themselves, by why: stop, length or tool_calls.",
     "Of a request that left, was late or failed it counts the answers that had ended before."},
    {"vllm:request_success_total", "counter", "finished_reason", "answer",
     "Answers by how they ended, in vLLM's words: a call of tools is a stop, and what was late is an abort.", kAnswers},
    {"sluice_request_finished_total", "counter", "finished_reason", "answer",
     "Answers of requests that have ended, by how: stop, length, tool_calls, abort, deadline or error.", kAnswers},
    {"sluice_requests_cancelled_total", "counter", "", "request",
     "Requests that were cancelled: the client left, the time ran out, or the server put an end to them.",
     "It counts those that had begun; what is cut by a stop string or a limit has ended by itself."},
    {"sluice_requests_refused_total", "counter", "reason", "request",
     "Requests that a limit or their deadline ended, by which: deadline_running had its first token.", kExchange},
    {"sluice_errors_total", "counter", "kind", "request",
     "Requests that ended in an error, by its kind: client_left if the client went before the error, unavailable "
     "if the time ran out.",
     kExchange},
    {"sluice_ignored_fields_total", "counter", "", "field", "Fields of requests that nobody knows, which were ignored.",
     kAll},
    // Tokens.
    {"sluice_prompt_tokens_total", "counter", "", "token",
     "Tokens of prompts that were computed: those of usage without the cached ones.", kOnce},
    {"vllm:prompt_tokens_total", "counter", "", "token",
     "Tokens of prompts, computed or taken from the prefix cache: those of usage.", kOnce},
    {"sluice_recomputed_tokens_total", "counter", "", "token",
     "Tokens of prompts and answers that were computed before, and again after a preemption or for another choice.",
     kAll},
    {"sluice_generation_tokens_total", "counter", "", "token", "Tokens of answers, as in usage.",
     "Of a request that left, was late or failed it counts those until then; none behind a stop string."},
    // The prefix cache.
    {"sluice_prefix_cache_queries_total", "counter", "", "token",
     "Tokens of prompts that were looked for in the prefix cache, when their requests were admitted.", kLookedUp},
    {"sluice_prefix_cache_matched_tokens_total", "counter", "", "token",
     "Tokens of prompts whose blocks were in the prefix cache.", kLookedUp},
    {"sluice_prefix_cache_hits_total", "counter", "", "token",
     "Tokens of prompts that were taken from the prefix cache instead of computed: the cached ones of usage.", kOnce},
    {"sluice_prefix_cache_lost_tokens_total", "counter", "", "token",
     "Matched tokens that were computed, for want of a place to resume.", kLookedUp},
    {"sluice_prefix_cache_shared_waits_total", "counter", "", "answer",
     "Answers that waited for another one's common prefix.", kHowever},
    {"sluice_prefix_cache_inserted_pages_total", "counter", "pool", "page",
     "Pages that became findable by their contents.", kAll},
    {"sluice_prefix_cache_evicted_pages_total", "counter", "pool", "page",
     "Cached pages that were given to another use.", kAll},
    {"sluice_kv_cache_pages", "gauge", "pool, state", "page",
     "Pages by pool and state; cached ones may be reused and are held by no one.", kNow},
    {"sluice_kv_cache_bytes_used", "gauge", "", "byte", "Bytes of the cache in use.", kNow},
    {"sluice_kv_cache_capacity_bytes", "gauge", "", "byte", "Bytes of the cache.", kNone},
    {"sluice_kv_cache_usage_perc", "gauge", "", "share", "Share of the cache in use, 0 to 1.", kNow},
    // Preemptions.
    {"sluice_num_preemptions_total", "counter", "kind", "preemption",
     "Answers that had to give their memory back, by what became of their state: recompute or swap.",
     "It counts each time, whatever becomes of the request."},
    {"sluice_swaps_restored_total", "counter", "", "preemption",
     "Swapped states that were brought back, instead of computed again.",
     "The state of an answer that ends while it is swapped is not brought back."},
    {"sluice_swap_bytes_used", "gauge", "", "byte", "Bytes of swapped state.", kNow},
    {"sluice_swap_capacity_bytes", "gauge", "", "byte", "Bytes of swap space.", kNone},
    // Steps.
    {"sluice_engine_step_seconds", "histogram", "", "step", "Planning, computing and reporting of a step.", kAll},
    {"sluice_iteration_tokens", "histogram", "", "step",
     "Rows of a step: tokens of prompts and of answers, and drafts.", "Rows that are computed again count again."},
    {"sluice_engine_steps_total", "counter", "", "step", "Steps of the engine.", kAll},
    {"sluice_engine_failed", "gauge", "", "flag",
     "1: no answer is computed, as a file of the weights has changed or the device is lost.", kNone},
    {"sluice_engine_turn_seconds", "gauge", "", "second",
     "How long the step loop has been in the step it is in; 0: it has nothing to do.", kNone},
    {"sluice_spec_decode_num_drafts_total", "counter", "", "draft", "Spans that had drafted tokens.", kAll},
    {"sluice_spec_decode_num_draft_tokens_total", "counter", "", "token", "Tokens that were drafted.", kAll},
    {"sluice_spec_decode_num_accepted_tokens_total", "counter", "", "token", "Drafted tokens that were right.", kAll},
    {"sluice_spec_decode_num_draft_tokens_per_pos_total", "counter", "position", "token",
     "Tokens that were drafted, by depth.", kAll},
    {"sluice_spec_decode_num_accepted_tokens_per_pos_total", "counter", "position", "token",
     "Drafted tokens that were right, by depth.", kAll},
    // The network.
    {"sluice_http_requests_total", "counter", "path, status", "request",
     "HTTP requests by path and status; 499: the client left before there was any answer.", kExchange},
    {"sluice_http_refused_total", "counter", "reason", "connection or request",
     "Connections and requests that found no room, by what there was too much of.", kNone},
    {"sluice_http_unread_answers_total", "counter", "", "connection",
     "Connections that were cut, as their answers were not read.",
     "The requests count as left, or by how they ended if they had ended before."},
    {"sluice_http_connections", "gauge", "", "connection", "Connections that are open.", kNow},
    {"sluice_http_bodies_bytes", "gauge", "", "byte", "Bytes of the requests that are being read or answered.", kNow},
    {"sluice_traces_sent_total", "counter", "", "trace", "Traces of requests that the collector has taken.", kExchange},
    {"sluice_traces_dropped_total", "counter", "", "trace",
     "Traces that the collector has not taken, or for which there was no room.", kExchange},
    // The cache and the program that run.
    {"sluice_cache_config_info", "gauge", "block_size, num_gpu_blocks, latent_pages, window_pages, bytes", "flag",
     "1; its labels say how the cache is made.", kNone},
    {"sluice_build_info", "gauge", "version, profile, isa", "flag", "1; its labels say what runs.", kNone},
    {"sluice_weights_info", "gauge", "version", "flag", "1; its label says whose weights these are.", kNone},
};

constexpr std::string_view kHead = R"(# Metrics

Written by `sluice api --metrics`, from the table by which `GET /metrics` makes its metrics. What to watch, and why: docs/operations.md.

A request is one call of a client, a prompt one of its texts, an answer one of the choices for a prompt. A token is one of a prompt or of an answer.
Every sample has the label `model_name`. The unit of a histogram is what it observes once.

A request ends once, and in one way, which its line in the log names as `finish`, too:

| it | counts in `sluice_request_finished_total` as | in `sluice_errors_total` as | in the histograms of requests |
|---|---|---|---|
| ended by itself: an end token, a stop string, a limit, a call of tools | `stop`, `length`, `tool_calls` | | yes |
| left: its client closed the connection before all was computed | `abort` | `client_left` | no |
| was late: its time ran out | `deadline` | `unavailable` | no |
| was cancelled by the server: a shutdown, other weights | `abort` | `unavailable` | no |
| failed | `error` | `internal`, … | no |
| was refused before it began: an error in it, a limit, no time left | | `invalid_request`, `rate_limit`, `unavailable`, … | no |

A client that goes when all is computed, but not yet sent, has left as well: its request counts in the histograms, and as `client_left`.
For every request that ended by itself the end-to-end latency is queue and inference time, and the inference time is prefill and decode time. One that computes
nothing (`max_tokens` 0) waits in the queue and no more, and its prompt is not looked up in the prefix cache.

With `--metrics-prefix vllm:` names begin as vLLM's do. Two metrics have another meaning there, which the lines of `vllm:` tell. vLLM sees a request in each answer of a call;
here the unit is in the table, and the sums of tokens are those of `usage` in any case.

| metric | type | unit | what it tells | of requests that do not simply end |
|---|---|---|---|---|
)";

}  // namespace

std::span<const MetricInfo> metric_table() {
  return kMetrics;
}

const MetricInfo* find_metric(std::string_view name) {
  const auto* const found = std::ranges::find(kMetrics, name, &MetricInfo::name);
  return found == std::end(kMetrics) ? nullptr : found;
}

std::string metric_help(const MetricInfo& metric) {
  return fmt::format("{} Unit: {}. {}", metric.text, metric.unit, metric.partly);
}

std::string metrics_markdown() {
  std::string out(kHead);
  for (const MetricInfo& metric : kMetrics) {
    const std::string labels = metric.labels.empty() ? "" : fmt::format("{{{}}}", metric.labels);
    fmt::format_to(std::back_inserter(out), "| `{}{}` | {} | {} | {} | {} |\n", metric.name, labels, metric.type,
                   metric.unit, metric.text, metric.partly);
  }
  return out;
}

}  // namespace sluice
