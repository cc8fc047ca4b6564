// Runner: a model, its cache and its threads, driven step by step by an explicit schedule. It is the one path from
// tokens to logits: the engine's loop, `sluice logits` and the tests of the laws all go through run_step().
//
//   SLUICE_ASSIGN_OR_RETURN(auto runner, Runner::load(options));
//   SLUICE_ASSIGN_OR_RETURN(StateSlot s, runner->sequences().open());
//   const StepSpan span{.sequence = s, .ids = ids, .logit_rows = rows};       // rows of the span, ascending
//   SLUICE_RETURN_IF_ERROR(runner->run_step({&span, 1}));
//   runner->logits().all()  // [rows asked for, in span order; vocab]
//   runner->sequences().close(s);
//
// If a device does the work later (kernels/device/device.h), the next step may be enqueued before a step's tokens are
// known:
//   begin(spans)          enqueues the step; its pages stay reserved
//   sequences().commit(s, rows, ...)  for each span, when its own ids are known: the rows that stay become part of the
//                         sequence, and the blocks that they complete are inserted under names made of those ids. The
//                         ops that compute these are enqueued before any that could read them
//   logits().draw(rows)   chooses tokens from the step's logits
//   logits().finish()     waits for these; the next begin() may come before it, with spans whose newest token is not
//                         known yet
//
// By the row law the logits of a token depend only on its sequence's tokens up to it, never on how they were cut into
// steps. Nothing is allocated once warm. Thread safety: one thread at a time.
// Used by cli, engine, sim, src/bench and verify.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/runner/device_choice.h"
#include "engine/runner/engine_cache.h"
#include "engine/runner/open_sequences.h"
#include "engine/runner/runner_threads.h"
#include "engine/runner/step_logits.h"
#include "engine/runner/step_results.h"
#include "engine/runner/step_span.h"
#include "engine/step/drafts/draft_times.h"
#include "engine/step/drafts/model_drafts.h"
#include "kernels/device/device_tables.h"
#include "kernels/step/step_builder.h"
#include "model/engine_setup.h"
#include "model/model.h"
#include "sluice/status.h"

namespace sluice {

// The bounds of a runner's steps.
struct StepLimits {
  int step_rows = 0;           // the most rows of a step: --max-num-batched-tokens, or the value that 0 stands for
  int max_model_len = 0;       // the most tokens of a sequence
  std::size_t vocab_size = 0;  // ids are below it
};

class Runner {
 public:
  // Loads options.model.folder, with a progress bar on stderr when it is a terminal.
  static Result<std::unique_ptr<Runner>> load(const EngineSetup& options);
  // Takes a model that is already loaded. `kernels` are the kernels that it was loaded with, or null if it uses none;
  // `device` is the one that it was loaded for. Without it the device is the one that the options name.
  static Result<std::unique_ptr<Runner>> create(std::unique_ptr<Model> model, const KernelTable* kernels,
                                                const EngineSetup& options,
                                                std::optional<DeviceChoice> device = std::nullopt);

  // Replaces the model by one of the same cache layout, vocabulary, profile and kernels, while no sequence is open.
  // Pages cached for other weights stay under other names. Returns the previous model.
  std::unique_ptr<Model> replace_model(std::unique_ptr<Model> model, std::string weights_version);
  // Discards every sequence and page and begins anew. This is sound even after a failed audit.
  Status clear_cache();

  // Computes the spans, each of a different sequence, in one batch. On an error nothing has changed:
  //   kInvalidArgument    no spans, an empty span, a sequence that is closed or named twice, an id outside the
  //                       vocabulary, logit_rows out of order, a sequence longer than limits().max_model_len
  //   kResourceExhausted  the pools are short of pages
  //   kUnavailable        a file of the weights has changed, maybe while the step was computed
  Status run_step(std::span<const StepSpan> spans, const Observer* observer = nullptr);
  // Does the same without its end: it does not check the files of the weights and does not commit. Each span stays
  // reserved until OpenSequences::commit(). Ignores `keep` and
  // `chain` of the spans.
  Status begin(std::span<const StepSpan> spans, const Observer* observer = nullptr);
  // The drafts of one span of the step begun last. If the model makes them, the call waits for them.
  std::span<const TokenId> drafts(std::size_t span);
  // Sets the observer of steps that are given none; null: none. It must outlive them.
  void watch(const Observer* observer) { observer_ = observer; }
  // For measurements: a state that no forward pass computed. `write` fills the pages of the sequence's next `rows`
  // rows, and its open state becomes the one before the first token. Fails as run_step() does for memory and length.
  Status fill(StateSlot sequence, int rows, const std::function<void(const BatchSpan&, CacheMemory&)>& write);

  // The results of the step begun last.
  StepLogits& logits() { return logits_; }
  StepResults& results() { return results_; }

  OpenSequences& sequences() { return sequences_; }
  const OpenSequences& sequences() const { return sequences_; }
  EngineCache& cache() { return cache_; }
  const EngineCache& cache() const { return cache_; }
  RunnerThreads& threads() { return threads_; }
  // For the Stepper, from who measured them; the runner itself uses none.
  DraftTimes& draft_times() { return draft_times_; }

  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  // The report of the model's load. Its weights_version is that of the model that computes now; "": unknown, as it came
  // without a checkpoint.
  const LoadReport& load_report() const { return load_report_; }
  // The files that its results depend on; null: there are none, or a device has all of them in its own memory.
  std::shared_ptr<ServedFiles> files() const { return computes_later(exec_) ? nullptr : model_->files(); }
  const EngineSetup& options() const { return options_; }
  // Its device is never null. Once the device's status is not ok, nothing that it computed can be trusted, so a caller
  // must check this before it uses tokens or logits.
  const Exec& exec() const { return exec_; }
  const StepLimits& limits() const { return limits_; }
  void set_step_rows(int rows) { limits_.step_rows = rows; }  // no more than before

 private:
  Runner() = default;
  Status set_up(const EngineSetup& options);
  Result<std::size_t> cache_budget(const EngineSetup& options);
  void name_chains();
  Status prepare_for(int rows);
  // runner_checks.cc
  Status check(std::span<const StepSpan> spans);
  Status check_span(const StepSpan& span) const;
  Status check_rows(const StepSpan& span) const;
  bool makes_drafts(const StepSpan& span) const;
  Status reserve(std::span<const StepSpan> spans);
  const StepTables& tables_of(std::span<const StepSpan> spans);
  void make_drafts(std::span<const StepSpan> spans);
  struct SpoiledRow {
    CacheMemory::Rows at;
    std::vector<std::byte> before;
  };
  // Deliberate faults (runner_faults.cc).
  std::vector<SpoiledRow> inject_before_pass();
  void inject_after_pass(std::span<const SpoiledRow> spoiled);
  std::vector<SpoiledRow> rows_to_spoil() const;
  CacheMemory::Rows row_at(std::size_t plane, const BatchSpan& span, Position p) const;
  void forget_residuals();
  void move_rows_to_residuals();

  Exec exec_;
  RunnerThreads threads_{&exec_};
  std::unique_ptr<Device> owned_device_;  // declared before everything that has memory of it
  std::unique_ptr<Model> model_;
  EngineCache cache_;
  OpenSequences sequences_{&cache_};
  EngineSetup options_;
  MemoryPlan plan_;
  LoadReport load_report_;
  StepLimits limits_;
  DraftTimes draft_times_;
  std::vector<std::uint64_t> in_step_;  // by StateSlot: the last step that named it
  std::uint64_t step_ = 0;
  const Observer* observer_ = nullptr;
  int prepared_rows_ = 0;

  StepBuilder builder_;
  std::vector<BatchSpan> spans_;                  // the last step's
  std::vector<std::span<const TokenId>> drafts_;  // drafts that the spans were given
  std::vector<int> request_of_;                   // by span, its index in requests_; -1: no model drafts
  ModelDrafts model_drafts_;
  std::vector<DraftRequest> requests_;
  std::vector<int> wanted_rows_;  // a span's
  DeviceTables device_tables_;    // unused on the CPU, whose tables are the builder's
  StepLogits logits_{&exec_};
  StepResults results_{&exec_};
};

}  // namespace sluice
