// Stepper: the sequences of a Runner under a Scheduler: plan a step, carry it out, take the chosen tokens. The engine's
// loop and the simulator drive the same object; neither sees pages, hashes or preemptions.
//
//   id = stepper.add({...});                              waits
//   BegunStep begun = stepper.begin();                    plans and computes; the objects of step_in_flight.h go on
//   Result<ComputedStep> step = std::move(begun).commit();
//   for (i < step->sampled().size())               row i of runner.logits().all() chooses the next token of
//   sampled()[i]:
//     stepper.append(sampled()[i], token), or stepper.end(sampled()[i], ...) when that was its last
//   std::move(*step).end();                        or: draw() for each, send(), take(), append() or end(), end()
// A span with drafts (docs/speculation.md) has a row of logits for its newest token and for each draft, and a token is
// drawn from each. take() returns these in their order, up to the first that differs from its draft. end() of a
// sequence is allowed at any time, in any state. Thread safety: one thread at a time; check() may be called from any.
// Used by bench, engine, sim, src/bench and verify.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/runner/runner.h"
#include "engine/step/sampler.h"
#include "engine/step/sequence_table.h"
#include "engine/step/step_in_flight.h"
#include "engine/step/step_recorder.h"
#include "model/engine_setup.h"
#include "sched/scheduler.h"
#include "sluice/step_record.h"

namespace sluice {

// Counts of the sequences that have not ended.
struct StepperCounts {
  int running = 0, waiting = 0;
  int paused = 0;        // among the running and the waiting
  bool blocked = false;  // the last step was empty: the waiting need the memory of paused ones
  bool idle() const { return running + waiting == paused; }
};

class Stepper final {
 public:
  // `runner` must outlive the stepper and compute for it alone. The options are valid (engine_options.h). The stepper
  // plans with the latent pages that are free now.
  Stepper(Runner* runner, const EngineSetup& options);
  ~Stepper();

  // Records everything from now on in `recorder`, which must outlive the stepper. Changes no plan.
  void record_in(StepRecorder* recorder) { recorder_ = recorder; }
  // Ends the record of the step that was begun last, with the tokens that have been taken since. Does nothing if no
  // step was begun since the last call.
  void close_record();
  // The present state of the sequences and the memory.
  EngineSnapshot snapshot() const;

  Status check(int prompt_tokens, int max_tokens) const;
  int most_tokens(int prompt_tokens) const { return scheduler_.most_tokens(prompt_tokens); }
  SequenceId add(NewSequence sequence);
  // Adds a sequence with the same prompt as `other`, which has no token of its answer yet.
  SequenceId add_again(SequenceId other, const SequenceAnswer& answer = {});
  // Adds a sequence with the tokens of `parent`, which is among sampled() and has no token of its answer yet, nor one
  // being drawn. The new one shares the cached pages and chooses its first token from the same row of logits. Returns a
  // false id if there is no place or memory for it now: use add_again() then.
  SequenceId fork(SequenceId parent, const SequenceAnswer& answer = {});
  void end(SequenceId id);
  // Pauses a sequence between two steps, or lets it go on. No rows of a paused sequence are computed. It keeps its
  // memory while no other sequence needs it.
  void set_paused(SequenceId id, bool paused);
  void append(SequenceId id, TokenId token);

  // Plans a step and enqueues it. The step before it must be committed, and ended if it had drafts.
  BegunStep begin() { return {this, begin_step()}; }
  // Reports the duration of the last step. took_before() reports the step before it, if the last one was enqueued while
  // that ran: the time from the end of that step's own predecessor until its tokens were known.
  void took(double seconds) { scheduler_.took(decoded_, seconds); }
  void took_before(double seconds) { scheduler_.took(decoded_before_, seconds); }
  // True if the next step should wait for the tokens on their way, as sequences can then have drafts: take() them
  // before its begin(). To be called once a step; ignoring the answer is allowed.
  bool wants_tokens();
  // For tests and measurements: drafts come from `drafter` alone. It writes guesses at the sequence's next tokens and
  // returns their number; -1 leaves that sequence to the other sources.
  using Drafter = std::function<int(SequenceId, std::span<TokenId>)>;
  void draft_by(Drafter drafter) { drafter_ = std::move(drafter); }
  bool outstanding() const { return runner_->logits().draws_outstanding(); }  // a send() without its take()
  std::span<const SequenceId> failed() const { return failed_; }              // false: ended since
  const StepPlan& plan() const { return plan_; }                              // the plan of the last step

  // True if only paused sequences are left; tokens may still be on their way.
  bool idle() const { return counts().idle(); }
  StepperCounts counts() const { return {scheduler_.running(), scheduler_.waiting(), scheduler_.paused(), blocked_}; }
  const SequenceTable& sequences() const { return sequences_; }
  // Returns the rows exported since the last call, for all positions that are computed.
  ExportedRows take_exported(SequenceId id) { return std::exchange(sequence(id).rows, {}); }

  void fill(EngineStats* stats) const;  // the fields that a stepper knows
  // Checks the laws of conservation and publication over everything (cache/audit.h). Checks that every image in the
  // swap space belongs to a sequence, and that the prefix cache expects exactly the blocks that running sequences
  // will compute, each from as many of them.
  // Checks the last plan: no sequence twice, budgets kept. Checks for one sequence, a different one each time, that its
  // hashes are those of its tokens.
  Status audit() const;

 private:
  // The states of a step (step_in_flight.h) call these in their order.
  friend class BegunStep;
  friend class ComputedStep;
  friend class SentStep;
  friend class TakenStep;
  Status begin_step();
  void commit();
  void draw(SequenceId id, std::size_t row, const SamplingParams& sampling);
  void send();
  std::span<const DrawnToken> take();
  void commit_drafts();
  std::span<const TokenId> drafts(SequenceId id) const;
  int draft_count(SequenceId id) const;

  int free_latent_pages() const;
  void gather_facts();
  PrefixLookup look_up(SequenceId id);
  Leaver leaver(SequenceId id) const;
  std::uint64_t next_block(const LiveSequence& s) const;

  struct Masked {  // a sequence with bound tokens: its draws from `draw` on, their masks and biases
    SequenceId id;
    std::size_t draw = 0, rows = 0, mask = 0, bias = 0;
  };
  void gather_masked();
  // The position of the first prompt token that lacks its log-probability; the prompt's end if none does.
  static Position unscored(const LiveSequence& s);
  static Position most_resume(const LiveSequence& s);
  std::span<const ScoreRequest> scores_of(const Span& span);
  void take_scores();
  void export_rows(LiveSequence& s, std::size_t span, int rows);
  static bool exports(const LiveSequence& s) { return s.options->exports(); }
  void make_masks();
  void mask(const Masked& masked);
  Status mask_row(const LiveSequence& s, std::span<std::uint32_t> allowed, SampleRow* row) const;
  std::size_t mask_words() const { return (runner_->limits().vocab_size + 31) / 32; }
  void leave_step(LiveSequence& s);
  int appended_rows(const LiveSequence& s) const;
  void keep_rows(std::size_t span, int rows);
  void carry_out_plan();
  void preempt(const Preemption& preemption);
  void resume(SequenceId id);
  void restore(SequenceId id);
  void build_spans();
  std::span<const int> logit_rows_of(const Span& span);
  void set_drafts(const Span& span, StepSpan* of);
  static std::size_t right_drafts(std::span<const TokenId> drafts, std::span<const SampledRow> rows);
  void count_drafts(DraftSource source, std::size_t drafted, std::size_t right);
  void watch_model(std::size_t drafted, std::size_t right);
  void offer_drafts();
  void offer_drafts(SequenceId id);
  void offer_copies(SequenceId id);
  void offer_proposal(SequenceId id, DraftSource source, int tokens);
  void leave(LiveSequence& s, bool keep_boundary);
  void expect_blocks(LiveSequence& s);
  void wait_for_blocks(LiveSequence& s);
  void forget_expected_before(LiveSequence& s, int block);
  void count_admission(LiveSequence& s);
  void count_rows();
  Status audit_swaps() const;
  Status audit_chain() const;
  Status audit_expected() const;
  SequenceId enter(LiveSequence given);
  // stepper_record.cc
  void record(StepItem::Kind kind, const LiveSequence& s, int a, int b = 0, int detail = 0, int flags = 0);
  void record_arrival(const LiveSequence& s, const LiveSequence* again);
  void record_blocks(const LiveSequence& s, int first);
  void record_plan();
  std::uint32_t number(SequenceId id);
  void record_span(const Span& span);
  void record_idle();
  SequenceSnapshot snapshot(const LiveSequence& s, SequenceId id) const;
  static LiveSequence copy_of_prompt(const LiveSequence& other, const SequenceAnswer& answer);
  LiveSequence& sequence(SequenceId id) { return sequences_[id]; }
  const LiveSequence& sequence(SequenceId id) const { return sequences_[id]; }

  Runner* runner_;
  const int force_preempt_every_;
  const bool waits_;
  const int most_drafts_;
  const bool model_drafts_, copies_drafts_;
  Scheduler scheduler_;
  PlanFacts facts_;
  StepPlan plan_;
  DecodedRows decoded_, decoded_before_;  // the last plan's, the previous plan's
  SequenceTable sequences_;
  std::vector<std::uint32_t> numbers_;  // the number of each sequence, by SequenceId
  std::vector<SequenceId> sampled_, failed_;
  std::vector<StepSpan> step_spans_;
  std::vector<SequenceId> step_ids_;          // the sequences of step_spans_
  std::vector<int> row_indices_;              // holds the logit_rows of step_spans_
  std::vector<TokenId> drafts_;               // holds their drafts
  std::vector<ScoreRequest> score_requests_;  // holds their scores
  std::vector<std::size_t> logits_rows_;      // rows of the logits, by index in sampled_
  bool drafted_ = false, blocked_ = false;
  int asks_after_ = 0;  // for this many steps wants_tokens() makes no estimate
  struct Watched {
    std::size_t drafted = 0, right = 0;
    bool warned = false;
  } watched_;  // drafts of the model since the last check
  Drafter drafter_;
  StepRecorder* recorder_ = nullptr;
  int idle_plans_ = 0;                // plans without a row since the last recorded item
  bool state_lost_ = false;           // this plan restores a sequence whose state was lost
  std::int64_t step_began_ns_ = -1;   // start of the open record; -1: no step was begun since the last
  std::vector<SequenceId> drawn_;     // sequences whose tokens are on their way, or are about to be drawn
  std::vector<SampleRow> draw_rows_;  // by index in drawn_
  std::vector<Masked> masked_;
  std::vector<std::uint32_t> masks_;  // [rows of masked_, words of the vocabulary], until the tokens are taken
  std::vector<float> biases_;         // [rows with drafts and penalties, vocabulary], the same
  std::vector<Status> statuses_;      // by index in drawn_, for taken_
  std::vector<DrawnToken> taken_;
  EngineStats counters_;
  mutable std::uint64_t audits_ = 0;
};

}  // namespace sluice
