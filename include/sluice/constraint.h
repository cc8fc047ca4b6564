// TokenConstraint: decides which tokens may come next in an answer. The engine asks it before every draw and passes it
// every token; it knows nothing of the model.
//
// The allowed tokens are a function of the tokens accepted so far, and of nothing else. Thread safety: one thread at a
// time for each object; copies are independent of each other and may be used at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "sluice/status.h"

namespace sluice {

class TokenConstraint {
 public:
  // At most this many tokens can be taken back; a caller must not ask for more.
  static constexpr std::size_t kMostRollback = 256;

  virtual ~TokenConstraint() = default;

  // Writes the tokens that may come next: id i is bit i mod 32 of word i / 32, in (vocabulary + 31) / 32 words. At
  // least one bit is set, or the status says why no token can go on.
  virtual Status allowed(std::span<std::uint32_t> words) = 0;
  // The next token is this one; false: it is not allowed, and nothing has changed.
  virtual bool accept(std::int32_t token) = 0;
  // Takes back the last tokens.
  virtual void rollback(std::size_t tokens) = 0;
  // Tokens of the only text that can come next, as long as there is one: its likeliest, if it can be cut in several
  // ways. Writes some of them and says how many; nothing has changed.
  virtual int forced(std::span<std::int32_t> /*tokens*/) { return 0; }
  virtual std::unique_ptr<TokenConstraint> copy() const = 0;
};

}  // namespace sluice
