// Stepper: records its steps, and makes the snapshot of its state.
#include <algorithm>
#include <utility>

#include "engine/option_words.h"
#include "engine/step/stepper.h"

namespace sluice {
namespace {

template <class Page>
PoolSnapshot snapshot_of(const Pool<Page>& pool, std::size_t page_bytes) {
  PoolSnapshot snapshot;
  snapshot.pages = pool.total();
  snapshot.used = pool.used();
  snapshot.cached = pool.cached();
  snapshot.page_bytes = static_cast<std::int64_t>(page_bytes);
  const std::int64_t pages = pool.total(), cells = std::min<std::int64_t>(pages, PoolSnapshot::kCells);
  const auto level = [](std::int64_t part, std::int64_t whole) {
    return static_cast<std::uint8_t>((part * 15 + whole - 1) / whole);
  };
  snapshot.cells.reserve(static_cast<std::size_t>(cells));
  for (std::int64_t cell = 0; cell < cells; ++cell) {
    const std::int64_t first = cell * pages / cells, end = (cell + 1) * pages / cells;
    std::int64_t used = 0, shared = 0, cached = 0;
    for (std::int64_t page = first; page < end; ++page) {
      const Page at(static_cast<std::int32_t>(page));
      const int owners = pool.owners(at);
      used += owners == 1;
      shared += owners > 1;
      cached += owners == 0 && pool.inserted(at);
    }
    snapshot.cells.push_back({level(used, end - first), level(shared, end - first), level(cached, end - first)});
  }
  return snapshot;
}

}  // namespace

void Stepper::record(StepItem::Kind kind, const LiveSequence& s, int a, int b, int detail, int flags) {
  if (recorder_ == nullptr) return;
  record_idle();
  recorder_->add({.kind = kind,
                  .flags = static_cast<std::uint8_t>(flags),
                  .detail = static_cast<std::uint16_t>(detail),
                  .sequence = s.number,
                  .a = a,
                  .b = b});
}

// Numbers a sequence that begins to live.
std::uint32_t Stepper::number(SequenceId id) {
  const auto index = static_cast<std::size_t>(id.value);
  numbers_.resize(std::max(numbers_.size(), index + 1));
  return numbers_[index] = recorder_ != nullptr ? recorder_->next_sequence() : 0;
}

// A plan without a row is no step, but replays need it: a sequence that waits for another's prefix counts plans.
void Stepper::record_idle() {
  if (idle_plans_ > 0) recorder_->add({.kind = StepItem::Kind::kIdle, .a = std::exchange(idle_plans_, 0)});
}

void Stepper::record_arrival(const LiveSequence& s, const LiveSequence* again) {
  if (recorder_ == nullptr) return;
  record(StepItem::Kind::kArrival, s, s.counts.prompt_tokens, s.counts.max_tokens, s.answer.choice);
  const RequestId request = s.answer.request != nullptr ? s.answer.request->id : 0;
  record(StepItem::Kind::kRequest, s, static_cast<int>(request), s.counts.priority);
  if (again != nullptr) return record(StepItem::Kind::kAgain, s, static_cast<int>(again->number));
  record_blocks(s, 0);
}

void Stepper::record_blocks(const LiveSequence& s, int first) {
  for (int block = first; block < s.chain->blocks(); ++block) {
    recorder_->add(recorder_->block(s.number, (*s.chain)[block].word()));
  }
}

// Preemptions and admissions are recorded as they are carried out: a sequence that could not be swapped is computed
// again. Sequences that decode are recorded from a dense array (numbers_): otherwise 1,000 of them cost some
// microseconds. The row that chooses a token has never been computed before.
void Stepper::record_plan() {
  record_idle();
  for (const ReasonToWait& wait : plan_.reasons) {
    record(StepItem::Kind::kWait, sequence(wait.sequence), static_cast<int>(wait.reason));
  }
  const auto decode = [this](const Span& span, std::uint64_t* word) {
    if (span.rows != 1 || !span.samples || span.drafts != 0) return false;
    *word = StepRecorder::decode(numbers_[static_cast<std::size_t>(span.sequence.value)], span.first_position);
    return true;
  };
  const std::span<const Span> spans = plan_.spans;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (!state_lost_) {
      i += recorder_->add_decodes(spans.size() - i,
                                  [&](std::size_t j, std::uint64_t* word) { return decode(spans[i + j], word); });
    }
    if (i < spans.size()) record_span(spans[i]);
  }
}

void Stepper::record_span(const Span& span) {
  const LiveSequence& s = sequence(span.sequence);
  if (!s.slot) return;
  const int again = std::clamp(s.reached - span.first_position, 0, span.rows - span.drafts);
  record(StepItem::Kind::kSpan, s, span.first_position, span.rows | (again << 16), span.drafts,
         span.samples ? StepItem::kSamples : 0);
}

void Stepper::close_record() {
  if (recorder_ == nullptr || step_began_ns_ < 0) return;
  const CachePools& pools = runner_->cache().pools();
  StepRecord counts;
  counts.begin_ns = std::exchange(step_began_ns_, -1);
  counts.end_ns = StepRecorder::now_ns();
  counts.rows = plan_.rows;
  counts.running = scheduler_.running();
  counts.waiting = scheduler_.waiting();
  counts.latent_used = pools.latents().used();
  counts.latent_cached = pools.latents().cached();
  counts.window_used = pools.windows().used();
  counts.window_cached = pools.windows().cached();
  counts.slots_used = pools.slots().used();
  counts.swap_bytes = static_cast<std::int64_t>(runner_->cache().swap_space().bytes_used());
  recorder_->close(counts);
}

void Stepper::fill(EngineStats* stats) const {
  const CachePools& pools = runner_->cache().pools();
  *stats = counters_;
  stats->running = scheduler_.running();
  stats->waiting = scheduler_.waiting();
  stats->paused = scheduler_.paused();
  stats->waiting_for = scheduler_.waiting_for();
  stats->cache_bytes_total = static_cast<std::int64_t>(pools.bytes_total());
  stats->cache_bytes_used = static_cast<std::int64_t>(pools.bytes_used());
  stats->swap_bytes_total = static_cast<std::int64_t>(runner_->cache().swap_space().bytes_total());
  stats->swap_bytes_used = static_cast<std::int64_t>(runner_->cache().swap_space().bytes_used());
  CacheStats& cache = stats->cache;
  cache.inserted_blocks = pools.latents().inserted_count();
  cache.evicted_blocks = pools.latents().evicted_count();
  cache.inserted_windows = pools.windows().inserted_count();
  cache.evicted_windows = pools.windows().evicted_count();
  cache.latent_pages_total = pools.latents().total();
  cache.latent_pages_cached = pools.latents().cached();
  cache.latent_pages_used = pools.latents().used();
  cache.window_pages_total = pools.windows().total();
  cache.window_pages_cached = pools.windows().cached();
  cache.window_pages_used = pools.windows().used();
}

SequenceSnapshot Stepper::snapshot(const LiveSequence& s, SequenceId id) const {
  SequenceSnapshot snapshot;
  snapshot.sequence = s.number;
  snapshot.request = s.answer.request != nullptr ? s.answer.request->id : 0;
  snapshot.choice = s.answer.choice;
  snapshot.priority = s.counts.priority;
  snapshot.prompt_tokens = s.counts.prompt_tokens;
  snapshot.tokens = static_cast<int>(s.tokens.size());
  snapshot.cached_tokens = s.cached_tokens;
  if (s.slot) {
    const SequenceState& state = runner_->sequences().state(s.slot);
    snapshot.computed = state.position();
    snapshot.state = snapshot.computed < snapshot.prompt_tokens ? SequenceSnapshot::State::kPrompt
                                                                : SequenceSnapshot::State::kDecoding;
    if (!s.complete && scheduler_.paused(id)) snapshot.state = SequenceSnapshot::State::kPaused;
    snapshot.window_pages = static_cast<int>(state.window_pages().size());
    for (const LatentPage page : state.latent_pages()) snapshot.latent_pages.push_back(page.value);
    return snapshot;
  }
  snapshot.state = s.swapped ? SequenceSnapshot::State::kSwapped : SequenceSnapshot::State::kWaiting;
  snapshot.computed = s.swapped ? s.swapped_position : 0;
  snapshot.reason = scheduler_.wait_reason(id);
  return snapshot;
}

EngineSnapshot Stepper::snapshot() const {
  const CachePools& pools = runner_->cache().pools();
  const SchedulerLimits& limits = scheduler_.limits();
  EngineSnapshot snapshot;
  snapshot.now_ns = StepRecorder::now_ns();
  snapshot.policy = word_of(limits.policy);
  snapshot.most_rows = limits.max_batched_tokens;
  snapshot.most_sequences = limits.max_seqs;
  snapshot.most_tokens = limits.max_model_len;
  snapshot.latents = snapshot_of(pools.latents(), pools.layout().latent_page_bytes());
  snapshot.windows = snapshot_of(pools.windows(), pools.layout().window_page_bytes());
  snapshot.slots = pools.slots().total();
  snapshot.slots_used = pools.slots().used();
  snapshot.slot_bytes = static_cast<std::int64_t>(pools.layout().open_bytes()) * pools.plan().open_states;
  snapshot.swap_bytes = static_cast<std::int64_t>(runner_->cache().swap_space().bytes_total());
  snapshot.swap_bytes_used = static_cast<std::int64_t>(runner_->cache().swap_space().bytes_used());
  for (std::size_t i = 0; i < sequences_.entries().size(); ++i) {
    const LiveSequence& s = sequences_.entries()[i];
    if (s.alive && s.slot) snapshot.sequences.push_back(this->snapshot(s, SequenceId(static_cast<std::int32_t>(i))));
  }
  std::sort(snapshot.sequences.begin(), snapshot.sequences.end(),
            [](const SequenceSnapshot& a, const SequenceSnapshot& b) { return a.sequence < b.sequence; });
  const bool by_priority = limits.policy == SchedulingPolicy::kPriority;
  int best = 0;
  bool first = true;
  for (const SequenceId id : scheduler_.in_order_of_waiting()) {
    SequenceSnapshot one = this->snapshot(sequence(id), id);
    if (std::exchange(first, false)) best = one.priority;
    if (by_priority && one.reason == WaitReason::kQueue && one.priority > best) one.reason = WaitReason::kPriority;
    snapshot.sequences.push_back(std::move(one));
  }
  return snapshot;
}

}  // namespace sluice
