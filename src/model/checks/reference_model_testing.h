// The common base of the tests' second forwards (reference_testing.h of each family): f64 values, the tensors of a
// checkpoint by their names, and the parts that every family has. Written from docs/models and docs/dev/numerics.md,
// independently of the model's own code and config reader: config.json has to be in the newer form.
//
// Functions named default_* round as the default profile does; the others round nothing.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/index_types.h"
#include "files/checkpoint.h"
#include "model/checks/recording_testing.h"

namespace sluice {

class ReferenceModel {
 protected:
  using Row = Recording::Row;
  using Rows = Recording::Rows;

  explicit ReferenceModel(const std::string& folder);
  ~ReferenceModel() = default;

  static double dot(const Row& a, const Row& b);
  static Row part(const Row& x, int first, int count) { return Row(x.begin() + first, x.begin() + first + count); }
  static void add(Rows& x, const Rows& y);

  static double number_of(const boost::json::object& object, const char* key, double otherwise);
  double number(const char* key, double otherwise = 0) const { return number_of(config_, key, otherwise); }
  int integer(const char* key) const { return static_cast<int>(number(key)); }
  bool flag(const char* key, bool otherwise) const;

  Row flat(const std::string& name) const;
  // With its scales, whatever it is stored as.
  const Rows& matrix(const std::string& name) const;
  Rows project(const Rows& x, const std::string& name) const;
  Rows rms(const Rows& x, const std::string& name, double eps) const;
  Row swiglu(const Row& x, const std::string& name) const;

  // The angles of rotary dims: default, yarn or llama3; and the factor of cos and sin.
  struct Rotation {
    Row frequencies;
    double scale = 1;
  };
  static Rotation make_rotation(const boost::json::object& rope, int dims);
  // Turns the pairs from `offset` on, x[i] with x[i + dims / 2] (`halves`) or neighbours, to an angle of `position`.
  static void turn(const Rotation& rotation, Row& x, int offset, int position, bool halves);
  void turn(Row& x, int offset, int position, bool halves) const { turn(rotation_, x, offset, position, halves); }

  // Codes of a row's values and back, over [first, first + count).
  static void round_bf16(Row& x, int first, int count);
  static void round_bf16(Row& x) { round_bf16(x, 0, static_cast<int>(x.size())); }
  static void round_e4m3(Row& x, int first, int count);  // under one power of two
  static void round_fp4(Row& x);                         // under one for each 32
  static void hadamard(Row& x);

  // The inputs of a linear: int8 for weights in FP4, bf16 for those in FP8 and bf16, as they are for those in f32.
  Row default_inputs(const Row& x, const std::string& name) const;
  Rows default_project(const Rows& x, const std::string& name) const;
  // Its hidden values times `weight`, with a limit L > 0 cut off at it.
  Row default_swiglu(const Row& x, const std::string& gate, const std::string& up, const std::string& down,
                     double weight = 1, double limit = 0) const;
  Row default_swiglu(const Row& x, const std::string& name, double weight = 1) const {
    return default_swiglu(x, name + "gate_proj.weight", name + "up_proj.weight", name + "down_proj.weight", weight);
  }
  // Keys that a query meets at once, with one largest score for all: cached rows, as decoded by their codec.
  using Split = std::vector<const Row*>;
  static std::vector<Split> splits_of(const Split& keys);  // splits of 256 keys
  // The query and the softmax weights of each split in bf16; a key is the first dims of a row, a value lies at
  // `offset`.
  static Row default_attend(Row query, const std::vector<Split>& splits, int offset, int value_dims, double scale,
                            std::optional<double> sink = {});
  // The `count` best of the first `visible` scores, ties to the lower, ascending.
  static std::vector<int> best(const Row& scores, int visible, int count);

  // Experts and their weights in the order of slots. The router takes its inputs as they are, in every profile.
  using Routes = std::vector<std::pair<int, double>>;
  // Compares what the model chose at a position with `expected`, and adds up its choice, "NAMEexperts.3.".
  Row check_experts(const Recording& run, int layer, int position, const Row& x, const Routes& expected,
                    const std::string& name, StageErrors& errors) const;

  // Checks the residual stream around the sub-layers of most families, with the values that `run` shows. Each sub-layer
  // is called with its layer's number and its normed inputs.
  using SubLayer = std::function<void(int layer, const Rows& x)>;
  void check_residual_stream(const Recording& run, StageErrors& errors, const SubLayer& attention,
                             const SubLayer& feed_forward) const;

  Checkpoint checkpoint_;
  boost::json::object config_, rope_;  // rope_: rope_parameters
  Rotation rotation_;
  bool rounds_head_ = true;  // the inputs of the head, as those of every other weight in bf16

 private:
  mutable std::map<std::string, Rows> matrices_;  // read already
};

}  // namespace sluice
