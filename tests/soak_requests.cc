#include "soak_requests.h"

#include <algorithm>
#include <iterator>

namespace sluice {

void SoakRequests::add_tokens(std::vector<std::int32_t>* prompt, int count, std::uint64_t seed) const {
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; ++i) {
    prompt->push_back(static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab_)));
  }
}

SoakRequest SoakRequests::next() {
  constexpr int kPrefixes[] = {0, 0, 40, 128, 200, 256, 300, 512};
  constexpr int kTails = 100, kMostTail = 120;
  SoakRequest r;
  const int family = below(static_cast<int>(std::size(kPrefixes)));
  add_tokens(&r.prompt, kPrefixes[family], static_cast<std::uint64_t>(family));
  if (kPrefixes[family] > 0 && one_in(2)) r.message_starts = {0, kPrefixes[family]};
  const int tail = below(kTails);  // also its seed: prompts come back
  add_tokens(&r.prompt, 1 + tail, 1000 + static_cast<std::uint64_t>(tail));
  if (one_in(2)) add_tokens(&r.prompt, below(kMostTail), random_());
  if (one_in(50)) add_tokens(&r.prompt, 400 + below(400), random_());
  if (one_in(30)) r.prompt.resize(1);

  r.max_tokens = one_in(20) ? 0 : one_in(6) ? 80 + below(200) : 1 + below(40);
  r.n = one_in(10) ? 2 + below(3) : 1;
  r.priority = below(3) - 1;
  r.salt = one_in(4) ? "other" : "";
  if (one_in(3)) r.stops = {below(vocab_), below(vocab_)};
  r.sampling.temperature = one_in(2) ? 0.0F : 1.0F;
  r.sampling.seed = random_();
  choose_abort(&r);
  const int limit = max_model_len_ - r.max_tokens;
  if (static_cast<int>(r.prompt.size()) > limit) r.prompt.resize(static_cast<std::size_t>(limit));
  if (one_in(100)) {
    r.too_large = true;
    add_tokens(&r.prompt, max_model_len_, 1);
  }
  return r;
}

void SoakRequests::choose_abort(SoakRequest* r) {
  if (!one_in(4)) return;
  using Abort = SoakRequest::Abort;
  r->abort = one_in(6) ? Abort::kAtOnce : one_in(2) ? Abort::kAfterSteps : Abort::kAfterTokens;
  r->abort_after = 1 + below(r->abort == Abort::kAfterSteps ? 60 : 20);
  r->aborted_choice = one_in(2) ? -1 : below(r->n);
}

}  // namespace sluice
