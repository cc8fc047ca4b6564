// TraceExporter: sends a trace of every generating request to an OpenTelemetry collector, as OTLP over HTTP in JSON.
//
// A request is a span, with the spans queue (until it has memory), prefill (until its first token) and decode (until
// its last) below it. Its trace and its parent are those of the header traceparent, if it has one; requests that are
// not sampled are left out. Nothing waits for the collector: spans that find the queue full are dropped and counted.
// Thread safety: everything may be called from any thread.
// Used by serve/server.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/threads/mutex.h"
#include "sluice/status.h"
#include "telemetry/served_request.h"

namespace sluice {

// Reads a header traceparent (W3C Trace Context) into the record, which gets a span of its own in that trace; anything
// else begins a trace, if `begins`, or leaves the record as it is.
void read_traceparent(std::string_view header, bool begins, ServedRequest& record);

class TraceExporter {
 public:
  static constexpr std::size_t kMaxQueued = 2048;  // requests
  static constexpr std::size_t kMaxBatch = 256;    // requests of one message

  // `endpoint`: http://HOST[:PORT][/PATH], by default port 4318 and /v1/traces.
  static Result<std::unique_ptr<TraceExporter>> start(const std::string& endpoint, const std::string& service);
  ~TraceExporter();  // tries to send what is queued, for a second at most

  void add(const HttpSummary& summary);

  std::uint64_t sent() const { return sent_; }        // requests that the collector accepted
  std::uint64_t dropped() const { return dropped_; }  // requests that it did not accept, or that found no room

 private:
  TraceExporter(std::string host, std::string port, std::string path, const std::string& service);
  void run();
  bool post(const std::string& body) const;

  const std::string host_, port_, path_;
  std::string head_;  // the beginning of a message, up to its spans
  Mutex mutex_;
  Condition changed_;
  std::deque<std::string> queue_ SLUICE_GUARDED_BY(mutex_);  // an entry has the spans of one request
  bool stopping_ SLUICE_GUARDED_BY(mutex_) = false;
  std::atomic<std::uint64_t> sent_{0}, dropped_{0};
  std::thread thread_;
};

}  // namespace sluice
