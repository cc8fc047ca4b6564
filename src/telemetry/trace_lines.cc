// Used by serve/observe and telemetry.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "telemetry/exports.h"

namespace sluice {
namespace {

constexpr int kTokensOfBlock = 128;

struct Line {
  double ms = 0;
  std::uint64_t step = 0, end_step = 0;
  int prompt = 0, max_tokens = 0, generated = 0, priority = 0, fork_of = -1;
  bool ended = false, between = false;
  std::vector<std::int64_t> ids;
  std::vector<int> messages;
  std::vector<std::uint64_t> pauses;
};

class TraceWriter {
 public:
  void read(const StepRecord& record, std::uint64_t first, std::int64_t began_ns) {
    step_ = record.number - first + idle_;
    told_ = 0;
    ms_ = std::max(ms_, static_cast<double>(record.begin_ns - began_ns) * 1e-6);
    for (const StepItem& item : record.items) read(item);
  }

  std::string text() const {
    std::string out;
    for (const Line& line : lines_) write(line, out);
    return out;
  }

 private:
  using Kind = StepItem::Kind;

  void begin(const StepItem& item) {
    number_of_[item.sequence] = lines_.size();
    Line& line = lines_.emplace_back();
    line.ms = ms_;
    line.step = step_;
  }
  Line* line_of(std::uint32_t sequence) {
    const auto found = number_of_.find(sequence);
    return found == number_of_.end() ? nullptr : &lines_[found->second];
  }
  // The prompt of another one, as far as it is in the records.
  void copy_prompt(Line& line, const Line& other) {
    line.prompt = other.prompt;
    line.priority = other.priority;
    line.messages = other.messages;
    const auto blocks = std::min(other.ids.size(), static_cast<std::size_t>(other.prompt / kTokensOfBlock));
    line.ids.assign(other.ids.begin(), other.ids.begin() + static_cast<std::ptrdiff_t>(blocks));
  }
  void fork(const StepItem& item) {
    const auto parent = number_of_.find(static_cast<std::uint32_t>(item.a));
    if (parent == number_of_.end()) return;
    const std::size_t number = parent->second;
    begin(item);
    Line& line = lines_.back();
    copy_prompt(line, lines_[number]);
    line.max_tokens = lines_[number].max_tokens;
    line.fork_of = static_cast<int>(number);
  }

  void read(const StepItem& item) {
    if (item.kind == Kind::kArrival) {
      begin(item);
      lines_.back().prompt = item.a;
      lines_.back().max_tokens = item.b;
      return;
    }
    if (item.kind == Kind::kFork) return fork(item);
    if (item.kind == Kind::kIdle) {
      idle_ += static_cast<std::uint64_t>(item.a);
      step_ += static_cast<std::uint64_t>(item.a);
      return;
    }
    Line* line = line_of(item.sequence);
    if (line == nullptr) return;  // the request arrived before the record
    switch (item.kind) {
      case Kind::kRequest:
        line->priority = item.b;
        break;
      case Kind::kMessage:
        line->messages.push_back(item.a);
        break;
      case Kind::kAgain:
        if (const Line* other = line_of(static_cast<std::uint32_t>(item.a))) copy_prompt(*line, *other);
        break;
      case Kind::kBlock:
        line->ids.push_back(item.id());
        break;
      case Kind::kPause:
        line->pauses.insert(line->pauses.end(), {step_, told_++});
        break;
      case Kind::kEnd:
        line->ended = true;
        line->generated = item.a;
        line->between = (item.flags & StepItem::kBetween) != 0;
        line->end_step = step_;
        break;
      default:
        break;
    }
  }

  static void write(const Line& line, std::string& out) {
    auto end = std::back_inserter(out);
    const int output = line.ended ? std::max(1, line.generated) : line.max_tokens;
    fmt::format_to(end, R"({{"timestamp":{:.3f},"input_length":{},"output_length":{},"max_tokens":{},"step":{})",
                   line.ms, line.prompt, output, line.max_tokens, line.step);
    if (line.priority != 0) fmt::format_to(end, R"(,"priority":{})", line.priority);
    if (line.fork_of >= 0) fmt::format_to(end, R"(,"fork_of":{})", line.fork_of);
    if (line.between) fmt::format_to(end, R"(,"end_step":{})", line.end_step);
    if (!line.pauses.empty()) fmt::format_to(end, R"(,"pauses":[{}])", fmt::join(line.pauses, ","));
    if (!line.messages.empty()) fmt::format_to(end, R"(,"message_starts":[{}])", fmt::join(line.messages, ","));
    if (!line.ids.empty()) fmt::format_to(end, R"(,"hash_ids":[{}])", fmt::join(line.ids, ","));
    out += "}\n";
  }

  std::uint64_t step_ = 0, idle_ = 0;  // plans without a row count as steps here
  std::uint64_t told_ = 0;             // pauses of this record that were written
  double ms_ = 0;
  std::vector<Line> lines_;
  std::unordered_map<std::uint32_t, std::size_t> number_of_;
};

}  // namespace

std::string trace_lines(const std::vector<StepRecord>& records) {
  TraceWriter writer;
  for (const StepRecord& record : records) writer.read(record, records.front().number, records.front().begin_ns);
  return writer.text();
}

}  // namespace sluice
