// WeightPacker: brings the weights of a model into the form that its kernels want.
//
// Weights are collected first; their packed form is one piece of memory: the mapping of a file that an earlier start
// kept (model/packing/pack_cache.h), or made now and kept for the next start. docs/loading.md describes it. Thread
// safety: one thread; it uses exec's pool.
// Used by model/weights/weight_table.cc.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "files/checkpoint.h"
#include "kernels/device/exec.h"
#include "kernels/ops/linear.h"
#include "model/model.h"
#include "model/packing/pack_cache.h"
#include "model/packing/packed_file.h"

namespace sluice {

class WeightPacker {
 public:
  // Writes the values of a weight that no file holds in this form: view.out rows of view.row_bytes().
  using MakeValues = std::function<void(std::byte* to)>;

  WeightPacker(const Exec& exec, const PackingOptions& options) : exec_(exec), options_(options) {}

  // Returns whether add() leaves the bytes of such a view, without values of its own, to finish().
  bool packs_later(const WeightView& view, InputForm inputs) const;
  // Makes `into` a weight over `view`. Its packed bytes exist after finish(), until which `into` must not move. Views
  // of the same bytes are packed once.
  void add(std::string name, LinearWeight& into, const WeightView& view, InputForm inputs, MakeValues values = {});
  // The checkpoint of the views keeps the packed bytes. kResourceExhausted if they do not fit in the memory of the ops'
  // device.
  Status finish(Checkpoint& checkpoint, const LoadProgress& progress);

  std::size_t packed_bytes() const { return packed_bytes_; }
  // The source of the packed weights: "packed now", "mapped from ..."; empty: there are none.
  const std::string& outcome() const { return outcome_; }

 private:
  struct Item {
    LinearWeight* into;
    PackedWeightPlace place;
    MakeValues values;
    std::size_t offset;
  };
  struct Copy {
    LinearWeight* into;
    std::size_t of;  // an item
  };

  void point_all(const std::byte* base);
  Status pack_to_device(Checkpoint& checkpoint, const LoadProgress& progress);
  void copy_to_device(Checkpoint& checkpoint, std::byte* memory, const LoadProgress& progress);
  Status keep_on_device(Checkpoint& checkpoint, DeviceMemory memory);
  // To `to` and on, at their distances.
  void pack_items(std::span<const Item> items, const Checkpoint& checkpoint, std::byte* to,
                  const LoadProgress& progress) const;
  PackedKey key_of(const Checkpoint& checkpoint) const;

  const Exec& exec_;
  const PackingOptions& options_;
  std::vector<Item> items_;
  std::vector<Copy> copies_;
  std::map<std::tuple<const std::byte*, const std::byte*, int, int, InputForm>, std::size_t> packed_before_;
  std::size_t arena_bytes_ = 0, packed_bytes_ = 0;
  std::string outcome_;
};

}  // namespace sluice
