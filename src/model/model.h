// Model: a loaded checkpoint that turns rows into logits through the cache. One class per family, listed in
// families.cc.
//
// forward() is straight-line code over the ops of kernels/. A model owns its weights and nothing per sequence.
// Thread safety: forward() by one thread at a time (it owns a workspace); the rest is const.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/model_config.h"
#include "kernels/exec.h"
#include "model/batch.h"
#include "model/cache_layout.h"
#include "model/numerics.h"
#include "sluice/status.h"

namespace sluice {

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const NumericsProfile& profile() const = 0;
  virtual const CacheLayout& cache_layout() const = 0;

  // Computes every row of the batch, writes the cache, and writes logits [logit_rows, vocab]. The batch and view must
  // fit the layout (an invariant: the caller built them from it). `probe` may be null.
  virtual void forward(const Exec& exec, const Batch& batch, const CacheView& cache, float* logits,
                       const Probe* probe) = 0;
};

struct LoadReport {
  double seconds = 0;
  std::size_t checkpoint_bytes = 0, packed_bytes = 0;
  std::vector<std::string> notes;  // unknown tensors and other things worth a line
};

// Called while loading with (bytes bound so far, bytes in all).
using LoadProgress = std::function<void(std::size_t done, std::size_t total)>;

// Loads the checkpoint in `folder`: config, weights (checked, bound, packed for exec.kernels).
Result<std::unique_ptr<Model>> load_model(const Exec& exec, const std::string& folder, const EngineOptions& options,
                                          const LoadProgress& progress, LoadReport* report);

}  // namespace sluice
