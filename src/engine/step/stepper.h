// Stepper: the sequences of a Runner under a Scheduler: plan a step, carry it out, take the chosen tokens. The engine's
// loop and the simulator drive the same object; neither sees pages, hashes or preemptions.
//
//   id = stepper.add({...});                              waits
//   BegunStep begun = stepper.begin();                    plans and computes; the objects of step_in_flight.h go on
//   Result<ComputedStep> step = std::move(begun).settle();
//   for (i < step->sampled().size())               row i of runner.logits() chooses the next token of sampled()[i]:
//     stepper.append(sampled()[i], token), or stepper.end(sampled()[i], ...) when that was its last
//   std::move(*step).end();                        or: draw() for each, send(), take(), append() or end(), end()
// A span with drafts (docs/speculation.md) has a row of logits for its newest token and for each draft, and a token is
// drawn from each; take() has those up to the first that is not its draft, in their order. end() of a sequence is
// allowed at any time, in any state. Thread safety: one thread at a time; check() may be called from any.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/pages/block_chain.h"
#include "engine/runner/runner.h"
#include "engine/step/drafts/copied_drafts.h"
#include "engine/step/ruled_tokens.h"
#include "engine/step/sampler.h"
#include "engine/step/step_in_flight.h"
#include "engine/step/step_recorder.h"
#include "model/engine_setup.h"
#include "sched/scheduler.h"
#include "sluice/step_record.h"

namespace sluice {

// A request with choices that have not ended. Its prompt is in its sequences.
struct PendingRequest {
  RequestId id = 0;
  std::shared_ptr<const RequestOptions> options = {};
  std::function<void(Output)> on_output = {};
  std::vector<SequenceId> choices;  // none: not begun (waiting for the prompt, which choice 0 computes), or ended
  std::vector<bool> ended;
  int unfinished = 0;
  std::shared_ptr<PromptLogprobs> prompt_logprobs = {};  // asked for; complete when the first token is drawn
};

// What a sequence answers: one choice of a request. The stepper only keeps it.
struct SequenceAnswer {
  PendingRequest* request = nullptr;
  int choice = 0;
  SamplingParams sampling;                           // with the choice's own seed
  std::shared_ptr<TokenConstraint> constraint = {};  // its own; null: none
  std::shared_ptr<RuledTokens> ruled = {};           // its own; null: no rules

  // What may come next depends on the tokens before it.
  bool is_bound() const { return constraint != nullptr || ruled != nullptr; }
};

struct NewSequence {
  std::vector<TokenId> prompt;                         // at least one
  std::shared_ptr<const RequestOptions> options = {};  // null: the defaults
  SequenceAnswer answer = {};
  // Filled, from its `start` on, as the prompt is computed; null: not wanted.
  std::shared_ptr<PromptLogprobs> logprobs = {};
};

class Stepper final {
 public:
  // `runner` must outlive it and compute for nobody else. The options are valid (engine_options.h). It plans with the
  // latent pages that are free now.
  Stepper(Runner* runner, const EngineSetup& options);
  ~Stepper();

  // From now on what happens is written down there; it must outlive the stepper. Changes no plan.
  void record_in(StepRecorder* recorder) { recorder_ = recorder; }
  // Ends the record of the step that was begun last, with the tokens that have been taken since. Without effect if none
  // was begun since the last call.
  void close_record();
  // Where everything stands.
  EngineLook look() const;

  Status check(int prompt_tokens, int max_tokens) const;
  int most_tokens(int prompt_tokens) const { return scheduler_.most_tokens(prompt_tokens); }
  SequenceId add(NewSequence sequence);
  // The same prompt again. `other` has no token of its answer yet.
  SequenceId add_again(SequenceId other, const SequenceAnswer& answer = {});
  // A sequence with the tokens of `parent`, which is among sampled() and has no token of its answer yet, nor one being
  // drawn: it shares what is cached and chooses its first token from the same row of logits. A false id if there is no
  // place or memory for it now: use add_again() then.
  SequenceId fork(SequenceId parent, const SequenceAnswer& answer = {});
  void end(SequenceId id);
  // Between two steps: no more rows of it are computed until it goes on. It keeps its memory while nobody needs it.
  void set_paused(SequenceId id, bool paused);
  void append(SequenceId id, TokenId token);

  // Plans a step and enqueues it. The step before it must be settled, and ended if it had drafts.
  BegunStep begin() { return {this, begin_step()}; }
  Result<ComputedStep> step() { return begin().settle(); }
  // The tokens drafted for a sequence in the step, which it waits for, how many, and by whom; none once they are
  // settled.
  std::span<const TokenId> drafts(SequenceId id) const;
  int draft_count(SequenceId id) const;
  DraftSource draft_source(SequenceId id) const { return sequence(id).source; }
  // The last step, with all that belongs to it; or the one before it, behind which the last one was enqueued, from when
  // its own predecessor was done to when its tokens were known.
  void took(double seconds) { scheduler_.took(decoded_, seconds); }
  void took_before(double seconds) { scheduler_.took(decoded_before_, seconds); }
  // Tokens are on their way that the next step should wait for, as sequences can then have drafts: take() them before
  // its begin(). To be asked once a step; not to do it is allowed, too.
  bool wants_tokens();
  // For tests and measurements: drafts come from `drafter` alone, which writes some of the tokens that follow those of
  // the sequence and says how many; -1: it leaves that sequence to the others.
  using Drafter = std::function<int(SequenceId, std::span<TokenId>)>;
  void draft_by(Drafter drafter) { drafter_ = std::move(drafter); }
  bool outstanding() const { return runner_->draws_outstanding(); }  // a send() without its take()
  bool asynchronous() const { return asynchronous_; }             // how the options want it; nothing here depends on it
  std::span<const SequenceId> failed() const { return failed_; }  // false: ended since
  const StepPlan& plan() const { return plan_; }                  // what the last step() did

  // Nothing but what is paused is left to be computed; tokens may still be on their way.
  bool idle() const { return scheduler_.running() + scheduler_.waiting() == scheduler_.paused(); }
  int paused() const { return scheduler_.paused(); }
  // The last step had nothing to do: what waits, waits for the memory of paused ones.
  bool blocked() const { return blocked_; }
  int running() const { return scheduler_.running(); }
  int waiting() const { return scheduler_.waiting(); }
  bool is_swapped(SequenceId id) const { return static_cast<bool>(sequence(id).swapped); }
  const std::vector<TokenId>& tokens(SequenceId id) const { return sequence(id).tokens; }
  int prompt_tokens(SequenceId id) const { return sequence(id).counts.prompt_tokens; }
  int generated(SequenceId id) const { return static_cast<int>(tokens(id).size()) - prompt_tokens(id); }
  SequenceAnswer& answer(SequenceId id) { return sequence(id).answer; }
  // What was exported since the last call, of all positions that are computed.
  ExportedRows take_exported(SequenceId id);
  // Tokens of its prompt that it did not compute, as they were cached; 0 before it was admitted.
  int cached_tokens(SequenceId id) const { return sequence(id).cached_tokens; }
  std::chrono::steady_clock::time_point admitted_at(SequenceId id) const { return sequence(id).admitted_at; }
  Runner& runner() { return *runner_; }

  void fill(EngineStats* stats) const;  // what it knows of them
  void reset_prefix_cache();
  // Checks the laws of conservation and publication over everything (cache/audit.h), that every image in the swap space
  // belongs to a sequence, that the blocks which the prefix cache expects are those that running sequences will
  // compute, the last plan (no sequence twice, budgets kept), and for one sequence, a different one each time, that its
  // hashes are those of its tokens.
  Status audit() const;

 private:
  // Counters of one prompt; all sequences that answer it share them, so that each token counts once.
  struct PromptCount {
    bool admitted = false;
    Position reached = 0;  // the first position that was neither computed nor found in the cache
  };
  struct Sequence {
    bool alive = false;
    std::uint32_t number = 0;  // in records
    Position reached = 0;      // tokens that were computed when it was last preempted
    std::vector<TokenId> tokens;
    SequenceCounts counts;
    SequenceAnswer answer;
    int cached_tokens = 0;
    bool admitted_before = false, waited = false;
    std::chrono::steady_clock::time_point admitted_at{};  // told to the client, and no more
    int span = -1;                                        // of the step that was begun, in step_spans_
    int draw = -1;  // of its next token, which is on its way, in drawn_; those of drafts follow
    // What it may be given to draft in the next step: made anew each time, and never part of its tokens.
    std::array<TokenId, kMostDrafts> proposal{};
    bool predicted = false;                  // the proposal is from the prediction
    DraftSource source = DraftSource::kMtp;  // of the drafts of its span
    TokenId foreseen = -1;                   // the token that is on its way, as somebody would draft it; -1: nobody
    DraftSource foreseen_by = DraftSource::kMtp;
    std::unique_ptr<CopiedDrafts> copies;
    bool complete = false;  // that one is its last: it has left the scheduler and the memory
    StateSlot slot;         // while running
    SwapHandle swapped;     // while its state is in the swap space
    Position swapped_position = 0;
    std::unique_ptr<BlockChain> chain;
    std::shared_ptr<PromptCount> count;             // of the prompt's sequences together
    std::shared_ptr<PromptLogprobs> logprobs;       // of its prompt, so far; null: not wanted
    std::shared_ptr<const RequestOptions> options;  // of its request; never null while alive
    ExportedRows rows;                              // that nobody has taken yet
    Position exported = 0;                          // the first position whose row is still to be exported
    PrefixHit hit;                                  // of the last lookup
    int expected_begin = 0, expected_end = 0;       // blocks that the prefix cache expects from it
  };

  // The states of a step (step_in_flight.h) call these in their order.
  friend class BegunStep;
  friend class ComputedStep;
  friend class SentStep;
  friend class TakenStep;
  Status begin_step();
  void settle();
  void draw(SequenceId id, std::size_t row, const SamplingParams& sampling);
  void send();
  std::span<const DrawnToken> take();
  void settle_drafts();

  int free_latent_pages() const;
  void gather_facts();
  PrefixLookup look_up(SequenceId id);
  Leaver leaver(SequenceId id) const;
  std::uint64_t next_block(const Sequence& s) const;

  struct Masked {  // a sequence whose tokens are bound: its draws from `draw` on, their masks and biases
    SequenceId id;
    std::size_t draw = 0, rows = 0, mask = 0, bias = 0;
  };
  void gather_masked();
  // The first token of the prompt that waits for its log-probability; the prompt's end: none does.
  static Position unscored(const Sequence& s);
  static Position most_resume(const Sequence& s);
  std::span<const ScoreWish> scores_of(const Span& span);
  void take_scores();
  void export_rows(Sequence& s, std::size_t span, int rows);
  static bool exports(const Sequence& s) { return s.options->exports(); }
  void make_masks();
  void mask(const Masked& masked);
  Status mask_row(const Sequence& s, std::span<std::uint32_t> allowed, SampleRow* row) const;
  std::size_t mask_words() const { return (runner_->vocab_size() + 31) / 32; }
  void leave_step(Sequence& s);
  int appended_rows(const Sequence& s) const;
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
  void leave(Sequence& s, bool keep_boundary);
  void expect_blocks(Sequence& s);
  void wait_for_blocks(Sequence& s);
  void forget_expected_before(Sequence& s, int block);
  void count_admission(Sequence& s);
  void count_rows();
  Status audit_swaps() const;
  Status audit_chain() const;
  Status audit_expected() const;
  SequenceId new_id();
  SequenceId enter(Sequence given);
  // stepper_record.cc
  void record(StepItem::Kind kind, const Sequence& s, int a, int b = 0, int detail = 0, int flags = 0);
  void record_arrival(const Sequence& s, const Sequence* again);
  void record_blocks(const Sequence& s, int first);
  void record_plan();
  std::uint32_t number(SequenceId id);
  void record_span(const Span& span);
  void record_idle();
  SequenceLook look(const Sequence& s, SequenceId id) const;
  static Sequence copy_of_prompt(const Sequence& other, const SequenceAnswer& answer);
  Sequence& sequence(SequenceId id) { return sequences_[static_cast<std::size_t>(id.value)]; }
  const Sequence& sequence(SequenceId id) const { return sequences_[static_cast<std::size_t>(id.value)]; }

  Runner* runner_;
  const int force_preempt_every_;
  const bool asynchronous_, waits_;
  const int most_drafts_;
  const bool model_drafts_, copies_drafts_;
  Scheduler scheduler_;
  PlanFacts facts_;
  StepPlan plan_;
  DecodedRows decoded_, decoded_before_;  // of the last plan, of the one before
  std::vector<Sequence> sequences_;       // by SequenceId
  std::vector<std::uint32_t> numbers_;    // the same: Sequence::number
  std::vector<SequenceId> free_ids_;
  std::vector<SequenceId> sampled_, failed_;
  std::vector<StepSpan> step_spans_;
  std::vector<SequenceId> step_ids_;      // of step_spans_
  std::vector<int> row_indices_;          // what step_spans_' logit_rows point into
  std::vector<TokenId> drafts_;           // ... and their drafts
  std::vector<ScoreWish> score_wishes_;   // ... and their scores
  std::vector<std::size_t> logits_rows_;  // of sampled_
  bool drafted_ = false, blocked_ = false;
  int asks_after_ = 0;  // so many steps for which it is not asked whether a wait for tokens pays
  struct Watched {
    std::size_t drafted = 0, right = 0;
    bool warned = false;
  } watched_;  // drafts of the model since it was last looked at
  Drafter drafter_;
  StepRecorder* recorder_ = nullptr;
  int idle_plans_ = 0;                // since the last item
  bool state_lost_ = false;           // of a sequence that this plan restores
  std::int64_t step_began_ns_ = -1;   // of the open record; -1: no step was begun since the last
  std::vector<SequenceId> drawn_;     // whose tokens are on their way, or are about to be sent for
  std::vector<SampleRow> draw_rows_;  // of drawn_
  std::vector<Masked> masked_;
  std::vector<std::uint32_t> masks_;  // [rows of masked_, words of the vocabulary], until the tokens are taken
  std::vector<float> biases_;         // [rows of those with drafts and penalties, vocabulary], the same
  std::vector<Status> statuses_;      // of drawn_, for taken_
  std::vector<DrawnToken> taken_;
  EngineStats counters_;
  mutable std::uint64_t audits_ = 0;
};

}  // namespace sluice
