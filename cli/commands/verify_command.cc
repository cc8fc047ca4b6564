#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/json.hpp>
#include <cstdio>
#include <fstream>
#include <random>
#include <utility>

#include "base/log.h"
#include "base/option_words.h"
#include "base/progress.h"
#include "cli/commands/model_commands.h"
#include "cli/exit_code.h"
#include "cli/model_path.h"
#include "files/json.h"
#include "verify/verify.h"

namespace sluice {
namespace {

std::uint64_t fresh_seed() {
  std::random_device device;
  return device();
}

void print_report(const VerifyReport& report, const VerifyOptions& options) {
  const LawReport& laws = report.laws;
  fmt::print("{}, {} kernels, {} threads, seed {}\n", report.profile, report.isa, report.threads, options.seed);
  fmt::print("{} schedules in {:.1f} s: {} rows compared bit by bit with those of each prompt alone\n", laws.schedules,
             report.seconds, laws.comparisons);
  fmt::print(
      "on the way: {} sequences resumed behind {} cached tokens, {} preemptions recomputed, {} swapped out, {} brought "
      "back, {} forks ({} went on with other tokens), {} truncations, {} aborts ({} while swapped out), {} forgotten "
      "spans, {} drafts ({} rejected, {} made by the model), {} cached pages given to others, {} steps begun before "
      "the tokens of the one before were known, on {} "
      "threads\n",
      laws.hits, laws.resumed_tokens, laws.preemptions, laws.swaps, laws.swaps_restored, laws.forks, laws.forks_apart,
      laws.truncations, laws.aborts, laws.swapped_aborts, laws.forgotten_spans, laws.drafts, laws.drafts_rejected,
      laws.model_drafts, laws.evictions, laws.in_flight, fmt::join(laws.thread_counts, ", "));
  if (laws.constrained > 0) {
    fmt::print(
        "{} tokens of answers with penalties or bans, {} that a grammar binds ({} with a budget of reasoning), {} the "
        "only ones allowed and computed in one span; {} tokens of prompts scored, {} of answers; of {} positions it "
        "was "
        "compared what layers chose ({} experts, {} entries)\n",
        laws.ruled, laws.constrained, laws.budgeted, laws.forced, laws.scored, laws.scored_answers, laws.exported,
        laws.exported_experts, laws.exported_entries);
  }
  if (!report.borders_met.empty()) {
    fmt::print("short sequences alone met the borders of the model: {}\n", fmt::join(report.borders_met, "; "));
  }
  if (!report.borders_beyond.empty()) {
    fmt::print("borders too far for this run, which nothing met: {}\n", fmt::join(report.borders_beyond, "; "));
  }
  if (laws.choosing_rows > 0) {
    fmt::print("in {} of the rows compared, attention chose among its compressed entries\n", laws.choosing_rows);
  } else if (report.chooses_from > 0) {
    fmt::print(
        "attention never chose among its compressed entries: it does from token {} on, which no schedule of "
        "these reached\n",
        report.chooses_from);
  }
  if (report.sound()) {
    fmt::print("no difference\n");
    fmt::print(
        "digest of the logits and tokens: {:016x}; every machine has it for this model, profile, seed and kind of "
        "device\n",
        laws.digest);
  } else {
    fmt::print("A DIFFERENCE: {}", laws.difference->text);
  }
}

Status write_json(const VerifyReport& report, const VerifyOptions& options, const std::string& path) {
  const LawReport& laws = report.laws;
  boost::json::object json;
  json["model"] = options.engine.model.folder;
  json["profile"] = report.profile;
  json["isa"] = report.isa;
  json["threads"] = report.threads;
  json["seed"] = options.seed;
  json["schedules"] = laws.schedules;
  json["half"] = word_of(options.half);
  for (const LawCount& count : kLawCounts) json[count.name] = laws.*count.value;
  json["exported_experts"] = laws.exported_experts;
  json["exported_entries"] = laws.exported_entries;
  json["thread_counts"] = boost::json::array(laws.thread_counts.begin(), laws.thread_counts.end());
  json["borders_met"] = boost::json::array(report.borders_met.begin(), report.borders_met.end());
  json["borders_beyond"] = boost::json::array(report.borders_beyond.begin(), report.borders_beyond.end());
  json["chooses_from"] = report.chooses_from;
  json["differences"] = report.sound() ? 0 : 1;
  if (report.sound()) json["digest"] = fmt::format("{:016x}", laws.digest);
  json["seconds"] = report.seconds;
  if (!report.sound()) {
    json["difference"] = {{"schedule", laws.difference->schedule},
                          {"prompt", laws.difference->prompt},
                          {"position", laws.difference->position},
                          {"first_value", laws.difference->first_value},
                          {"text", laws.difference->text}};
  }
  std::ofstream file(path);
  file << dump_json(json) << "\n";
  file.close();
  return file ? Status() : resource_exhausted(fmt::format("--json {}: cannot be written", path));
}

}  // namespace

int run_verify(const VerifyCommandOptions& given) {
  VerifyOptions options;
  options.engine = given.engine;
  options.half = given.half;
  options.schedules = given.schedules;
  options.seed = given.seed ? *given.seed : fresh_seed();
  if (options.schedules < 1) {
    return report(invalid_argument(fmt::format("--schedules: expected at least 1, found {}", options.schedules)));
  }
  if (given.brief && given.half == VerifyHalf::kMoves) {
    return report(invalid_argument("--brief: is of the other halves, found with --half moves"));
  }
  if (given.brief) options.brief_schedules = std::exchange(options.schedules, 0);
  Result<std::string> folder = resolve_model(given.engine.model);
  if (!folder.ok()) return report(folder.status());
  options.engine.model.folder = *folder;
  Result<VerifyReport> checked = internal_error("not run");
  {
    ProgressBar bar("schedules", ProgressBar::Unit::kItems);
    options.progress = [&bar](int done, int total) {
      bar.update(static_cast<std::size_t>(done), static_cast<std::size_t>(total));
    };
    checked = verify(options);
  }
  if (!checked.ok()) return report(checked.status());
  print_report(*checked, options);
  if (!given.json.empty()) {
    const Status written = write_json(*checked, options, given.json);
    if (!written.ok()) return report(written);
  }
  return checked->sound() ? kExitOk : kExitFailed;
}

}  // namespace sluice
