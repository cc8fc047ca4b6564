// Used by serve/observe and telemetry.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "telemetry/exports.h"

namespace sluice {
namespace {

// Processes of the trace: the groups that a viewer shows.
constexpr int kSteps = 1, kSequences = 2;

class ChromeWriter {
 public:
  ChromeWriter() : out_(R"({"displayTimeUnit":"ms","traceEvents":[)") {
    name(kSteps, "engine");
    name(kSequences, "sequences");
  }

  void read(const StepRecord& record) {
    begin_ = record.begin_ns;
    end_ = record.end_ns;
    event(kSteps, 1, fmt::format("step {}", record.number), begin_, end_,
          fmt::format(R"("rows":{},"running":{},"waiting":{})", record.rows, record.running, record.waiting));
    counter("rows", fmt::format(R"("rows":{})", record.rows));
    counter("latent pages", fmt::format(R"("used":{},"cached":{})", record.latent_used, record.latent_cached));
    counter("window pages", fmt::format(R"("used":{},"cached":{})", record.window_used, record.window_cached));
    counter("sequences", fmt::format(R"("running":{},"waiting":{})", record.running, record.waiting));
    for (const StepItem& item : record.items) read(item);
  }

  std::string text() { return std::move(out_) + "]}"; }

 private:
  using Kind = StepItem::Kind;
  struct Lane {
    int prompt = 0;
    std::int64_t waits_since = -1;
    std::string why = "waits: queue";
  };

  void separate() {
    if (out_.back() != '[') out_ += ',';
    out_ += '\n';
  }
  void name(int process, std::string_view text) {
    separate();
    fmt::format_to(std::back_inserter(out_),
                   R"({{"ph":"M","pid":{},"tid":0,"name":"process_name","args":{{"name":"{}"}}}})", process, text);
  }
  static double us(std::int64_t ns) { return static_cast<double>(ns) * 1e-3; }
  void event(int process, std::uint32_t thread, std::string_view what, std::int64_t from, std::int64_t to,
             std::string_view args) {
    separate();
    fmt::format_to(std::back_inserter(out_),
                   R"({{"ph":"X","pid":{},"tid":{},"name":"{}","ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})", process,
                   thread, what, us(from), us(to - from), args);
  }
  void counter(std::string_view what, std::string_view args) {
    separate();
    fmt::format_to(std::back_inserter(out_), R"({{"ph":"C","pid":{},"name":"{}","ts":{:.3f},"args":{{{}}}}})", kSteps,
                   what, us(begin_), args);
  }
  void end_wait(std::uint32_t sequence, Lane& lane) {
    if (lane.waits_since < 0) return;
    event(kSequences, sequence, lane.why, lane.waits_since, std::max(begin_, lane.waits_since), "");
    lane.waits_since = -1;
  }

  void read_span(const StepItem& item, const Lane& lane) {
    const bool is_prompt = item.a < lane.prompt;
    const char* what = item.again() > 0 ? "computed again" : is_prompt ? "prompt" : "decode";
    event(
        kSequences, item.sequence, what, begin_, end_,
        fmt::format(R"("first":{},"rows":{},"again":{},"drafts":{})", item.a, item.rows(), item.again(), item.detail));
  }

  void read(const StepItem& item) {
    if (item.kind == Kind::kIdle) return;
    Lane& lane = lanes_[item.sequence];
    switch (item.kind) {
      case Kind::kArrival:
        lane.prompt = item.a;
        lane.waits_since = begin_;
        break;
      case Kind::kWait:
        lane.why = fmt::format("waits: {}", name_of(static_cast<WaitReason>(item.a)));
        break;
      case Kind::kAdmission:
        end_wait(item.sequence, lane);
        if (item.a > 0) {
          event(kSequences, item.sequence, (item.flags & StepItem::kSwapped) != 0 ? "swapped in" : "from the cache",
                begin_, begin_, fmt::format(R"("tokens":{})", item.a));
        }
        break;
      case Kind::kPreemption:
        event(kSequences, item.sequence, (item.flags & StepItem::kSwapped) != 0 ? "swapped out" : "preempted", begin_,
              begin_, fmt::format(R"("tokens":{})", item.a));
        lane.waits_since = begin_;
        lane.why = "waits: preempted";
        break;
      case Kind::kSpan:
        read_span(item, lane);
        break;
      case Kind::kEnd:
        end_wait(item.sequence, lane);
        lanes_.erase(item.sequence);
        break;
      default:
        break;
    }
  }

  std::string out_;
  std::int64_t begin_ = 0, end_ = 0;
  std::map<std::uint32_t, Lane> lanes_;
};

}  // namespace

std::string chrome_trace(const std::vector<StepRecord>& records) {
  ChromeWriter writer;
  for (const StepRecord& record : records) writer.read(record);
  return writer.text();
}

}  // namespace sluice
