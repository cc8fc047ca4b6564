// A request's fate, and what each counter and histogram says of it.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace sluice::fates_test {

using Samples = std::map<std::string, double>;

inline constexpr double kSome = -1;  // more than nothing: how many tokens a write reports is a matter of luck
inline constexpr double kGap = 0.25, kAdmittedAfter = 0.125;

// A request's fate, in the words of its answer and by the clock of the test.
struct Facts {
  int requests = 1;  // that a client sent
  std::string path = "/v1/completions", status = "200", error = {}, refusal = {};
  bool generates = true;  // it began
  bool ended = true;      // all of its answers did so by themselves
  bool cancelled = false;
  bool streams = false;
  std::map<std::string, int> reasons = {{"stop", 1}};  // the finish reasons of its answers
  int prompt_tokens = 0, completion_tokens = 0, ignored = 0;
  int first_tokens = 1;                                    // answers that had one
  double first_token_seconds = 0, next_token_seconds = 0;  // sums of all answers
  double queue = 0, prefill = 0, decode = 0;
};

using Expect = std::function<void(const Facts&, const std::string& name, Samples& changes)>;

inline void histogram(Samples& changes, const std::string& name, double count, double sum) {
  changes[name + "_count"] = count;
  changes[name + "_sum"] = sum;
}

// Once a request whose answers have all ended by themselves, and never else.
inline Expect of_requests(std::function<double(const Facts&)> value) {
  return [value = std::move(value)](const Facts& f, const std::string& name, Samples& changes) {
    if (f.generates && f.ended) histogram(changes, name, 1, value(f));
  };
}

inline void later_tokens(const Facts& f, const std::string& name, Samples& changes) {
  histogram(changes, name, f.completion_tokens - f.first_tokens, f.next_token_seconds);
}

// The engine of these tests counts nothing; engine_counters_test.cc and tests/counters_test.py see to these.
inline void of_the_engine(const Facts& /*f*/, const std::string& /*name*/, Samples& /*changes*/) {}

inline bool is_success(const std::string& reason) {
  return reason == "stop" || reason == "length" || reason == "tool_calls";
}

inline const std::map<std::string, Expect>& expectations() {
  static const std::map<std::string, Expect> all = {
      {"sluice_e2e_request_latency_seconds",
       of_requests([](const Facts& f) { return f.queue + f.prefill + f.decode; })},
      {"sluice_request_queue_time_seconds", of_requests([](const Facts& f) { return f.queue; })},
      {"sluice_request_inference_time_seconds", of_requests([](const Facts& f) { return f.prefill + f.decode; })},
      {"sluice_request_prefill_time_seconds", of_requests([](const Facts& f) { return f.prefill; })},
      {"sluice_request_decode_time_seconds", of_requests([](const Facts& f) { return f.decode; })},
      {"sluice_request_prompt_tokens", of_requests([](const Facts& f) { return f.prompt_tokens; })},
      {"sluice_request_generation_tokens", of_requests([](const Facts& f) { return f.completion_tokens; })},
      {"sluice_time_to_first_token_seconds",
       [](const Facts& f, const std::string& name, Samples& changes) {
         histogram(changes, name, f.first_tokens, f.first_token_seconds);
       }},
      {"sluice_inter_token_latency_seconds", later_tokens},
      {"sluice_time_per_output_token_seconds", later_tokens},
      {"sluice_stream_delay_seconds",
       [](const Facts& f, const std::string& name, Samples& changes) {
         // The clock stands still between a token and its event, but for other tokens that come meanwhile.
         if (f.streams) changes[name + "_count"] = kSome;
       }},
      {"sluice_generation_tokens_total",
       [](const Facts& f, const std::string& name, Samples& changes) { changes[name] = f.completion_tokens; }},
      {"sluice_request_finished_total",
       [](const Facts& f, const std::string& name, Samples& changes) {
         for (const auto& [reason, answers] : f.reasons) {
           changes[fmt::format("{}{{finished_reason=\"{}\"}}", name, reason)] = answers;
         }
       }},
      {"sluice_request_success_total",
       [](const Facts& f, const std::string& name, Samples& changes) {
         for (const auto& [reason, answers] : f.reasons) {
           if (is_success(reason)) changes[fmt::format("{}{{finished_reason=\"{}\"}}", name, reason)] = answers;
         }
       }},
      {"vllm:request_success_total",
       [](const Facts& f, const std::string& name, Samples& changes) {
         for (const auto& [reason, answers] : f.reasons) {
           const std::string theirs = reason == "tool_calls" ? "stop" : reason == "deadline" ? "abort" : reason;
           changes[fmt::format("{}{{finished_reason=\"{}\"}}", name, theirs)] += answers;
         }
       }},
      {"sluice_requests_cancelled_total",
       [](const Facts& f, const std::string& name, Samples& changes) { changes[name] = f.cancelled ? 1 : 0; }},
      {"sluice_requests_refused_total",
       [](const Facts& f, const std::string& name, Samples& changes) {
         if (!f.refusal.empty()) changes[fmt::format("{}{{reason=\"{}\"}}", name, f.refusal)] = 1;
       }},
      {"sluice_errors_total",
       [](const Facts& f, const std::string& name, Samples& changes) {
         if (!f.error.empty()) changes[fmt::format("{}{{kind=\"{}\"}}", name, f.error)] = 1;
       }},
      {"sluice_http_requests_total",
       [](const Facts& f, const std::string& name, Samples& changes) {
         changes[fmt::format("{}{{path=\"{}\",status=\"{}\"}}", name, f.path, f.status)] = f.requests;
       }},
      {"sluice_ignored_fields_total",
       [](const Facts& f, const std::string& name, Samples& changes) { changes[name] = f.ignored; }},
      {"sluice_http_refused_total", of_the_engine},  // the network's, http_server_test.cc has them
      {"sluice_http_unread_answers_total", of_the_engine},
      {"sluice_traces_sent_total", of_the_engine},
      {"sluice_traces_dropped_total", of_the_engine},
      {"sluice_prompt_tokens_total", of_the_engine},
      {"vllm:prompt_tokens_total", of_the_engine},
      {"sluice_recomputed_tokens_total", of_the_engine},
      {"sluice_prefix_cache_queries_total", of_the_engine},
      {"sluice_prefix_cache_matched_tokens_total", of_the_engine},
      {"sluice_prefix_cache_hits_total", of_the_engine},
      {"sluice_prefix_cache_lost_tokens_total", of_the_engine},
      {"sluice_prefix_cache_shared_waits_total", of_the_engine},
      {"sluice_prefix_cache_inserted_pages_total", of_the_engine},
      {"sluice_prefix_cache_evicted_pages_total", of_the_engine},
      {"sluice_num_preemptions_total", of_the_engine},
      {"sluice_swaps_restored_total", of_the_engine},
      {"sluice_engine_step_seconds", of_the_engine},
      {"sluice_iteration_tokens", of_the_engine},
      {"sluice_engine_steps_total", of_the_engine},
      {"sluice_spec_decode_num_drafts_total", of_the_engine},
      {"sluice_spec_decode_num_draft_tokens_total", of_the_engine},
      {"sluice_spec_decode_num_accepted_tokens_total", of_the_engine},
      {"sluice_spec_decode_num_draft_tokens_per_pos_total", of_the_engine},
      {"sluice_spec_decode_num_accepted_tokens_per_pos_total", of_the_engine},
  };
  return all;
}

}  // namespace sluice::fates_test
