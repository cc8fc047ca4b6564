// KeyLimits: what one API key may use: generating requests at once, requests and tokens a minute.
//
// Without keys all requests count as one. Requests and tokens flow back evenly, so that after a pause of a minute all
// are there again. Tokens are counted as they are known, those of prompts and those made. A request is let in as long
// as any are left. It may use more than that, for which later ones wait. Thread safety: everything may be called from
// any thread. Times are passed in.
// Used by cli/commands/text_commands.h, request_admission.cc, serve/api/api_context.h and serve/server.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/threads/mutex.h"

namespace sluice {

struct KeyLimitOptions {
  int max_running = 0;  // 0 here and below: no limit
  std::int64_t requests_per_minute = 0, tokens_per_minute = 0;
};

class KeyLimits : public std::enable_shared_from_this<KeyLimits> {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit KeyLimits(const KeyLimitOptions& options) : options_(options) {}

  // A request that runs, until it is released.
  class Ticket {
   public:
    Ticket(std::shared_ptr<KeyLimits> limits, std::string key) : limits_(std::move(limits)), key_(std::move(key)) {}
    ~Ticket();
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    void use_tokens(std::int64_t tokens);

   private:
    std::shared_ptr<KeyLimits> limits_;
    std::string key_;
  };

  // Why not, and after how many seconds there is room again.
  struct Refusal {
    const char* limit;  // "running", "requests" or "tokens"
    int retry_after = 1;
  };
  std::variant<std::shared_ptr<Ticket>, Refusal> enter(std::string_view key, Time now);
  // Counts a request that generates nothing: it is one of the minute's, and that is all.
  std::optional<Refusal> count_request(std::string_view key, Time now);

 private:
  struct Use {
    int running = 0;
    double requests = 0, tokens = 0;  // used, beyond what has flowed back
    Time at;                          // the time of these two
  };
  Use& use_of(std::string_view key, Time now) SLUICE_REQUIRES(mutex_);  // the key's use at `now`
  std::optional<Refusal> refuse_request(const Use& use) const;

  const KeyLimitOptions options_;
  Mutex mutex_;
  std::map<std::string, Use, std::less<>> uses_ SLUICE_GUARDED_BY(mutex_);  // at most one for each key
};

}  // namespace sluice
