// Used by chat_parsers.cc.
#include "text/chat/parsers/hermes_parser.h"

#include <array>
#include <string>

namespace sluice {
namespace {

constexpr std::string_view kCallOpen = "<tool_call>";
constexpr std::string_view kCallClose = "</tool_call>";

}  // namespace

HermesOutputParser::HermesOutputParser()
    : JsonCallsParser(State::kContent, kCallOpen, /*most_newlines=*/2, /*needs_arguments=*/false) {}

void HermesOutputParser::finish_after_call(bool is_cut) {
  if (is_cut) drop_unfinished_marker(pending_);
  if (pending_.size() == 1) sink_.content(pending_);  // more is the start of a tag
}

bool HermesOutputParser::step_after_call() {
  static constexpr std::array kMarkers = {kCallClose, kCallOpen};
  const MarkerMatch match = find_marker(pending_, kMarkers);
  sink_.content(std::string_view(pending_).substr(0, match.position));
  if (!match.marker) {
    pending_.erase(0, match.position);
    return false;
  }
  const std::string_view marker = kMarkers[*match.marker];
  pending_.erase(0, match.position + marker.size());
  sink_.after_markup();
  begin_content();
  if (marker == kCallOpen) begin_call(std::string(kCallOpen), /*is_tagged=*/true);
  return true;
}

}  // namespace sluice
