// The retries of a request, and its answers in words.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <thread>

#include "base/log.h"
#include "hub/hub_http.h"

namespace sluice {
namespace {

constexpr int kMostFailures = 5, kMostInAll = 100;
constexpr double kFirstWait = 0.25, kMostWait = 300;  // seconds

// The seconds of Retry-After; a date there counts as nothing.
std::optional<double> asked_wait(const HubAnswer& answer) {
  const std::string_view text = answer.failure.ok() ? answer.head.field("Retry-After") : "";
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || !(seconds >= 0)) return std::nullopt;
  return seconds;
}

// "; set HF_TOKEN ..." or what else helps to be let in.
std::string how_to_enter(const HubSettings& settings) {
  return settings.token.empty() ? "set HF_TOKEN to a token of your account, or log in by `hf auth login`"
                                : "the token that was sent (HF_TOKEN, or the token file) is wrong, or may not read it";
}

}  // namespace

double back_off_seconds(int failures) {
  return std::min(8.0, kFirstWait * static_cast<double>(1 << std::clamp(failures - 1, 0, 10)));
}

Status HubRetries::wait(const HubAnswer& answer, const Status& failure, bool progress) {
  if (!answer.passing) return failure;
  failures_ = progress ? 1 : failures_ + 1;
  if (failures_ >= kMostFailures || ++all_ >= kMostInAll) {
    return failure.with_context(fmt::format("given up after {} tries", all_ + (failures_ >= kMostFailures ? 1 : 0)));
  }
  const double seconds = asked_wait(answer).value_or(back_off_seconds(failures_));
  if (seconds > kMostWait) {
    return failure.with_context(fmt::format("the server asks to wait {:.0f} seconds; try again then", seconds));
  }
  log_info("{}; trying again in {:.2g} s", failure.message(), seconds);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return {};
}

Status explain_answer(const HubAnswer& answer, const HubName& name, const HubSettings& settings) {
  if (!answer.failure.ok()) return answer.failure;
  const std::string_view cause = answer.head.field("X-Error-Code");
  const std::string page = fmt::format("{}/{}", settings.endpoint, name.id);
  const std::string from = answer.place.server.authority();
  switch (answer.head.status) {
    case 200:
    case 206:
      return {};
    case 401:
      if (cause == "GatedRepo") {
        return invalid_argument(fmt::format("{}: the model is gated (401): accept its terms at {}, then {}", name.id,
                                            page, how_to_enter(settings)));
      }
      return invalid_argument(
          fmt::format("{}: {} does not let this request in (401): there is no such model, or it is "
                      "private or gated; {}",
                      name.id, from, how_to_enter(settings)));
    case 403:
      return invalid_argument(
          fmt::format("{}: access is refused (403): the model is gated or private; accept its "
                      "terms at {}, then {}",
                      name.id, page, how_to_enter(settings)));
    case 404:
      if (cause == "RevisionNotFound") {
        return not_found(fmt::format("{}: {} has no revision '{}' of it (404)", name.id, from, name.revision));
      }
      return not_found(fmt::format("{}: {} has no such model, revision or file (404)", name.text(), from));
    case 429:
      return unavailable(fmt::format("{}: {} has had too many requests from here (429)", name.id, from));
    default:
      return unavailable(fmt::format("{}: {} answers with status {}", name.id, from, answer.head.status));
  }
}

}  // namespace sluice
