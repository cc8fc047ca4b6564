#include <fmt/format.h>

#include "sluice/sampling.h"

namespace sluice {
namespace {

Status out_of_range(const char* field, const char* range, double found) {
  return invalid_argument(fmt::format("{}: expected {}, found {}", field, range, found));
}

}  // namespace

Status validate(const SamplingParams& p) {
  if (!kTemperatures.contains(p.temperature)) {
    return out_of_range("temperature", "0 to 100", static_cast<double>(p.temperature));
  }
  if (!kTopPs.contains(p.top_p)) {
    return out_of_range("top_p", "more than 0 and at most 1", static_cast<double>(p.top_p));
  }
  if (!kTopKs.contains(p.top_k)) return out_of_range("top_k", "-1 or 0 (off) or a count", p.top_k);
  if (!kMinPs.contains(p.min_p)) return out_of_range("min_p", "0 to 1", static_cast<double>(p.min_p));
  if (p.top_logprobs < -1 || p.top_logprobs > kMaxTopLogprobs) {
    return out_of_range("top_logprobs", fmt::format("-1 (off) to {}", kMaxTopLogprobs).c_str(), p.top_logprobs);
  }
  return {};
}

}  // namespace sluice
