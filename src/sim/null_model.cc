// Used by bench/scheduler_bench.cc, cli/commands/simulate_command.cc and simulation.cc.
#include "sim/null_model.h"

#include <algorithm>

#include "cache/memory_plan.h"
#include "engine/engine_options.h"
#include "sim/trace.h"

namespace sluice {
namespace {

// Raw bytes: the rows are never read or written.
RowFormat row_of(std::size_t bytes) {
  return {.codec = RowCodec::kF32, .dims = 0, .rope_dims = 0, .data_bytes = static_cast<int>(bytes), .scale_bytes = 0};
}

class NullModel final : public Model {
 public:
  NullModel(const CacheLayout& real, int max_position_embeddings) {
    config_.model_type = "null";
    config_.vocab_size = kTraceVocab;
    config_.max_position_embeddings = max_position_embeddings;
    profile_.name = "null";
    if (const std::size_t bytes = real.latent_page_bytes(); bytes > 0) {
      PlaneSpec latent;
      latent.kind = PlaneKind::kLatent;
      latent.name = "latent";
      latent.tokens_per_row = kBlockTokens;
      latent.format = row_of(bytes);
      layout_.add(std::move(latent));
    }
    if (const std::size_t bytes = real.window_page_bytes(); bytes > 0) {
      PlaneSpec window;
      window.kind = PlaneKind::kWindow;
      window.name = "window";
      window.window_tokens = real.window_tokens();
      window.format = row_of((bytes + kBlockTokens - 1) / kBlockTokens);
      layout_.add(std::move(window));
    }
  }

  const ModelConfig& config() const override { return config_; }
  const NumericsProfile& profile() const override { return profile_; }
  const CacheLayout& cache_layout() const override { return layout_; }
  Status prepare(Device&, int, Position) override { return {}; }
  void forward(const Exec&, const StepTables&, const CacheView&, float*, const Observer*) override {}

 private:
  ModelConfig config_;
  NumericsProfile profile_;
  CacheLayout layout_;
};

}  // namespace

std::unique_ptr<Model> make_null_model(const CacheLayout& real, int max_position_embeddings) {
  return std::make_unique<NullModel>(real, max_position_embeddings);
}

Result<EngineSetup> null_model_options(const CacheLayout& real, int max_position_embeddings, EngineSetup options) {
  SLUICE_RETURN_IF_ERROR(validate(options));
  MemoryRequest request;
  request.budget_bytes = resolve_kv_cache_memory(options);
  request.max_seqs = options.scheduler.max_num_seqs;
  request.max_batched_tokens = resolve_step_rows(options);
  request.max_model_len = options.model.max_model_len > 0
                              ? std::min(options.model.max_model_len, max_position_embeddings)
                              : max_position_embeddings;
  request.prefix_caching = options.cache.enable_prefix_caching;
  request.draft_tokens = most_drafts(options);
  SLUICE_ASSIGN_OR_RETURN(const MemoryPlan plan, plan_memory(real, request));
  options.scheduler.max_num_seqs = plan.sequences;
  options.cache.kv_cache_memory = static_cast<std::int64_t>(request.budget_bytes - plan.open_bytes);
  options.machine.threads = 1;
  return options;
}

}  // namespace sluice
