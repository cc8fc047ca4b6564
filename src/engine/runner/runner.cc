// Used by cli, engine, sim, src and verify.
#include "engine/runner/runner.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/threads/cpu_topology.h"
#include "base/threads/shared_cores.h"
#include "cache/audit.h"
#include "engine/engine_options.h"
#include "kernels/device/device.h"
#include "kernels/device/isa.h"

namespace sluice {
namespace {

// Steps of more rows have work enough to hide what starting their kernels takes.
constexpr int kMostBatchedRows = 256;

Result<int> resolve_max_model_len(int asked, const ModelConfig& config) {
  const int models_own = config.max_position_embeddings;
  if (asked == 0) return models_own;
  if (asked > models_own && config.rope.dynamic) {
    return invalid_argument(
        fmt::format("--max-model-len: expected 1 to {} (config.json: rope type \"dynamic\"), found {}: beyond "
                    "max_position_embeddings each token would change what the ones before it computed",
                    models_own, asked));
  }
  if (asked < 1 || asked > models_own) {
    return invalid_argument(fmt::format(
        "--max-model-len: expected 1 to {}, the model's own limit (0: that limit), found {}", models_own, asked));
  }
  return asked;
}

std::size_t drafts_by_model(std::span<const StepSpan> spans) {
  return static_cast<std::size_t>(std::ranges::count_if(spans, [](const StepSpan& s) { return s.model_drafts > 0; }));
}

Status check_ids(std::span<const TokenId> ids, Position first, std::size_t vocab_size) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && static_cast<std::size_t>(ids[i]) < vocab_size) continue;
    return invalid_argument(fmt::format("token {} of the sequence: expected an id in [0, {}), found {}",
                                        static_cast<std::size_t>(first) + i, vocab_size, ids[i]));
  }
  return {};
}

// For tests of short memory; one page for a sequence and the self-test's own are left.
void hide_latent_pages(int pages, const CacheLayout& layout, MemoryPlan* plan) {
  plan->latent_pages = std::max(std::min(plan->latent_pages, 2), plan->latent_pages - pages);
  plan->latent_bytes = static_cast<std::size_t>(plan->latent_pages) * layout.latent_page_bytes();
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::create(std::unique_ptr<Model> model, const KernelTable* kernels,
                                               const EngineSetup& options) {
  SLUICE_ASSIGN_OR_RETURN(DeviceChoice device, choose_device(options.machine, options.numerics));
  return create(std::move(model), kernels, options, std::move(device));
}

Result<std::unique_ptr<Runner>> Runner::create(std::unique_ptr<Model> model, const KernelTable* kernels,
                                               const EngineSetup& options, DeviceChoice device) {
  std::unique_ptr<Runner> runner(new Runner);
  SLUICE_RETURN_IF_ERROR(validate(options));
  runner->device_ = &device.device();
  runner->owned_device_ = std::move(device.owned);
  runner->exec_.ops = device.ops;
  runner->exec_.device = runner->device_;
  runner->set_threads(resolve_threads(options));
  runner->exec_.kernels = kernels;
  runner->model_ = std::move(model);
  SLUICE_RETURN_IF_ERROR(runner->set_up(options));
  return runner;
}

Status Runner::set_up(const EngineSetup& options) {
  vocab_size_ = static_cast<std::size_t>(model_->config().vocab_size);
  SLUICE_ASSIGN_OR_RETURN(max_model_len_, resolve_max_model_len(options.model.max_model_len, model_->config()));
  step_rows_ = resolve_step_rows(options);
  SLUICE_ASSIGN_OR_RETURN(const std::size_t budget, cache_budget(options));
  const MemoryRequest request{.budget_bytes = budget,
                              .max_seqs = options.scheduler.max_num_seqs,
                              .max_batched_tokens = step_rows_,
                              .max_model_len = max_model_len_,
                              .prefix_caching = options.cache.enable_prefix_caching,
                              .draft_tokens = most_drafts(options)};
  SLUICE_ASSIGN_OR_RETURN(MemoryPlan plan, plan_memory(model_->cache_layout(), request));
  hide_latent_pages(options.testing.hidden_latent_pages, model_->cache_layout(), &plan);
  if (plan.sequences < options.scheduler.max_num_seqs) {
    log_info("--kv-cache-memory holds {} sequences at once, fewer than --max-num-seqs {}", plan.sequences,
             options.scheduler.max_num_seqs);
  }
  SLUICE_RETURN_IF_ERROR(check_unchunked(options, max_model_len_, PageGeometry::of(model_->cache_layout()), plan));
  log_debug("cache: {}", plan.text());
  plan_ = plan;
  options_ = options;
  return clear_cache();
}

// Bytes for the cache. If the device has memory of its own, these are all bytes that weights and scratch leave, except
// for logits and the driver.
Result<std::size_t> Runner::cache_budget(const EngineSetup& options) {
  if (options.cache.kv_cache_memory > 0 || device_->free_bytes() == 0) return resolve_kv_cache_memory(options);
  SLUICE_RETURN_IF_ERROR(model_->prepare(*device_, step_rows_, max_model_len_));
  const std::size_t left = logits_memory(static_cast<std::size_t>(step_rows_), vocab_size_) + kLeftOnDevice;
  const std::size_t free = device_->free_bytes();
  if (free > left) return free - left;
  return resource_exhausted(
      fmt::format("{}: {} are free beside weights and scratch, expected more than {}: lower "
                  "--max-num-batched-tokens or --max-model-len",
                  device_->name(), format_bytes(static_cast<double>(free)), format_bytes(static_cast<double>(left))));
}

Status Runner::clear_cache() {
  const EngineSetup& options = options_;
  builder_ = StepBuilder(model_->cache_layout().table_shape());
  states_.clear();  // before the pools that they point to
  prefix_cache_.reset();
  SLUICE_ASSIGN_OR_RETURN(pools_, CachePools::create(*device_, model_->cache_layout(), plan_));
  SLUICE_ASSIGN_OR_RETURN(const Fault fault, parse_fault(options.testing.inject_fault));
  PrefixCacheOptions caching;
  caching.enabled = options.cache.enable_prefix_caching;
  caching.digests = options.audit;
  caching.fault = fault;
  prefix_cache_ = std::make_unique<PrefixCache>(pools_.get(), caching);
  SLUICE_ASSIGN_OR_RETURN(
      swap_space_, SwapSpace::create(static_cast<std::size_t>(options.cache.swap_space), options.cache.swap_dir));
  exec_.fault_chunk_anchored_splits = fault == Fault::kChunkReduction;
  exec_.fault_future_entries = fault == Fault::kFutureEntries ? 1 + kMostDrafts : 0;
  prepared_rows_ = 0;
  SLUICE_RETURN_IF_ERROR(prepare_for(step_rows_));
  states_ = std::vector<SequenceState>(static_cast<std::size_t>(plan_.sequences) + 1);
  const int sequences = plan_.sequences + 1, drafts = most_drafts(options);
  SLUICE_RETURN_IF_ERROR(draws_.reserve(*device_, sequences, vocab_size_, 1 + drafts,
                                        model_->drafts() ? ModelDrafts::slots(sequences, drafts) : 0));
  if (model_->drafts()) {
    SLUICE_RETURN_IF_ERROR(model_drafts_.reserve(*device_, model_->cache_layout().table_shape(), sequences, drafts,
                                                 static_cast<std::size_t>(blocks_for(max_model_len_))));
  }
  for (SequenceState& state : states_) state.fault_leak = fault == Fault::kLeakedReference;
  in_step_.assign(states_.size(), 0);
  return {};
}

void Runner::set_threads(int threads) {
  device_->wait();                                            // for what the threads are working on
  if (!cpus_.empty()) pin_thread(::pthread_self(), usable_);  // new threads may run where this one may
  pool_ = std::make_unique<ThreadPool>(threads);
  exec_.pool = pool_.get();
  cpus_.clear();
}

void Runner::pin_threads() {
  if (usable_.empty()) usable_ = usable_cpus();
  if (pool_->threads() < 2) return cpus_.clear();
  cpus_ = pinned_cpus(pool_->threads(), computes_later() ? order_cpus(usable_) : known_cpu_order(usable_));
  if (!cpus_.empty()) pool_->pin(cpus_);
}

void Runner::pin_caller() const {
  if (!cpus_.empty()) pin_thread(::pthread_self(), cpus_.front());
}

const char* Runner::isa_name() const {
  return exec_.kernels != nullptr ? sluice::isa_name(*exec_.kernels) : "none";
}

Result<StateSlot> Runner::open() {
  const StateSlot slot = pools_->slots().allocate();
  if (!slot) return resource_exhausted(fmt::format("{} sequences are open, as many as there can be", states_.size()));
  states_[index(slot)].open(pools_.get(), slot);
  return slot;
}

void Runner::close(StateSlot sequence, const BlockChain* keep_last) {
  SequenceState& state = states_[index(sequence)];
  if (keep_last != nullptr && prefix_cache_->enabled()) state.keep_last_boundary(*prefix_cache_, *keep_last);
  state.close();
}

void Runner::resume(StateSlot sequence, const BlockChain& chain, const PrefixHit& hit) {
  states_[index(sequence)].resume(chain, hit);
}

Result<StateSlot> Runner::fork(StateSlot sequence) {
  const StateSlot slot = pools_->slots().allocate();
  if (!slot) return resource_exhausted(fmt::format("{} sequences are open, as many as there can be", states_.size()));
  states_[index(slot)].fork(states_[index(sequence)], slot);
  return slot;
}

Result<StateSlot> Runner::occupy_all_but(int latent_pages) {
  SLUICE_ASSIGN_OR_RETURN(const StateSlot slot, open());
  states_[index(slot)].occupy(std::max(0, pools_->latents().free() - latent_pages));
  return slot;
}

Position Runner::truncate(StateSlot sequence, Position p, const BlockChain* chain) {
  return states_[index(sequence)].truncate(p, chain);
}

Result<SwapHandle> Runner::swap_out(StateSlot sequence) {
  SequenceState& state = states_[index(sequence)];
  if (!swap_space_->has_room(state.saved_bytes())) {
    return resource_exhausted(fmt::format("--swap-space: {} bytes of state do not fit, {} of {} are used",
                                          state.saved_bytes(), swap_space_->bytes_used(), swap_space_->bytes_total()));
  }
  std::vector<std::byte> image(state.saved_bytes());
  state.save(image);
  SLUICE_ASSIGN_OR_RETURN(const SwapHandle handle, swap_space_->store(std::move(image)));
  state.close();
  return handle;
}

Result<StateSlot> Runner::swap_in(SwapHandle handle, Position position, const BlockChain* chain) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::byte> image, swap_space_->take(handle));
  SLUICE_ASSIGN_OR_RETURN(const StateSlot slot, open());
  PrefixCache* cache = chain != nullptr ? prefix_cache_.get() : nullptr;
  if (states_[index(slot)].restore(image, position, cache, chain)) return slot;
  close(slot);
  return resource_exhausted(fmt::format("a state of {} tokens needs more cache pages than are free", position));
}

BlockHash Runner::root(std::string_view cache_salt) const {
  const bool ignored = prefix_cache_->fault() == Fault::kIgnoredSalt;
  const std::string computed_by = model_->profile().text() + "\n" + weights_version_;
  return root_hash(computed_by, ignored ? std::string_view() : cache_salt);
}

std::unique_ptr<Model> Runner::replace_model(std::unique_ptr<Model> model, std::string weights_version) {
  for (const SequenceState& state : states_)
    SLUICE_CHECK(!state.is_open(), "no sequence runs while a model is replaced");
  device_->wait();
  std::swap(model_, model);
  weights_version_ = std::move(weights_version);
  prepared_rows_ = 0;
  const Status prepared = prepare_for(step_rows_);
  SLUICE_CHECK(prepared.ok(), "a model of the same geometry has the memory that the one before had");
  return model;
}

Status Runner::run_step(std::span<const StepSpan> spans, const Observer* observer) {
  SLUICE_RETURN_IF_ERROR(begin(spans, observer));
  const std::shared_ptr<ServedFiles> served = files();
  Status same = served != nullptr ? served->check() : Status();
  for (const StepSpan& span : spans) commit(span.sequence, same.ok() && span.keep ? span.rows() : 0, span.chain);
  return same;
}

Status Runner::begin(std::span<const StepSpan> spans, const Observer* observer) {
  logit_count_ = 0;
  SLUICE_RETURN_IF_ERROR(check(spans));
  int rows = 0;
  std::size_t wanted = 0;
  for (const StepSpan& span : spans) {
    rows += span.rows();
    wanted += span.logit_rows.size();
  }
  SLUICE_RETURN_IF_ERROR(prepare_for(rows));
  SLUICE_RETURN_IF_ERROR(take_logits_memory(std::max(wanted, drafts_by_model(spans))));
  SLUICE_RETURN_IF_ERROR(plan_scores(spans));
  plan_exports(spans);
  SLUICE_RETURN_IF_ERROR(reserve(spans));  // last of what can fail, so that an error leaves nothing reserved
  const FlushDenormals flush;              // as every op does: at once for all of them
  make_drafts(spans);
  const StepTables& tables = tables_of(spans);
  const std::vector<SpoiledRow> spoiled = inject_before_pass();
  model_->set_exports(&exports_);
  const bool batched = rows <= kMostBatchedRows;
  if (batched) device_->begin_batch();
  model_->forward(exec_, tables, pools_->view(), reinterpret_cast<float*>(logits_memory_.data()),
                  observer != nullptr ? observer : observer_);
  if (batched) device_->end_batch();
  model_->set_exports(nullptr);
  if (experts_count_ + entries_count_ > 0) device_->wait();
  inject_after_pass(spoiled);
  return {};
}

void Runner::commit(StateSlot sequence, int rows, const BlockChain* chain) {
  SequenceState& state = states_[index(sequence)];
  if (rows == 0) return state.discard();
  state.commit(rows, chain != nullptr ? prefix_cache_.get() : nullptr, chain);
}

void Runner::draw(std::span<const SampleRow> rows) {
  draws_.send(exec_, reinterpret_cast<const float*>(logits_memory_.data()), vocab_size_, rows);
}

void Runner::fetch_logits(std::span<float> to) {
  SLUICE_CHECK(to.size() >= logit_count_ * vocab_size_, "there is room for the logits");
  if (logit_count_ == 0) return;
  device_->download(
      {reinterpret_cast<std::byte*>(to.data()), logits_memory_.data(), logit_count_ * vocab_size_ * sizeof(float)});
}

// Provides memory for steps of `rows` rows; once warm there is enough.
Status Runner::prepare_for(int rows) {
  if (rows <= prepared_rows_) return {};
  device_->wait();
  SLUICE_RETURN_IF_ERROR(model_->prepare(*device_, rows, max_model_len_));
  if (device_ != &cpu_device()) {
    // Each of the sequences of a step lists the pages of its blocks.
    const auto blocks = static_cast<std::size_t>(blocks_for(max_model_len_));
    const auto spans = static_cast<std::size_t>(std::min(rows, plan_.sequences + 1));
    SLUICE_RETURN_IF_ERROR(
        device_tables_.reserve(*device_, model_->cache_layout().table_shape(),
                               {.rows = rows, .latent_pages = spans * blocks, .window_pages = spans * blocks}));
  }
  prepared_rows_ = rows;
  return {};
}

Status Runner::take_logits_memory(std::size_t rows) {
  logits_fetched_ = false;
  const std::size_t bytes = rows * vocab_size_ * sizeof(float);
  if (bytes <= logits_memory_.size()) return {};
  logits_memory_ = DeviceMemory();
  SLUICE_ASSIGN_OR_RETURN(logits_memory_, device_->map(bytes + bytes / 4, "logits"));
  return {};
}

std::span<const float> Runner::logits() const {
  const auto* on_device = reinterpret_cast<const float*>(logits_memory_.data());
  const std::size_t count = logit_count_ * vocab_size_;
  if (device_ == &cpu_device()) return {on_device, count};
  if (!logits_fetched_ && count > 0) {
    host_logits_.resize(count);
    device_->download(
        {reinterpret_cast<std::byte*>(host_logits_.data()), logits_memory_.data(), count * sizeof(float)});
    device_->wait();
    logits_fetched_ = true;
  }
  return {host_logits_.data(), count};
}

Status Runner::fill(StateSlot sequence, int rows, const std::function<void(const BatchSpan&, CacheMemory&)>& write) {
  const std::vector<TokenId> ids(static_cast<std::size_t>(rows), 0);
  const StepSpan span{.sequence = sequence, .ids = ids, .logit_rows = {}};
  SLUICE_RETURN_IF_ERROR(check({&span, 1}));
  SLUICE_RETURN_IF_ERROR(reserve({&span, 1}));
  SequenceState& state = states_[index(sequence)];
  write(state.span(), pools_->memory());
  pools_->memory().write_initial_state(state.scratch());
  state.commit(rows);
  return {};
}

Status Runner::check(std::span<const StepSpan> spans) {
  if (spans.empty()) return invalid_argument("a step needs at least one span");
  ++step_;
  for (const StepSpan& span : spans) {
    SLUICE_RETURN_IF_ERROR(check_span(span));
    if (in_step_[index(span.sequence)] == step_) {
      return invalid_argument(fmt::format("sequence {} has two spans in one step", span.sequence.value));
    }
    in_step_[index(span.sequence)] = step_;
  }
  return {};
}

Status Runner::check_span(const StepSpan& span) {
  const StateSlot slot = span.sequence;
  if (slot.value < 0 || index(slot) >= states_.size() || !states_[index(slot)].is_open()) {
    return invalid_argument(fmt::format("sequence {} is not open", slot.value));
  }
  if (span.rows() == 0) return invalid_argument(fmt::format("sequence {} has an empty span", slot.value));
  const Position position = states_[index(slot)].position();
  if (span.rows() > max_model_len_ - position) {
    return invalid_argument(
        fmt::format("sequence {} at position {}: {} more tokens exceed the longest sequence, {} tokens", slot.value,
                    position, span.rows(), max_model_len_));
  }
  SLUICE_RETURN_IF_ERROR(check_ids(span.ids, position, vocab_size_));
  const int drafts = span.draft_count();
  SLUICE_RETURN_IF_ERROR(check_ids(span.drafts, position + span.rows() - drafts, vocab_size_));
  if (drafts > plan_.open_states - 2 || drafts == span.rows() || (span.model_drafts > 0 && !makes_drafts(span))) {
    return invalid_argument(
        fmt::format("sequence {}: expected at most {} drafts behind a known token, found {} of {} rows", slot.value,
                    plan_.open_states - 2, drafts, span.rows()));
  }
  int last = -1;
  for (const int row : span.logit_rows) {
    if (row <= last || row >= span.rows()) {
      return invalid_argument(
          fmt::format("logit rows: expected ascending numbers in [0, {}), found {} after {}", span.rows(), row, last));
    }
    last = row;
  }
  last = -1;
  for (const ScoreRequest& request : span.scores) {
    if (request.row <= last || request.row >= span.rows() || request.top_logprobs < 0 ||
        request.top_logprobs > kSampledTop) {
      return invalid_argument(
          fmt::format("scores: expected ascending rows in [0, {}) with at most {} of the best tokens, found row {} "
                      "after {} with {}",
                      span.rows(), kSampledTop, request.row, last, request.top_logprobs));
    }
    last = request.row;
    SLUICE_RETURN_IF_ERROR(check_ids({&request.token, 1}, position + request.row + 1, vocab_size_));
  }
  return {};
}

Status Runner::reserve(std::span<const StepSpan> spans) {
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (states_[index(spans[i].sequence)].reserve(spans[i].rows(), spans[i].draft_count())) continue;
    for (std::size_t j = 0; j < i; ++j) states_[index(spans[j].sequence)].discard();
    return resource_exhausted(
        fmt::format("{} rows for sequence {} at position {} need more cache pages than are free ({} latent, {} "
                    "window): use fewer rows "
                    "or sequences, or give the cache more memory",
                    spans[i].rows(), spans[i].sequence.value, position(spans[i].sequence), pools_->latents().free(),
                    pools_->windows().free()));
  }
  return {};
}

// Returns whether the model can guess the tokens after the span's: the span has one token, which is known.
bool Runner::makes_drafts(const StepSpan& span) const {
  return model_->drafts() && span.ids.size() == 1 && !span.newest && span.drafts.empty() && span.sampling != nullptr;
}

std::span<const TokenId> Runner::drafts(std::size_t span) {
  return request_of_[span] < 0 ? drafts_[span] : model_drafts_.of(static_cast<std::size_t>(request_of_[span]));
}

// Collects the spans and the drafts after their own tokens. Drafts that the model makes may still be on their way.
void Runner::make_drafts(std::span<const StepSpan> spans) {
  spans_.clear();
  requests_.clear();
  request_of_.clear();
  drafts_.clear();
  for (const StepSpan& span : spans) {
    spans_.push_back(states_[index(span.sequence)].span());
    drafts_.push_back(span.drafts);
    request_of_.push_back(span.model_drafts > 0 ? static_cast<int>(requests_.size()) : -1);
    if (span.model_drafts == 0) continue;
    requests_.push_back({spans_.back(), span.model_drafts, span.ids.front(), span.sampling});
  }
  if (requests_.empty()) return;
  model_drafts_.make(exec_, *model_, pools_->view(), requests_, reinterpret_cast<float*>(logits_memory_.data()),
                     draws_.newest(), plan_.sequences + 1);
}

// Makes the tables of the spans in the memory where the model reads them.
const StepTables& Runner::tables_of(std::span<const StepSpan> spans) {
  builder_.begin();
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const StepSpan& span = spans[i];
    const std::int32_t draft_slot =
        request_of_[i] < 0 ? -1 : model_drafts_.slot(static_cast<std::size_t>(request_of_[i]));
    builder_.add(spans_[i], span.ids, span.logit_rows, span.newest ? span.sequence.value : -1, drafts_[i], draft_slot);
    wanted_rows_.clear();
    for (const ScoreRequest& request : span.scores) wanted_rows_.push_back(request.row);
    builder_.add_scored(wanted_rows_);
  }
  const StepTables& host = builder_.finish();
  logit_count_ = host.logit_rows.size() - wanted_scores_.size();
  exports_.scored_from = static_cast<int>(logit_count_);
  const StepTables& tables = device_ == &cpu_device() ? host : device_tables_.upload(host);
  if (tables.id_slots != nullptr) {
    take_ids(exec_, {tables.rows(), tables.id_slots, draws_.newest(), const_cast<TokenId*>(tables.ids.data())});
  }
  return tables;
}

Status Runner::audit() const {
  constexpr int kDigestedPages = 16;
  return sluice::audit(*pools_, states_, prefix_cache_.get(), kDigestedPages, audits_++);
}

}  // namespace sluice
