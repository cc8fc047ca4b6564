// Model: a loaded checkpoint that turns rows into logits through the cache. One class per family, listed in
// families.cc.
//
// forward() is straight-line code over the ops of kernels/. A model owns its weights, and nothing per sequence.
// Thread safety: forward() by one thread at a time (it owns a workspace); the rest is const.
// Used by engine, model, sim and src/bench.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "files/checkpoint.h"
#include "kernels/device/device.h"
#include "kernels/device/exec.h"
#include "model/batch.h"
#include "model/cache_layout.h"
#include "model/engine_setup.h"
#include "model/numerics.h"
#include "model/step_exports.h"
#include "model/weights/bound_weight.h"
#include "sluice/status.h"

namespace sluice {

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const NumericsProfile& profile() const = 0;
  virtual const CacheLayout& cache_layout() const = 0;

  // Reserves the memory for steps of up to `rows` rows at positions below `positions`, on the device of their ops. Does
  // nothing if it has enough. To be called before forward(), and between steps only when their ops are done.
  virtual Status prepare(Device& device, int rows, Position positions) = 0;

  // Computes every row of the step, writes the cache, and writes logits [logit_rows, vocab]. The tables and view must
  // fit the layout (an invariant: the caller built them from it). `observer` may be null.
  virtual void forward(const Exec& exec, const StepTables& step, const CacheView& cache, float* logits,
                       const Observer* observer) = 0;

  // The files that it reads while computing, or made its weights from; null: none.
  virtual std::shared_ptr<ServedFiles> files() const { return nullptr; }

  // Sets the further outputs of the next forward() calls; null: none. It must outlive them.
  void set_exports(const StepExports* exports) { exports_ = exports; }

  // True if it has a layer for multi-token prediction, loaded with EngineSetup::mtp. Then every forward() leaves that
  // layer's keys of its rows in the cache, and draft() may be called.
  virtual bool drafts() const { return false; }
  // Guesses, for each row, at the next token: writes logits [rows, vocab]. Row i is the only one of its span, and its
  // token is not known to stay. At depth 1 it is its sequence's newest token, at the first position that is not yet
  // computed. At depth d > 1 it is the guess after row i of the previous call, which had the same sequence there with
  // depth d - 1, and no forward() came between.
  // Writes keys at the rows' positions, which the pass that computes them overwrites, and reads the committed state;
  // writes no state. So guesses are a function of the sequence's tokens and of the earlier guesses.
  virtual void draft(const Exec& exec, const StepTables& step, const CacheView& cache, int depth, float* logits,
                     const Observer* observer);

 protected:
  const StepExports* exports_ = nullptr;
};

struct LoadReport {
  double seconds = 0;
  std::size_t checkpoint_bytes = 0, packed_bytes = 0;  // without tensors that are left unused on purpose
  std::string packing;                                 // the source of the packed form; empty: there is none
  std::string weights_version;                         // model/weights/weights_version.h
  std::vector<std::string> notes;                      // about unknown tensors and the like
  std::vector<std::string> whole;                      // weights that are whole on each of several ranks
  std::vector<BoundWeight> weights;
};

// The treatment of weights that kernels want in another form than the checkpoint's (docs/loading.md).
struct PackingOptions {
  bool pack = true;                     // off: kernels pack parts when they need them; pages stay shared
  bool cache = true;                    // keep the packed form of large models for the next start
  std::string cache_folder = {};        // empty: the program's
  std::size_t cache_from = 64'000'000;  // packed bytes
  int settled_seconds = 2;              // times of files that changed this recently are not trusted
  // If weights that no file holds take at least this many packed bytes on a device, they are made once for each shape,
  // and the others are copies on the device.
  std::size_t copy_made_from = std::size_t{8} << 30;
};

// Called with (bytes so far, bytes in all) while a form is packed, or a kept one is checked.
using LoadProgress = std::function<void(std::size_t done, std::size_t total)>;

struct Loading {
  PackingOptions packing = {};
  bool mtp = false;              // with the layer for multi-token prediction, which must be there
  LoadProgress progress = {};    // may be empty
  LoadReport* report = nullptr;  // may be null
};

// Returns whether the model has all that EngineSetup::mtp needs. Fails if its files cannot be read.
Result<bool> has_mtp(const ModelOptions& model);

// Loads the checkpoint in `folder`: config, weights (checked, bound, packed for exec.kernels).
Result<std::unique_ptr<Model>> load_model(const Exec& exec, const std::string& folder, const EngineSetup& options,
                                          const LoadProgress& progress, LoadReport* report);

}  // namespace sluice
