// Used by serve/observe and telemetry.
#include <fmt/format.h>

#include <iterator>

#include "telemetry/exports.h"

namespace sluice {
namespace {

const char* name_of(SequenceSnapshot::State state) {
  switch (state) {
    case SequenceSnapshot::State::kWaiting:
      return "waiting";
    case SequenceSnapshot::State::kSwapped:
      return "swapped";
    case SequenceSnapshot::State::kPrompt:
      return "prompt";
    case SequenceSnapshot::State::kDecoding:
      return "decoding";
    case SequenceSnapshot::State::kPaused:
      return "paused";
  }
  return "";
}

// The cells that a sequence's pages lie in, each once.
std::string cells_of(const SequenceSnapshot& sequence, const PoolSnapshot& pool) {
  std::string out;
  const auto cells = static_cast<std::int64_t>(pool.cells.size());
  std::int64_t last = -1;
  for (const std::int32_t page : sequence.latent_pages) {
    // The cell whose first page is at most this one (PoolSnapshot).
    const std::int64_t cell = ((std::int64_t{page} + 1) * cells - 1) / pool.pages;
    if (cell == last) continue;
    fmt::format_to(std::back_inserter(out), "{}{}", last < 0 ? "" : ",", cell);
    last = cell;
  }
  return out;
}

void append_pool(const char* name, const PoolSnapshot& pool, std::string& out) {
  fmt::format_to(std::back_inserter(out), R"("{}":{{"pages":{},"used":{},"cached":{},"page_bytes":{},"cells":")", name,
                 pool.pages, pool.used, pool.cached, pool.page_bytes);
  for (const PoolSnapshot::Cell& cell : pool.cells) {
    fmt::format_to(std::back_inserter(out), "{:x}{:x}{:x}", cell.used, cell.shared, cell.cached);
  }
  out += "\"},";
}

}  // namespace

const char* name_of(WaitReason reason) {
  switch (reason) {
    case WaitReason::kQueue:
      return "queue";
    case WaitReason::kPriority:
      return "priority";
    case WaitReason::kPlaces:
      return "places";
    case WaitReason::kPages:
      return "pages";
    case WaitReason::kWindows:
      return "window pages";
    case WaitReason::kPrefix:
      return "common prefix";
    case WaitReason::kRows:
      return "rows";
    case WaitReason::kPaused:
      return "unread answer";
  }
  return "";
}

std::string steps_json(const std::vector<StepRecord>& records) {
  std::string out = "[";
  auto end = std::back_inserter(out);
  for (const StepRecord& r : records) {
    fmt::format_to(end, "{}[{},{},{},{},{},{},{},{},{},{},{},{},{},[", out.size() > 1 ? "," : "", r.number,
                   r.begin_ns / 1000, r.end_ns / 1000, r.rows, r.running, r.waiting, r.latent_used, r.latent_cached,
                   r.window_used, r.window_cached, r.slots_used, r.swap_bytes, r.lost);
    bool first = true;
    for (const StepItem& item : r.items) {
      using Kind = StepItem::Kind;
      if (item.kind == Kind::kBlock || item.kind == Kind::kMessage || item.kind == Kind::kIdle) continue;
      fmt::format_to(end, "{}[{},{},{},{},{},{}]", first ? "" : ",", static_cast<int>(item.kind), item.flags,
                     item.detail, item.sequence, item.a, item.b);
      first = false;
    }
    out += "]]";
  }
  return out + "]";
}

std::string snapshot_json(const EngineSnapshot& snapshot) {
  std::string out = fmt::format(
      R"({{"now":{},"policy":"{}","most_rows":{},"most_sequences":{},"most_tokens":{},"slots":{},"slots_used":{},)"
      R"("slot_bytes":{},"swap_bytes":{},"swap_bytes_used":{},)",
      snapshot.now_ns / 1000, snapshot.policy, snapshot.most_rows, snapshot.most_sequences, snapshot.most_tokens,
      snapshot.slots, snapshot.slots_used, snapshot.slot_bytes, snapshot.swap_bytes, snapshot.swap_bytes_used);
  append_pool("latents", snapshot.latents, out);
  append_pool("windows", snapshot.windows, out);
  out += R"("sequences":[)";
  for (const SequenceSnapshot& s : snapshot.sequences) {
    if (out.back() != '[') out += ',';
    fmt::format_to(
        std::back_inserter(out),
        R"({{"sequence":{},"request":{},"choice":{},"priority":{},"state":"{}","reason":"{}","prompt_tokens":{},)"
        R"("tokens":{},"computed":{},"cached_tokens":{},"pages":{},"window_pages":{},"cells":[{}]}})",
        s.sequence, s.request, s.choice, s.priority, name_of(s.state),
        s.state == SequenceSnapshot::State::kWaiting || s.state == SequenceSnapshot::State::kSwapped ? name_of(s.reason)
                                                                                                     : "",
        s.prompt_tokens, s.tokens, s.computed, s.cached_tokens, s.latent_pages.size(), s.window_pages,
        cells_of(s, snapshot.latents));
  }
  return out + "]}";
}

}  // namespace sluice
