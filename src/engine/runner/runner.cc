// Used by cli, engine, sim, src/bench and verify.
#include "engine/runner/runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "base/progress.h"
#include "engine/engine_options.h"
#include "engine/runner/device_plan.h"
#include "kernels/device/device.h"

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

// For tests of short memory; one page for a sequence and the self-test's own are left.
void hide_latent_pages(int pages, const CacheLayout& layout, MemoryPlan* plan) {
  plan->latent_pages = std::max(std::min(plan->latent_pages, 2), plan->latent_pages - pages);
  plan->latent_bytes = static_cast<std::size_t>(plan->latent_pages) * layout.latent_page_bytes();
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::create(std::unique_ptr<Model> model, const KernelTable* kernels,
                                               const EngineSetup& options, std::optional<DeviceChoice> device) {
  if (!device) {
    SLUICE_ASSIGN_OR_RETURN(device, choose_device(options.machine, options.numerics));
  }
  std::unique_ptr<Runner> runner(new Runner);
  SLUICE_RETURN_IF_ERROR(validate(options));
  runner->exec_.ops = device->ops;
  runner->exec_.device = &device->device();
  runner->owned_device_ = std::move(device->owned);
  runner->threads_.set(resolve_threads(options));
  runner->exec_.kernels = kernels;
  runner->model_ = std::move(model);
  SLUICE_RETURN_IF_ERROR(runner->set_up(options));
  return runner;
}

Status Runner::set_up(const EngineSetup& options) {
  limits_.vocab_size = static_cast<std::size_t>(model_->config().vocab_size);
  SLUICE_ASSIGN_OR_RETURN(limits_.max_model_len, resolve_max_model_len(options.model.max_model_len, model_->config()));
  limits_.step_rows = resolve_step_rows(options);
  SLUICE_ASSIGN_OR_RETURN(const std::size_t budget, cache_budget(options));
  const MemoryRequest request{.budget_bytes = budget,
                              .max_seqs = options.scheduler.max_num_seqs,
                              .max_batched_tokens = limits_.step_rows,
                              .max_model_len = limits_.max_model_len,
                              .prefix_caching = options.cache.enable_prefix_caching,
                              .draft_tokens = most_drafts(options)};
  SLUICE_ASSIGN_OR_RETURN(MemoryPlan plan, plan_memory(model_->cache_layout(), request));
  hide_latent_pages(options.testing.hidden_latent_pages, model_->cache_layout(), &plan);
  if (plan.sequences < options.scheduler.max_num_seqs) {
    log_info("--kv-cache-memory holds {} sequences at once, fewer than --max-num-seqs {}", plan.sequences,
             options.scheduler.max_num_seqs);
  }
  SLUICE_RETURN_IF_ERROR(
      check_unchunked(options, limits_.max_model_len, PageGeometry::of(model_->cache_layout()), plan));
  log_debug("cache: {}", plan.text());
  plan_ = plan;
  options_ = options;
  name_chains();
  return clear_cache();
}

// Bytes for the cache. If the device has memory of its own, these are all bytes that weights and scratch leave, except
// for logits and the driver.
Result<std::size_t> Runner::cache_budget(const EngineSetup& options) {
  if (options.cache.kv_cache_memory > 0 || exec_.device->free_bytes() == 0) return resolve_kv_cache_memory(options);
  SLUICE_RETURN_IF_ERROR(model_->prepare(*exec_.device, limits_.step_rows, limits_.max_model_len));
  const std::size_t left =
      StepLogits::bytes(static_cast<std::size_t>(limits_.step_rows), limits_.vocab_size) + kLeftOnDevice;
  const std::size_t free = exec_.device->free_bytes();
  if (free > left) return free - left;
  return resource_exhausted(fmt::format(
      "{}: {} are free beside weights and scratch, expected more than {}: lower "
      "--max-num-batched-tokens or --max-model-len",
      exec_.device->name(), format_bytes(static_cast<double>(free)), format_bytes(static_cast<double>(left))));
}

// Pages are shared by those alone whose weights and profile computed them.
void Runner::name_chains() {
  cache_.set_computed_by(model_->profile().text() + "\n" + load_report_.weights_version);
}

Status Runner::clear_cache() {
  builder_ = StepBuilder(model_->cache_layout().table_shape());
  sequences_.begin(0);  // before the pools that they point to
  SLUICE_RETURN_IF_ERROR(cache_.begin(*exec_.device, model_->cache_layout(), plan_, options_));
  const Fault fault = cache_.prefix_cache().fault();
  exec_.fault_chunk_anchored_splits = fault == Fault::kChunkReduction;
  exec_.fault_future_entries = fault == Fault::kFutureEntries ? 1 + kMostDrafts : 0;
  prepared_rows_ = 0;
  SLUICE_RETURN_IF_ERROR(prepare_for(limits_.step_rows));
  const int sequences = plan_.sequences + 1, drafts = most_drafts(options_);
  sequences_.begin(sequences);
  in_step_.assign(static_cast<std::size_t>(sequences), 0);
  SLUICE_RETURN_IF_ERROR(logits_.reserve(limits_.vocab_size, sequences, 1 + drafts,
                                         model_->drafts() ? ModelDrafts::slots(sequences, drafts) : 0));
  if (!model_->drafts()) return {};
  return model_drafts_.reserve(*exec_.device, model_->cache_layout().table_shape(), sequences, drafts,
                               static_cast<std::size_t>(blocks_for(limits_.max_model_len)));
}

std::unique_ptr<Model> Runner::replace_model(std::unique_ptr<Model> model, std::string weights_version) {
  SLUICE_CHECK(!sequences_.any_open(), "no sequence runs while a model is replaced");
  exec_.device->wait();
  std::swap(model_, model);
  load_report_.weights_version = std::move(weights_version);
  name_chains();
  prepared_rows_ = 0;
  const Status prepared = prepare_for(limits_.step_rows);
  SLUICE_CHECK(prepared.ok(), "a model of the same geometry has the memory that the one before had");
  return model;
}

Status Runner::run_step(std::span<const StepSpan> spans, const Observer* observer) {
  SLUICE_RETURN_IF_ERROR(begin(spans, observer));
  const std::shared_ptr<ServedFiles> served = files();
  Status same = served != nullptr ? served->check() : Status();
  for (const StepSpan& span : spans) {
    sequences_.commit(span.sequence, same.ok() && span.keep ? span.rows() : 0, span.chain);
  }
  return same;
}

Status Runner::begin(std::span<const StepSpan> spans, const Observer* observer) {
  logits_.count_ = 0;
  SLUICE_RETURN_IF_ERROR(check(spans));
  int rows = 0;
  std::size_t wanted = 0;
  for (const StepSpan& span : spans) {
    rows += span.rows();
    wanted += span.logit_rows.size();
  }
  SLUICE_RETURN_IF_ERROR(prepare_for(rows));
  SLUICE_RETURN_IF_ERROR(logits_.make_room(std::max(wanted, drafts_by_model(spans))));
  SLUICE_RETURN_IF_ERROR(results_.begin(spans, limits_.vocab_size));
  SLUICE_RETURN_IF_ERROR(reserve(spans));  // last of what can fail, so that an error leaves nothing reserved
  const FlushDenormals flush;              // as every op does: at once for all of them
  make_drafts(spans);
  const StepTables& tables = tables_of(spans);
  const std::vector<SpoiledRow> spoiled = inject_before_pass();
  model_->set_exports(&results_.exports());
  const bool batched = rows <= kMostBatchedRows;
  if (batched) exec_.device->begin_batch();
  model_->forward(exec_, tables, cache_.pools().view(), logits_.data(), observer != nullptr ? observer : observer_);
  if (batched) exec_.device->end_batch();
  model_->set_exports(nullptr);
  if (results_.exports_any()) exec_.device->wait();
  inject_after_pass(spoiled);
  return {};
}

// Provides memory for steps of `rows` rows; once warm there is enough.
Status Runner::prepare_for(int rows) {
  if (rows <= prepared_rows_) return {};
  exec_.device->wait();
  SLUICE_RETURN_IF_ERROR(model_->prepare(*exec_.device, rows, limits_.max_model_len));
  if (computes_later(exec_)) {
    // Each of the sequences of a step lists the pages of its blocks.
    const auto blocks = static_cast<std::size_t>(blocks_for(limits_.max_model_len));
    const auto spans = static_cast<std::size_t>(std::min(rows, plan_.sequences + 1));
    SLUICE_RETURN_IF_ERROR(
        device_tables_.reserve(*exec_.device, model_->cache_layout().table_shape(),
                               {.rows = rows, .latent_pages = spans * blocks, .window_pages = spans * blocks}));
  }
  prepared_rows_ = rows;
  return {};
}

Status Runner::fill(StateSlot sequence, int rows, const std::function<void(const BatchSpan&, CacheMemory&)>& write) {
  const std::vector<TokenId> ids(static_cast<std::size_t>(rows), 0);
  const StepSpan span{.sequence = sequence, .ids = ids, .logit_rows = {}};
  SLUICE_RETURN_IF_ERROR(check({&span, 1}));
  SLUICE_RETURN_IF_ERROR(reserve({&span, 1}));
  SequenceState& state = sequences_.entry(sequence);
  write(state.span(), cache_.pools().memory());
  cache_.pools().memory().write_initial_state(state.scratch());
  state.commit(rows);
  return {};
}

Status Runner::reserve(std::span<const StepSpan> spans) {
  for (std::size_t i = 0; i < spans.size(); ++i) {
    SequenceState& state = sequences_.entry(spans[i].sequence);
    if (state.reserve(spans[i].rows(), spans[i].draft_count())) continue;
    for (std::size_t j = 0; j < i; ++j) sequences_.entry(spans[j].sequence).discard();
    return resource_exhausted(
        fmt::format("{} rows for sequence {} at position {} need more cache pages than are free ({} latent, {} "
                    "window): use fewer rows "
                    "or sequences, or give the cache more memory",
                    spans[i].rows(), spans[i].sequence.value, state.position(), cache_.pools().latents().free(),
                    cache_.pools().windows().free()));
  }
  return {};
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
    spans_.push_back(sequences_.state(span.sequence).span());
    drafts_.push_back(span.drafts);
    request_of_.push_back(span.model_drafts > 0 ? static_cast<int>(requests_.size()) : -1);
    if (span.model_drafts == 0) continue;
    requests_.push_back({spans_.back(), span.model_drafts, span.ids.front(), span.sampling});
  }
  if (requests_.empty()) return;
  model_drafts_.make(exec_, *model_, cache_.pools().view(), requests_, logits_.data(), logits_.draws_.newest(),
                     plan_.sequences + 1);
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
  logits_.count_ = host.logit_rows.size() - results_.scored_rows();
  results_.score_from(logits_.count_);
  const StepTables& tables = !computes_later(exec_) ? host : device_tables_.upload(host);
  if (tables.id_slots != nullptr) {
    take_ids(exec_, {tables.rows(), tables.id_slots, logits_.draws_.newest(), const_cast<TokenId*>(tables.ids.data())});
  }
  return tables;
}

}  // namespace sluice
