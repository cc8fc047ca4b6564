// What the second forwards of the tests share (deepseek_mla/reference_testing.h, decoder/reference_testing.h): f64
// values, the tensors of a checkpoint by their names, and the parts that every family has. Written from the
// specification (sections 5, 17-19) apart from the model's own code and config reader: config.json has to be in the
// newer form.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "base/index_types.h"
#include "formats/checkpoint.h"

namespace sluice {

class ReferenceModel {
 protected:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;

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
  Rows matrix(const std::string& name) const;
  Rows project(const Rows& x, const std::string& name) const;
  Rows rms(const Rows& x, const std::string& name, double eps) const;
  Row swiglu(const Row& x, const std::string& name) const;

  // Frequencies of so many rotary dims, by rope_parameters: default, yarn or llama3; and the factor of cos and sin.
  void make_rope(int dims);
  // Turns the pairs from `offset` on: x[i] with x[i + dims / 2] (`halves`), or neighbours.
  void turn(Row& x, int offset, int position, bool halves) const;

  Checkpoint checkpoint_;
  boost::json::object config_, rope_;

 private:
  Row frequencies_;
  double turn_scale_ = 1;
};

}  // namespace sluice
