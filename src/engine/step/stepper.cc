// Used by bench, engine, sim, src/bench and verify.
#include "engine/step/stepper.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "cache/pages/retention.h"
#include "engine/engine_options.h"

namespace sluice {
namespace {

// The cost of a preemption, for the choice between swapping and computing again. It is measured once, and only if there
// is a swap space. It changes no bit of any answer.
struct PreemptionCosts {
  double row = 0, page = 0;  // seconds to compute a row, to swap a page
};

PreemptionCosts measure_costs(Runner& runner, const EngineSetup& options) {
  if (options.cache.swap_space == 0) return {};
  constexpr double kMemoryBytesPerSecond = 4e9, kDiskBytesPerSecond = 4e8;
  const int rows = std::min({64, resolve_step_rows(options, runner.limits().step_rows), runner.limits().max_model_len});
  const std::vector<TokenId> ids(static_cast<std::size_t>(rows), 0);
  const Result<StateSlot> slot = runner.sequences().open();
  if (!slot.ok()) return {};
  const StepSpan span{.sequence = *slot, .ids = ids, .logit_rows = {}};
  const auto start = std::chrono::steady_clock::now();
  const Status status = runner.run_step({&span, 1});
  runner.exec().device->wait();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  runner.sequences().close(*slot);
  if (!status.ok()) return {};
  const double speed = options.cache.swap_dir.empty() ? kMemoryBytesPerSecond : kDiskBytesPerSecond;
  return {.row = seconds / rows,
          .page = static_cast<double>(runner.cache().pools().layout().latent_page_bytes()) / speed};
}

constexpr int kSelfTestPages = 1;  // pages of either pool kept back for the self-test (cache/memory_plan.h)

SchedulerLimits limits_of(Runner& runner, const EngineSetup& options) {
  const CachePools& pools = runner.cache().pools();
  const PreemptionCosts costs = measure_costs(runner, options);
  SchedulerLimits limits;
  limits.max_batched_tokens = resolve_step_rows(options, runner.limits().step_rows);
  limits.max_seqs = std::min(pools.plan().sequences, options.scheduler.max_num_seqs);
  limits.max_model_len = runner.limits().max_model_len;
  limits.latent_pages = std::max(0, pools.latents().free() - kSelfTestPages);
  limits.window_pages = std::max(0, pools.windows().total() - kSelfTestPages);
  limits.geometry = pools.geometry();
  limits.long_prefill_token_threshold = options.scheduler.long_prefill_token_threshold;
  limits.chunked_prefill = options.scheduler.enable_chunked_prefill;
  limits.mixed = options.scheduler.enable_mixed_prefill_decode;
  limits.policy = options.scheduler.scheduling_policy;
  limits.recompute_cost_per_row = costs.row;
  limits.swap_cost_per_page = costs.page;
  limits.drafts = {.most = most_drafts(options),
                   .adaptive = options.speculation.speculative_adaptive,
                   .step_seconds = runner.draft_times().rows};
  limits.drafts.seconds[static_cast<std::size_t>(DraftSource::kMtp)] = runner.draft_times().draft;
  if (waits_where_drafts_pay(options, computes_later(runner.exec()))) {
    limits.drafts.wait = runner.draft_times().wait;
    for (double& seconds : limits.drafts.step_seconds) seconds = std::max(seconds / 8, seconds - limits.drafts.wait);
  }
  return limits;
}

}  // namespace

Stepper::Stepper(Runner* runner, const EngineSetup& options)
    : runner_(runner),
      force_preempt_every_(options.testing.force_preempt_every),
      waits_(waits_where_drafts_pay(options, computes_later(runner->exec()))),
      most_drafts_(std::min(most_drafts(options), runner->cache().pools().plan().open_states - 2)),
      model_drafts_(options.speculation.speculative != Speculative::kNgram && runner->model().drafts()),
      copies_drafts_(options.speculation.speculative != Speculative::kMtp),
      scheduler_(limits_of(*runner, options)),
      watched_{.warned = options.testing.random_texts} {}

Stepper::~Stepper() {
  for (std::size_t i = 0; i < sequences_.entries().size(); ++i) {
    if (sequences_.entries()[i].alive) end(SequenceId(static_cast<std::int32_t>(i)));
  }
  if (outstanding()) take();
}

Status Stepper::check(int prompt_tokens, int max_tokens) const {
  SequenceCounts counts;
  counts.prompt_tokens = prompt_tokens;
  counts.max_tokens = max_tokens;
  return scheduler_.check(counts);
}

SequenceId Stepper::enter(LiveSequence given) {
  given.alive = true;
  const SequenceId id = sequences_.reserve();
  given.number = number(id);
  scheduler_.add(id, given.counts);
  sequence(id) = std::move(given);
  return id;
}

SequenceId Stepper::add(NewSequence given) {
  LiveSequence s;
  s.tokens = std::move(given.prompt);
  s.options = given.options != nullptr ? std::move(given.options) : share({});
  const RequestOptions& options = *s.options;
  s.counts = {.prompt_tokens = static_cast<int>(s.tokens.size()),
              .max_tokens = std::max(1, options.max_tokens),  // at least one token is drawn, even if none is asked for
              .priority = options.priority};
  s.answer = given.answer;
  s.logprobs = std::move(given.logprobs);
  s.chain = std::make_unique<BlockChain>(runner_->cache().root(options.cache_salt));
  s.chain->set_kept_blocks(
      blocks_to_keep(runner_->cache().prefix_cache().retention(), s.counts.prompt_tokens, options.message_starts));
  s.count = std::make_shared<PromptCount>();
  if (runner_->cache().prefix_cache().enabled()) s.chain->extend(s.tokens);
  const SequenceId id = enter(std::move(s));
  record_arrival(sequence(id), nullptr);
  for (const Position start : sequence(id).options->message_starts)
    record(StepItem::Kind::kMessage, sequence(id), start);
  return id;
}

// The tokens, what names them and what was promised for them.
LiveSequence Stepper::copy_of_prompt(const LiveSequence& other, const SequenceAnswer& answer) {
  SLUICE_CHECK(other.tokens.size() == static_cast<std::size_t>(other.counts.prompt_tokens) && other.draw < 0,
               "a sequence is copied before its answer begins");
  LiveSequence s;
  s.tokens = other.tokens;
  s.counts = other.counts;
  s.answer = answer;
  s.options = other.options;
  s.chain = std::make_unique<BlockChain>(*other.chain);
  s.count = other.count;
  return s;
}

SequenceId Stepper::add_again(SequenceId other, const SequenceAnswer& answer) {
  const SequenceId id = enter(copy_of_prompt(sequence(other), answer));
  record_arrival(sequence(id), &sequence(other));
  return id;
}

SequenceId Stepper::fork(SequenceId parent_id, const SequenceAnswer& answer) {
  LiveSequence s = copy_of_prompt(sequence(parent_id), answer);
  const SequenceId id = sequences_.reserve();
  if (!scheduler_.fork(parent_id, id, free_latent_pages())) {
    sequences_.release(id);
    return {};
  }
  const LiveSequence& parent = sequence(parent_id);
  const Result<StateSlot> slot = runner_->sequences().fork(parent.slot);
  SLUICE_CHECK(slot.ok(), "the scheduler runs no more sequences than there are states");
  s.alive = true;
  s.cached_tokens = parent.cached_tokens;
  s.rows = parent.rows;
  s.exported = parent.exported;
  s.admitted_before = true;
  s.admitted_at = parent.admitted_at;
  s.slot = *slot;
  s.number = number(id);
  s.reached = parent.reached;
  record(StepItem::Kind::kFork, s, static_cast<int>(parent.number), runner_->sequences().position(s.slot),
         answer.choice);
  sequence(id) = std::move(s);
  return id;
}

void Stepper::end(SequenceId id) {
  LiveSequence& s = sequence(id);
  SLUICE_CHECK(s.alive, "a sequence was ended twice");
  leave_step(s);
  std::replace(drawn_.begin(), drawn_.end(), id, SequenceId());
  const bool delivers_all = runner_->cache().prefix_cache().fault() == Fault::kTokenAfterEnd;
  for (DrawnToken& token : taken_) {
    if (token.id == id && !delivers_all) token.id = {};
  }
  std::replace(failed_.begin(), failed_.end(), id, SequenceId());
  if (!s.complete) scheduler_.end(id);
  if (s.slot) leave(s, runner_->cache().prefix_cache().retention().finished);
  if (s.swapped) runner_->cache().swap_space().drop(s.swapped);
  record(StepItem::Kind::kEnd, s, s.generated(), 0, 0, step_began_ns_ < 0 ? StepItem::kBetween : 0);
  sequences_.release(id);
}

void Stepper::set_paused(SequenceId id, bool paused) {
  if (sequence(id).complete || scheduler_.paused(id) == paused) return;
  scheduler_.set_paused(id, paused);
  record(StepItem::Kind::kPause, sequence(id), paused ? 1 : 0);
}

void Stepper::append(SequenceId id, TokenId token) {
  LiveSequence& s = sequence(id);
  SLUICE_CHECK(s.draw < 0, "a token is appended when it has been taken");
  s.tokens.push_back(token);
  if (s.predicted_next >= 0 && !s.complete) scheduler_.record_prediction(id, s.predicted_by, token == s.predicted_next);
  s.predicted_next = -1;
  if (s.tokens.size() % static_cast<std::size_t>(kBlockTokens) == 0 && runner_->cache().prefix_cache().enabled()) {
    s.chain->extend(s.tokens);
    if (recorder_ != nullptr) record_blocks(s, s.chain->blocks() - 1);
  }
}

Status Stepper::begin_step() {
  SLUICE_CHECK(step_spans_.empty(), "a step is committed before the next begins");
  if (recorder_ != nullptr) step_began_ns_ = StepRecorder::now_ns();
  sampled_.clear();
  failed_.clear();
  if (force_preempt_every_ > 0 && (counters_.steps + 1) % static_cast<std::uint64_t>(force_preempt_every_) == 0) {
    scheduler_.force_preemption();
  }
  drafted_ = false;
  decoded_before_ = decoded_;
  gather_facts();
  plan_ = scheduler_.plan(facts_);
  decoded_ = DecodedRows::of(plan_);
  carry_out_plan();
  blocked_ = plan_.empty() && plan_.preemptions.empty();
  const bool all_wait = blocked_ && scheduler_.paused() > 0;  // such plans are counted, not recorded
  if (recorder_ != nullptr && !all_wait) record_plan();
  idle_plans_ += recorder_ != nullptr && all_wait;
  build_spans();
  if (all_wait) step_began_ns_ = -1;
  if (step_spans_.empty()) {
    SLUICE_CHECK(idle() || !plan_.empty() || !plan_.preemptions.empty() || scheduler_.running() > 0,
                 "what waits with nothing running fits, or was refused");
    return {};
  }
  const Status status = runner_->begin(step_spans_);
  ++counters_.steps;
  if (status.ok()) count_rows();
  if (status.ok()) take_scores();
  if (status.ok()) return {};
  failed_ = step_ids_;
  sampled_.clear();
  for (const SequenceId id : step_ids_) sequence(id).span = -1;
  step_spans_.clear();
  return status;
}

void Stepper::commit() {
  for (std::size_t i = 0; i < step_spans_.size(); ++i) {
    if (!step_ids_[i] || step_spans_[i].draft_count() > 0) continue;  // ended, or left to commit_drafts()
    keep_rows(i, step_spans_[i].rows());
  }
  if (!drafted_) step_spans_.clear();
  scheduler_.completed();
}

void Stepper::keep_rows(std::size_t span, int rows) {
  LiveSequence& s = sequence(step_ids_[span]);
  if (exports(s)) export_rows(s, span, rows);
  runner_->sequences().commit(s.slot, rows, step_spans_[span].chain);
  s.span = -1;
  step_ids_[span] = {};
  if (s.expected_begin < s.expected_end)
    forget_expected_before(s, runner_->sequences().position(s.slot) / kBlockTokens);
}

// The rows of the sequence in the step that was begun are dropped, except drafts that have become its tokens.
void Stepper::leave_step(LiveSequence& s) {
  if (s.span < 0) return;
  const auto span = static_cast<std::size_t>(s.span);
  std::replace(sampled_.begin(), sampled_.end(), step_ids_[span], SequenceId());
  keep_rows(span, step_spans_[span].draft_count() == 0 ? 0 : appended_rows(s));
}

void Stepper::draw(SequenceId id, std::size_t row, const SamplingParams& sampling) {
  SLUICE_CHECK(!outstanding(), "tokens are taken before others are drawn");
  LiveSequence& s = sequence(id);
  SLUICE_CHECK(s.slot && s.draw < 0, "a sequence that runs gets one token from a step");
  s.draw = static_cast<int>(drawn_.size());
  const auto drafts = static_cast<std::size_t>(draft_count(id));
  for (std::size_t i = 0; i <= drafts; ++i) {
    drawn_.push_back(id);
    const std::int32_t slot = drafts > 0 ? -1 : s.slot.value;  // the device cannot know the last right draft
    draw_rows_.push_back(sample_row(sampling, row + i, static_cast<Position>(s.tokens.size() + i), slot));
  }
}

void Stepper::send() {
  if (drawn_.empty()) return;
  make_masks();
  runner_->logits().draw(draw_rows_);
  draw_rows_.clear();
  for (const SequenceId id : drawn_) {
    if (!id) continue;  // the sequence has ended
    LiveSequence& s = sequence(id);
    if (s.span >= 0 || s.generated() + 1 < s.counts.max_tokens) continue;
    scheduler_.end(id);
    leave(s, runner_->cache().prefix_cache().retention().finished);
    s.complete = true;
  }
}

std::span<const DrawnToken> Stepper::take() {
  const std::span<const SampledRow> rows = runner_->logits().finish();
  taken_.clear();
  for (std::size_t i = 0; i < rows.size();) {
    const SequenceId id = drawn_[i];
    if (id) sequence(id).draw = -1;
    if (!id || sequence(id).span < 0) {
      taken_.push_back({.id = id, .row = &rows[i], .bound = &statuses_[i]});
      ++i;
      continue;
    }
    const std::span<const TokenId> drafts = runner_->drafts(static_cast<std::size_t>(sequence(id).span));
    const std::size_t right = right_drafts(drafts, rows.subspan(i));
    if (!drafts.empty()) count_drafts(sequence(id).source, drafts.size(), right);
    for (std::size_t j = 0; j <= drafts.size(); ++j, ++i) {
      const bool drafted = j < right;
      taken_.push_back({.id = j <= right ? id : SequenceId(),
                        .row = &rows[i],
                        .bound = &statuses_[i],
                        .drafted = drafted,
                        .predicted = drafted && sequence(id).predicted});
    }
  }
  drawn_.clear();
  return taken_;
}

void Stepper::carry_out_plan() {
  state_lost_ = false;
  for (const Preemption& preemption : plan_.preemptions) preempt(preemption);
  for (const Admission& admission : plan_.admissions) expect_blocks(sequence(admission.sequence));
  for (const SequenceId id : plan_.waits) wait_for_blocks(sequence(id));
  // Cached pages are claimed before anything is allocated, which might evict them.
  for (const Admission& admission : plan_.admissions) {
    if (!admission.restore) resume(admission.sequence);
  }
  for (const Admission& admission : plan_.admissions) {
    if (admission.restore) restore(admission.sequence);
  }
}

void Stepper::build_spans() {
  step_spans_.clear();
  step_ids_.clear();
  row_indices_.clear();
  logits_rows_.clear();
  drafts_.clear();
  score_requests_.clear();
  const auto rows = static_cast<std::size_t>(plan_.rows);  // an upper bound: pointers into these stay valid
  row_indices_.reserve(rows);
  drafts_.reserve(rows);
  score_requests_.reserve(rows);
  for (const Span& span : plan_.spans) {
    LiveSequence& s = sequence(span.sequence);
    if (!s.slot) continue;  // its state was lost while it was swapped in
    SLUICE_CHECK(runner_->sequences().position(s.slot) == span.first_position,
                 "a sequence is where the scheduler thinks it is");
    s.span = static_cast<int>(step_spans_.size());
    s.source = span.source;
    step_ids_.push_back(span.sequence);
    const int known_rows = span.rows - span.drafts;
    const bool newest = span.first_position + known_rows > static_cast<Position>(s.tokens.size());
    SLUICE_CHECK(!newest || s.draw >= 0, "the tokens of a span are known, but for one that is on its way");
    if (span.samples) {
      sampled_.push_back(span.sequence);
      logits_rows_.push_back(row_indices_.size());
    }
    step_spans_.push_back({.sequence = s.slot,
                           .ids = std::span(s.tokens).subspan(static_cast<std::size_t>(span.first_position),
                                                              static_cast<std::size_t>(known_rows - newest)),
                           .logit_rows = logit_rows_of(span),
                           .keep = true,
                           .chain = runner_->cache().prefix_cache().enabled() ? s.chain.get() : nullptr,
                           .newest = newest,
                           .scores = scores_of(span),
                           .options = s.options.get()});
    set_drafts(span, &step_spans_.back());
    drafted_ |= span.drafts > 0;
  }
}

// Its last row if that one chooses a token, and the rows of its drafts.
std::span<const int> Stepper::logit_rows_of(const Span& span) {
  const std::size_t begin = row_indices_.size();
  for (int row = span.samples ? span.rows - 1 - span.drafts : span.rows; row < span.rows; ++row) {
    row_indices_.push_back(row);
  }
  return std::span(row_indices_).subspan(begin);
}

// The sequence gives back its pages.
void Stepper::leave(LiveSequence& s, bool keep_boundary) {
  forget_expected_before(s, s.expected_end);
  runner_->sequences().close(std::exchange(s.slot, {}), keep_boundary ? s.chain.get() : nullptr);
}

// Tells the prefix cache which blocks an admitted sequence is about to compute.
void Stepper::expect_blocks(LiveSequence& s) {
  if (!runner_->cache().prefix_cache().enabled()) return;
  s.expected_begin = (s.swapped ? s.swapped_position : s.hit.shared) / kBlockTokens;
  s.expected_end = std::max(s.expected_begin, s.chain->blocks());
  runner_->cache().prefix_cache().expect(*s.chain, s.expected_begin, s.expected_end);
}

// Looked up again, now that what this plan admits is expected: the cache remembers the place to resume at.
void Stepper::wait_for_blocks(LiveSequence& s) {
  s.hit = runner_->cache().prefix_cache().lookup(*s.chain, static_cast<Position>(s.tokens.size()), most_resume(s));
  if (!std::exchange(s.waited, true)) ++counters_.cache.shared_waits;
}

void Stepper::forget_expected_before(LiveSequence& s, int block) {
  const int end = std::min(block, s.expected_end);
  if (end <= s.expected_begin) return;
  runner_->cache().prefix_cache().forget_expected(*s.chain, s.expected_begin, end);
  s.expected_begin = end;
}

int Stepper::free_latent_pages() const {
  return std::max(0, runner_->cache().pools().latents().free() - kSelfTestPages);
}

void Stepper::gather_facts() {
  offer_drafts();
  facts_.free_latent_pages = free_latent_pages();
  facts_.swap_bytes = runner_->cache().swap_space().bytes_total() - runner_->cache().swap_space().bytes_used();
  gather(
      &scheduler_, &facts_, [this](SequenceId id) { return look_up(id); },
      [this](SequenceId id) { return leaver(id); });
}

PrefixLookup Stepper::look_up(SequenceId id) {
  LiveSequence& s = sequence(id);
  s.hit = {};
  if (!runner_->cache().prefix_cache().enabled()) return {.sequence = id, .hit = {}};
  if (!s.swapped) {
    s.hit = runner_->cache().prefix_cache().lookup(*s.chain, static_cast<Position>(s.tokens.size()), most_resume(s));
  }
  return {.sequence = id, .hit = s.hit, .next_block = next_block(s)};
}

std::uint64_t Stepper::next_block(const LiveSequence& s) const {
  int block = (s.swapped ? s.swapped_position : s.hit.shared) / kBlockTokens;
  while (s.swapped && block < s.chain->blocks() && runner_->cache().pools().latents().find((*s.chain)[block])) ++block;
  return block < s.chain->blocks() ? (*s.chain)[block].word() : 0;
}

Leaver Stepper::leaver(SequenceId id) const {
  const SequenceState& state = runner_->sequences().state(sequence(id).slot);
  return {.sequence = id, .latent_pages = state.exclusive_latent_pages(), .image_bytes = state.saved_bytes()};
}

}  // namespace sluice
