// Used by serve/server.cc.
#include "telemetry/traces.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <random>
#include <utility>

#include "base/threads/mutex.h"
#include "files/json.h"

namespace sluice {
namespace {

using Time = ServedRequest::Time;
constexpr int kPatienceMs = 2000;  // for each step of sending
constexpr auto kGather = std::chrono::milliseconds(500);

bool is_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_id(std::string_view text) {
  return is_hex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

std::string random_hex(int words) {
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::string out;
  for (int i = 0; i < words; ++i) out += fmt::format("{:016x}", random() | 1);
  return out;
}

// Unix time in nanoseconds, as OTLP's JSON wants it: a string of digits. All times of a request by one comparison of
// the two clocks.
class UnixTime {
 public:
  // The thread may be stopped between two readings: the closest of some count.
  UnixTime() {
    auto closest = Time::duration::max();
    for (int i = 0; i < 3; ++i) {
      const Time before = std::chrono::steady_clock::now();
      const auto system = std::chrono::system_clock::now();
      const Time after = std::chrono::steady_clock::now();
      if (after - before >= closest) continue;
      closest = after - before;
      steady_ = before;
      system_ = system;
    }
  }

  std::string of(Time time) const {
    const auto at = system_ - (steady_ - time);
    return fmt::format("{}", std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count());
  }

 private:
  Time steady_;
  std::chrono::system_clock::time_point system_;
};

void append_attribute(std::string& out, std::string_view name, std::string_view text) {
  if (out.back() != '[') out += ',';
  fmt::format_to(std::back_inserter(out), R"({{"key":"{}","value":{{"stringValue":)", name);
  append_json_string(out, text);
  out += "}}";
}

void append_attribute(std::string& out, std::string_view name, std::int64_t number) {
  if (out.back() != '[') out += ',';
  fmt::format_to(std::back_inserter(out), R"({{"key":"{}","value":{{"intValue":"{}"}}}})", name, number);
}

struct SpanIds {
  std::string trace, span, parent;
};

// Without the closing brace. `kind`: 1 internal, 2 server.
void append_span(std::string& out, const SpanIds& ids, std::string_view name, int kind, const std::string& begin,
                 const std::string& end) {
  fmt::format_to(std::back_inserter(out), R"({}{{"traceId":"{}","spanId":"{}","parentSpanId":"{}","name":)",
                 out.empty() ? "" : ",", ids.trace, ids.span, ids.parent);
  append_json_string(out, name);
  fmt::format_to(std::back_inserter(out), R"(,"kind":{},"startTimeUnixNano":"{}","endTimeUnixNano":"{}")", kind, begin,
                 end);
}

std::string spans_of(const HttpSummary& summary) {
  const ServedRequest& record = summary.record;
  const std::string& trace = record.trace_id;
  const SpanIds request{trace, record.span_id, record.parent_span};
  const Time end = record.received + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                         std::chrono::duration<double>(summary.seconds));
  const UnixTime unix_time;
  std::string out;
  append_span(out, request, fmt::format("{} {}", summary.method, summary.path), 2, unix_time.of(record.received),
              unix_time.of(end));
  out += R"(,"attributes":[)";
  append_attribute(out, "http.request.method", summary.method);
  append_attribute(out, "url.path", summary.path);
  append_attribute(out, "http.response.status_code", summary.status);
  append_attribute(out, "sluice.request_id", record.id);
  if (!record.key.empty()) append_attribute(out, "sluice.key", record.key);
  append_attribute(out, "gen_ai.response.id", record.answer_id);
  append_attribute(out, "gen_ai.usage.input_tokens", record.prompt_tokens);
  append_attribute(out, "gen_ai.usage.cached_tokens", record.cached_tokens);
  append_attribute(out, "gen_ai.usage.output_tokens", record.completion_tokens);
  append_attribute(out, "gen_ai.response.finish_reason", record.finish_reason);
  const bool failed = summary.status >= 500 || record.finish_reason == "error" || record.finish_reason == "deadline";
  out += fmt::format(R"(],"status":{{"code":{}}}}})", failed ? 2 : 0);
  const std::array<std::pair<const char*, std::pair<Time, Time>>, 3> phases = {
      {{"queue", {record.received, record.admitted}},
       {"prefill", {record.admitted, record.first_token}},
       {"decode", {record.first_token, record.last_token}}}};
  for (const auto& [name, times] : phases) {
    if (times.first == Time() || times.second == Time()) continue;
    append_span(out, {trace, random_hex(1), request.span}, name, 1, unix_time.of(times.first),
                unix_time.of(times.second));
    out += '}';
  }
  return out;
}

// A connected socket, or -1.
int connect_to(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return -1;
  int connected = -1;
  for (const addrinfo* entry = found; entry != nullptr && connected < 0; entry = entry->ai_next) {
    const int socket = ::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) continue;
    int failure = ::connect(socket, entry->ai_addr, entry->ai_addrlen) == 0 ? 0 : errno;
    pollfd ready{socket, POLLOUT, 0};
    if (failure == EINPROGRESS && ::poll(&ready, 1, kPatienceMs) == 1) {
      socklen_t size = sizeof failure;
      ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &failure, &size);
    }
    if (failure == 0) {
      connected = socket;
    } else {
      ::close(socket);
    }
  }
  ::freeaddrinfo(found);
  return connected;
}

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd ready{socket, POLLOUT, 0};
    if (::poll(&ready, 1, kPatienceMs) != 1) return false;
    const auto sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

namespace {

bool is_traceparent(std::string_view header) {
  constexpr std::size_t kBytes = 55;  // 00-TRACE-SPAN-FLAGS
  if (header.size() < kBytes || header[2] != '-' || header[35] != '-' || header[52] != '-') return false;
  const std::string_view version = header.substr(0, 2), flags = header.substr(53, 2);
  if (!is_hex(version) || version == "ff" || (version == "00" && header.size() != kBytes) || !is_hex(flags)) {
    return false;
  }
  return is_id(header.substr(3, 32)) && is_id(header.substr(36, 16));
}

}  // namespace

void read_traceparent(std::string_view header, bool begins, ServedRequest& record) {
  if (!is_traceparent(header)) {
    if (begins) record.trace_id = random_hex(2), record.span_id = random_hex(1);
    return;
  }
  record.span_id = random_hex(1);
  record.trace_id = std::string(header.substr(3, 32));
  record.parent_span = std::string(header.substr(36, 16));
  const char low = header[54];
  record.sampled = ((low <= '9' ? low - '0' : low - 'a' + 10) & 1) != 0;
}

Result<std::unique_ptr<TraceExporter>> TraceExporter::start(const std::string& endpoint, const std::string& service) {
  constexpr std::string_view kScheme = "http://";
  std::string_view rest = endpoint;
  if (!rest.starts_with(kScheme) || rest.size() == kScheme.size()) {
    return invalid_argument(fmt::format("--otlp-endpoint: expected http://HOST[:PORT][/PATH], found {}", endpoint));
  }
  rest.remove_prefix(kScheme.size());
  std::string_view authority = rest.substr(0, rest.find('/'));
  std::string path(rest.substr(authority.size()));
  if (path.empty() || path == "/") path = "/v1/traces";
  std::string port = "4318";
  if (const std::size_t colon = authority.rfind(':'); colon != std::string_view::npos && !authority.ends_with(']')) {
    port = std::string(authority.substr(colon + 1));
    authority = authority.substr(0, colon);
  }
  if (authority.starts_with('[') && authority.ends_with(']')) authority = authority.substr(1, authority.size() - 2);
  return std::unique_ptr<TraceExporter>(
      new TraceExporter(std::string(authority), std::move(port), std::move(path), service));
}

TraceExporter::TraceExporter(std::string host, std::string port, std::string path, const std::string& service)
    : host_(std::move(host)), port_(std::move(port)), path_(std::move(path)) {
  head_ = R"({"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"sluice"}},)"
          R"({"key":"gen_ai.request.model","value":{"stringValue":)";
  append_json_string(head_, service);
  head_ += R"(}}]},"scopeSpans":[{"scope":{"name":"sluice"},"spans":[)";
  thread_ = std::thread([this] { run(); });
}

TraceExporter::~TraceExporter() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void TraceExporter::add(const HttpSummary& summary) {
  if (summary.record.answer_id.empty() || !summary.record.sampled) return;
  std::string spans = spans_of(summary);
  {
    const MutexLock lock(mutex_);
    if (queue_.size() >= kMaxQueued) {
      ++dropped_;
      return;
    }
    queue_.push_back(std::move(spans));
  }
  changed_.notify_one();
}

void TraceExporter::run() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() SLUICE_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    // Some company for it, unless there is enough or no time.
    changed_.wait_for(lock, kGather,
                      [this]() SLUICE_REQUIRES(mutex_) { return stopping_ || queue_.size() >= kMaxBatch; });
    const std::size_t count = std::min(queue_.size(), kMaxBatch);
    std::string body = head_;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) body += ',';
      body += queue_.front();
      queue_.pop_front();
    }
    body += "]}]}]}";
    lock.unlock();
    const bool taken = post(body);
    (taken ? sent_ : dropped_) += count;
    lock.lock();
    // A collector that is away must not keep the server from its end.
    if (!taken && stopping_) dropped_ += std::exchange(queue_, {}).size();
  }
}

bool TraceExporter::post(const std::string& body) const {
  const int socket = connect_to(host_, port_);
  if (socket < 0) return false;
  const bool is_v6 = host_.find(':') != std::string::npos;
  const std::string head = fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}{}{}:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: "
      "close\r\n\r\n",
      path_, is_v6 ? "[" : "", host_, is_v6 ? "]" : "", port_, body.size());
  std::string answer;
  if (send_all(socket, head) && send_all(socket, body)) {
    std::array<char, 64> bytes;
    pollfd ready{socket, POLLIN, 0};
    while (answer.size() < 12 && ::poll(&ready, 1, kPatienceMs) == 1) {
      const auto got = ::recv(socket, bytes.data(), bytes.size(), 0);
      if (got <= 0) break;
      answer.append(bytes.data(), static_cast<std::size_t>(got));
    }
  }
  ::close(socket);
  return answer.starts_with("HTTP/1.") && answer.size() >= 12 && answer[9] == '2';
}

}  // namespace sluice
