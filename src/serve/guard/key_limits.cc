// Used by cli/commands/text_commands.h, request_admission.cc, serve/api/api_context.h and serve/server.h.
#include "serve/guard/key_limits.h"

#include <algorithm>
#include <cmath>

#include "base/threads/mutex.h"

namespace sluice {

KeyLimits::Ticket::~Ticket() {
  const MutexLock lock(limits_->mutex_);
  --limits_->uses_.find(key_)->second.running;
}

void KeyLimits::Ticket::use_tokens(std::int64_t tokens) {
  if (limits_->options_.tokens_per_minute == 0) return;
  const MutexLock lock(limits_->mutex_);
  limits_->uses_.find(key_)->second.tokens += static_cast<double>(tokens);
}

namespace {

// Returns the seconds until one unit is free again; rates are per minute.
int wait_for(double excess, std::int64_t rate) {
  return std::max(1, static_cast<int>(std::ceil(excess * 60 / static_cast<double>(rate))));
}

}  // namespace

KeyLimits::Use& KeyLimits::use_of(std::string_view key, Time now) {
  auto found = uses_.find(key);
  if (found == uses_.end()) found = uses_.emplace(std::string(key), Use{.at = now}).first;
  Use& use = found->second;
  const double minutes = std::chrono::duration<double>(now - use.at).count() / 60;
  if (minutes <= 0) return use;
  use.requests = std::max(0.0, use.requests - minutes * static_cast<double>(options_.requests_per_minute));
  use.tokens = std::max(0.0, use.tokens - minutes * static_cast<double>(options_.tokens_per_minute));
  use.at = now;
  return use;
}

std::optional<KeyLimits::Refusal> KeyLimits::refuse_request(const Use& use) const {
  const auto most = static_cast<double>(options_.requests_per_minute);
  if (most <= 0 || use.requests + 1 <= most) return std::nullopt;
  return Refusal{"requests", wait_for(use.requests + 1 - most, options_.requests_per_minute)};
}

std::variant<std::shared_ptr<KeyLimits::Ticket>, KeyLimits::Refusal> KeyLimits::enter(std::string_view key, Time now) {
  const MutexLock lock(mutex_);
  Use& use = use_of(key, now);
  const auto tokens = static_cast<double>(options_.tokens_per_minute);
  if (options_.max_running > 0 && use.running >= options_.max_running) return Refusal{"running", 1};
  if (const auto refusal = refuse_request(use)) return *refusal;
  if (tokens > 0 && use.tokens + 1 > tokens) {
    return Refusal{"tokens", wait_for(use.tokens + 1 - tokens, options_.tokens_per_minute)};
  }
  ++use.running;
  if (options_.requests_per_minute > 0) use.requests += 1;
  return std::make_shared<Ticket>(shared_from_this(), std::string(key));
}

std::optional<KeyLimits::Refusal> KeyLimits::count_request(std::string_view key, Time now) {
  const MutexLock lock(mutex_);
  Use& use = use_of(key, now);
  if (auto refusal = refuse_request(use)) return refusal;
  if (options_.requests_per_minute > 0) use.requests += 1;
  return std::nullopt;
}

}  // namespace sluice
