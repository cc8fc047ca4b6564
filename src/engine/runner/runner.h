// Runner: a model, its cache and its threads, driven step by step by an explicit schedule. It is the one path from
// tokens to logits: the engine's loop, `sluice logits` and the tests of the laws all go through run_step().
//
//   SLUICE_ASSIGN_OR_RETURN(auto runner, Runner::load(options));
//   SLUICE_ASSIGN_OR_RETURN(StateSlot s, runner->open());
//   const StepSpan span{.sequence = s, .ids = ids, .logit_rows = rows};       // rows of the span, ascending
//   SLUICE_RETURN_IF_ERROR(runner->run_step({&span, 1}));
//   runner->logits()  // [rows asked for, in span order; vocab]
//   runner->close(s);
//
// If a device does the work later (kernels/device/device.h), the next step may be enqueued before a step's tokens are
// known:
//   begin(spans)          enqueues the step; its pages stay reserved
//   commit(s, rows, ...)  for each span, when its own ids are known: the rows that stay become part of the sequence,
//                         and the blocks that they complete are inserted under names made of those ids. The ops that
//                         compute these are enqueued before any that could read them
//   draw(rows)            chooses tokens from the step's logits
//   finish()              waits for these; the next begin() may come before it, with spans whose newest token is not
//                         known yet
//
// The prefix cache works through BlockChain: resume() adopts the pages that a lookup found, and spans that carry their
// chain insert the blocks that they complete. fork, truncate, swap_out and swap_in do what SequenceState's functions
// do. By the row law the logits of a token depend only on its sequence's tokens up to it, never on how they were cut
// into steps. Nothing is allocated once warm. Thread safety: one thread at a time.
// Used by cli, engine, sim, src and verify.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads/thread_pool.h"
#include "cache/cache_pools.h"
#include "cache/pages/swap_space.h"
#include "cache/prefix_cache.h"
#include "cache/sequence_state.h"
#include "engine/runner/device_choice.h"
#include "engine/step/drafts/model_drafts.h"
#include "engine/step/sampler.h"
#include "kernels/device/device_tables.h"
#include "kernels/step/step_builder.h"
#include "model/engine_setup.h"
#include "model/model.h"
#include "sluice/request_options.h"
#include "sluice/status.h"

namespace sluice {

// A row of a span whose logits judge a known token: the next one of the sequence.
struct ScoreRequest {
  int row = 0;                // within the span
  TokenId token = 0;          // the token whose log-probability is asked for
  int top_logprobs = 0;       // also the log-probabilities of this many best tokens
  bool distribution = false;  // also the log-probabilities of all tokens
};

// The answer to a ScoreRequest; `logprobs` are what the sampler would report (kernels/ops/sample.h).
struct RowScore {
  SampledRow logprobs;
  int rank = 0;                          // the token's rank among all: 1 + the tokens ranked before it
  std::vector<float> distribution = {};  // [vocab], each bit for bit as `logprobs` would have it
};

// The choices of one layer in a step, for all rows of the step.
struct ExportedLayer {
  int layer = 0, width = 0, tokens_per_row = 0;
  bool all = false;                  // entries: every row sees all entries
  std::vector<std::int32_t> values;  // [rows, width]
  std::vector<std::int32_t> counts;  // entries: [rows], the number of each row's values
};

// The next ids.size() tokens of a sequence, and the rows whose logits are wanted.
struct StepSpan {
  StateSlot sequence;
  std::span<const TokenId> ids;          // at least one, or `newest`
  std::span<const int> logit_rows;       // indices of its rows, ascending
  bool keep = true;                      // false: computed, then forgotten; the sequence stays where it was
  const BlockChain* chain = nullptr;     // the sequence's chain: complete blocks are inserted
  bool newest = false;                   // one more row: the token that was drawn for the sequence last
  std::span<const TokenId> drafts = {};  // guesses at the next tokens: the last rows; commit() may keep some
  int model_drafts = 0;                  // instead: the number that Model::draft() makes, drawn with `sampling`
  const SamplingParams* sampling = nullptr;
  std::span<const ScoreRequest> scores = {};  // by row, ascending
  const RequestOptions* options = nullptr;    // the request's, constant while the step runs; null: the defaults

  int draft_count() const { return static_cast<int>(drafts.size()) + model_drafts; }
  int rows() const { return static_cast<int>(ids.size()) + newest + draft_count(); }
};

class Runner {
 public:
  // Loads options.model.folder, with a progress bar on stderr when it is a terminal.
  static Result<std::unique_ptr<Runner>> load(const EngineSetup& options);
  // Takes a model that is already loaded. `kernels` are the kernels that it was loaded with, or null if it uses none.
  // The second form also takes the device that it was loaded for.
  static Result<std::unique_ptr<Runner>> create(std::unique_ptr<Model> model, const KernelTable* kernels,
                                                const EngineSetup& options);
  static Result<std::unique_ptr<Runner>> create(std::unique_ptr<Model> model, const KernelTable* kernels,
                                                const EngineSetup& options, DeviceChoice device);

  // The bytes of a device's memory that the cache leaves for logits, and for the driver and small things.
  static std::size_t logits_memory(std::size_t rows, std::size_t vocab) { return 2 * rows * vocab * sizeof(float); }
  static constexpr std::size_t kLeftOnDevice = std::size_t{512} << 20;

  // A new, empty sequence. kResourceExhausted when max_num_seqs (and one more) are open.
  Result<StateSlot> open();
  // Closes the sequence. If its chain is given, the boundary after its last full block stays cached (the next turn
  // resumes there).
  void close(StateSlot sequence, const BlockChain* keep_last = nullptr);
  // Lets an empty sequence begin with the pages that the lookup found. To be called right after the lookup.
  void resume(StateSlot sequence, const BlockChain& chain, const PrefixHit& hit);
  // Fails like open().
  Result<StateSlot> fork(StateSlot sequence);
  Position truncate(StateSlot sequence, Position p, const BlockChain* chain);
  // Replaces the model by one of the same cache layout, vocabulary, profile and kernels, while no sequence is open.
  // Pages cached for other weights stay under other names. Returns the previous model.
  std::unique_ptr<Model> replace_model(std::unique_ptr<Model> model, std::string weights_version);
  // The version of the weights that goes into the names of blocks; "": unknown, as the model came without a checkpoint.
  const std::string& weights_version() const { return weights_version_; }
  const EngineSetup& options() const { return options_; }
  // Discards every sequence and page and begins anew. This is sound even after a failed audit.
  Status clear_cache();
  // For tests of short memory: opens a sequence that computes nothing and holds all latent pages except this many.
  Result<StateSlot> occupy_all_but(int latent_pages);
  // Moves the state to the swap space and closes the sequence. Changes nothing on an error.
  Result<SwapHandle> swap_out(StateSlot sequence);
  // Opens a sequence of `position` tokens from the swap space. On an error the image is gone as well, and the tokens
  // have to be computed again.
  Result<StateSlot> swap_in(SwapHandle image, Position position, const BlockChain* chain);
  Position position(StateSlot sequence) const { return states_[index(sequence)].position(); }

  // Computes the spans, each of a different sequence, in one batch. On an error nothing has changed:
  //   kInvalidArgument    no spans, an empty span, a sequence that is closed or named twice, an id outside the
  //                       vocabulary, logit_rows out of order, a sequence longer than max_model_len()
  //   kResourceExhausted  the pools are short of pages
  //   kUnavailable        a file of the weights has changed, maybe while the step was computed
  Status run_step(std::span<const StepSpan> spans, const Observer* observer = nullptr);
  // Does the same without committing: each span stays reserved until commit(). Ignores `keep` and `chain` of the spans.
  Status begin(std::span<const StepSpan> spans, const Observer* observer = nullptr);
  // The drafts of one span of the step begun last. If the model makes them, the call waits for them.
  std::span<const TokenId> drafts(std::size_t span);
  // The answers of the step begun last to the `scores` of its spans, in their order; valid until the next step. Their
  // logits are computed a tile at a time, kScoreBytes at most, and are not kept.
  std::span<const RowScore> scores() const { return scores_; }
  std::span<RowScore> scores() { return scores_; }  // for moving out of: distributions are large
  // The exports of the step begun last, for all its rows, if one of its spans wanted them; valid until the next step.
  std::span<const ExportedLayer> exported_experts() const { return {experts_.data(), experts_count_}; }
  std::span<const ExportedLayer> exported_entries() const { return {entries_.data(), entries_count_}; }
  // For tests: limits a tile to this many rows; 0: as many as there is memory for.
  void set_score_rows(int rows) { score_rows_limit_ = rows; }
  static constexpr std::size_t kScoreBytes = std::size_t{32} << 20;  // once on the device, and once on the host if that
                                                                     // is another
  // Keeps the first `rows` rows of the sequence's span: none, or all except some of its drafts.
  void commit(StateSlot sequence, int rows, const BlockChain* chain = nullptr);
  // Enqueues draws. SampleRow::row is a row of the logits of the step begun last, and slot is the sequence's, as
  // sample_row() sets them.
  void draw(std::span<const SampleRow> rows);
  bool draws_outstanding() const { return draws_.outstanding(); }
  // Waits for the drawn tokens; they are valid until the next draw().
  std::span<const SampledRow> finish() { return draws_.take(); }
  // Copies the logits of the step begun last to `to`, which has room for them. The copy is complete once later draws
  // are finished.
  void fetch_logits(std::span<float> to);
  // Sets the observer of steps that are given none; null: none. It must outlive them.
  void watch(const Observer* observer) { observer_ = observer; }
  // For measurements: a state that no forward pass computed. `write` fills the pages of the sequence's next `rows`
  // rows, and its open state stays as before the first token. Fails as run_step() does for memory and length.
  Status fill(StateSlot sequence, int rows, const std::function<void(const BatchSpan&, CacheMemory&)>& write);
  // The logits of the last step: [rows that were asked for, vocab], in span order. Waits for them and fetches them
  // once.
  std::span<const float> logits() const;
  std::span<const float> logits(std::size_t row) const { return logits().subspan(row * vocab_size(), vocab_size()); }

  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  const CachePools& pools() const { return *pools_; }
  PrefixCache& prefix_cache() { return *prefix_cache_; }
  const PrefixCache& prefix_cache() const { return *prefix_cache_; }
  SwapSpace& swap_space() { return *swap_space_; }
  const SwapSpace& swap_space() const { return *swap_space_; }
  // The name with which every chain of this model and profile begins.
  BlockHash root(std::string_view cache_salt) const;
  const SequenceState& state(StateSlot sequence) const { return states_[index(sequence)]; }
  const Exec& exec() const { return exec_; }
  // The device's status: not ok once it has broken down. Then nothing that it computed can be trusted, so a caller must
  // check this before it uses tokens or logits.
  Status device_status() const { return device_->status(); }
  // The files that its results depend on; null: there are none, or a device has all of them in its own memory.
  std::shared_ptr<ServedFiles> files() const { return computes_later() ? nullptr : model_->files(); }
  // Waits until all steps are computed, for measuring times.
  void wait() const { device_->wait(); }
  // True if a step may still be running when begin() has returned.
  bool computes_later() const { return device_ != &cpu_device(); }
  int threads() const { return pool_->threads(); }
  void set_threads(int threads);  // >= 1; changes no bit of any result
  // Pins each thread to a core of its own, if there are as many (base/threads/cpu_topology.h); set_threads() ends that.
  void pin_threads();
  // Pins the calling thread, which must be the one that calls run_step(), to the core left for it.
  void pin_caller() const;
  // [rows - 1]: about the seconds that a step of `rows` rows takes, as far as they were measured; empty: not measured.
  const std::vector<double>& row_seconds() const { return row_seconds_; }
  void set_row_seconds(std::vector<double> seconds) { row_seconds_ = std::move(seconds); }
  // About how many seconds longer a step takes if the next one is enqueued only once its tokens are known.
  double wait_seconds() const { return wait_seconds_; }
  void set_wait_seconds(double seconds) { wait_seconds_ = seconds; }
  // About the seconds that one draft by the model takes; 0: not measured.
  double draft_seconds() const { return draft_seconds_; }
  void set_draft_seconds(double seconds) { draft_seconds_ = seconds; }
  // The most rows of a step: --max-num-batched-tokens, or the value that 0 stands for.
  int step_rows() const { return step_rows_; }
  void set_step_rows(int rows) { step_rows_ = rows; }  // no more than before
  std::size_t vocab_size() const { return vocab_size_; }
  int max_model_len() const { return max_model_len_; }
  const char* isa_name() const;
  const LoadReport& load_report() const { return load_report_; }
  // Checks the laws of conservation and publication (cache/audit.h).
  Status audit() const;

 private:
  Runner() = default;
  Status set_up(const EngineSetup& options);
  Result<std::size_t> cache_budget(const EngineSetup& options);
  Status take_logits_memory(std::size_t rows);
  Status prepare_for(int rows);
  static std::size_t index(StateSlot slot) { return static_cast<std::size_t>(slot.value); }
  Status check(std::span<const StepSpan> spans);
  Status check_span(const StepSpan& span);
  Status reserve(std::span<const StepSpan> spans);
  const StepTables& tables_of(std::span<const StepSpan> spans);
  void make_drafts(std::span<const StepSpan> spans);
  Status plan_scores(std::span<const StepSpan> spans);
  void plan_exports(std::span<const StepSpan> spans);
  void fetch_ints(const std::int32_t* from, std::size_t count, std::vector<std::int32_t>* to);
  void score_tile(int first, int rows);
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
  bool makes_drafts(const StepSpan& span) const;

  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Device> owned_device_;  // declared before everything that has memory of it
  Device* device_ = &cpu_device();
  Exec exec_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<CachePools> pools_;
  std::unique_ptr<PrefixCache> prefix_cache_;
  std::unique_ptr<SwapSpace> swap_space_;
  EngineSetup options_;
  MemoryPlan plan_;
  mutable std::uint64_t audits_ = 0;
  LoadReport load_report_;
  std::string weights_version_;
  std::size_t vocab_size_ = 0;
  int max_model_len_ = 0;
  std::vector<SequenceState> states_;   // by StateSlot
  std::vector<std::uint64_t> in_step_;  // by StateSlot: the last step that named it
  std::uint64_t step_ = 0;
  const Observer* observer_ = nullptr;
  int step_rows_ = 0, prepared_rows_ = 0;
  std::vector<double> row_seconds_;
  double draft_seconds_ = 0, wait_seconds_ = 0;
  std::vector<int> cpus_;    // cores of the pinned threads, the caller's first; empty: none
  std::vector<int> usable_;  // all cores of this process, once threads are pinned

  StepBuilder builder_;
  std::vector<BatchSpan> spans_;                  // the last step's
  std::vector<std::span<const TokenId>> drafts_;  // drafts that the spans were given
  std::vector<int> request_of_;                   // by span, its index in requests_; -1: no model drafts
  ModelDrafts model_drafts_;
  std::vector<DraftRequest> requests_;
  std::size_t logit_count_ = 0;
  StepExports exports_;
  std::vector<ScoreRequest> wanted_scores_;  // the step's
  std::vector<RowScore> scores_;
  std::vector<SampleRow> score_rows_;
  std::vector<SampledRow> scored_;
  std::vector<std::uint32_t> score_masks_;
  std::vector<int> wanted_rows_;  // a span's
  DeviceMemory score_tile_;       // the device's; reserved when it is first needed
  std::vector<float> host_tile_;
  int score_rows_limit_ = 0;
  std::vector<ExportedLayer> experts_, entries_;  // the step's are the first:
  std::size_t experts_count_ = 0, entries_count_ = 0;
  DeviceTables device_tables_;  // unused on the CPU, whose tables are the builder's
  DeviceMemory logits_memory_;  // the device's
  TokenDraws draws_;
  mutable std::vector<float> host_logits_;
  mutable bool logits_fetched_ = false;
};

}  // namespace sluice
