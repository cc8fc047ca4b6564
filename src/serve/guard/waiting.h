// Waiting: how many requests wait for their first token, and how many tokens their prompts have.
//
// A request counts from when it is received. Beyond the limits new ones are refused at once, because they would wait
// longer than clients are willing to. Thread safety: everything may be called from any thread.
// Used by cli/commands/text_commands.h, serve/api/api_context.h and serve/server.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace sluice {

struct WaitingLimits {
  std::int64_t max_requests = 1024;
  std::int64_t max_tokens = std::int64_t{8} << 20;
};

class Waiting : public std::enable_shared_from_this<Waiting> {
 public:
  explicit Waiting(const WaitingLimits& limits) : limits_(limits) {}

  // A request's place among those that wait, until it is released.
  class Place {
   public:
    explicit Place(std::shared_ptr<Waiting> waiting) : waiting_(std::move(waiting)) {}
    ~Place() {
      --waiting_->requests_;
      waiting_->tokens_ -= tokens_;
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // Its prompts' tokens; false if there is no room for them. A single request has room whatever its length.
    bool add_tokens(std::int64_t tokens) {
      tokens_ += tokens;
      const std::int64_t others = waiting_->tokens_.fetch_add(tokens);
      return others == 0 || others + tokens <= waiting_->limits_.max_tokens;
    }

   private:
    std::shared_ptr<Waiting> waiting_;
    std::int64_t tokens_ = 0;
  };

  // nullptr if too many wait.
  std::shared_ptr<Place> enter() {
    auto place = std::make_shared<Place>(shared_from_this());
    return requests_.fetch_add(1) < limits_.max_requests ? place : nullptr;
  }

 private:
  const WaitingLimits limits_;
  std::atomic<std::int64_t> requests_{0}, tokens_{0};
};

}  // namespace sluice
