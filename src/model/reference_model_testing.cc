#include "model/reference_model_testing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>

#include "base/check.h"
#include "base/mapped_file.h"
#include "base/number_formats.h"
#include "formats/json.h"

namespace sluice {

ReferenceModel::ReferenceModel(const std::string& folder) : checkpoint_(Checkpoint::open(folder).value()) {
  const std::string file = folder + "/config.json";
  config_ = parse_json(read_text_file(file).value(), file).value().as_object();
  rope_ = config_.at("rope_parameters").as_object();
}

double ReferenceModel::dot(const Row& a, const Row& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double ReferenceModel::number_of(const boost::json::object& object, const char* key, double otherwise) {
  const auto* value = object.if_contains(key);
  return value == nullptr || value->is_null() ? otherwise : value->to_number<double>();
}

bool ReferenceModel::flag(const char* key, bool otherwise) const {
  const auto* value = config_.if_contains(key);
  return value == nullptr || value->is_null() ? otherwise : value->as_bool();
}

ReferenceModel::Row ReferenceModel::flat(const std::string& name) const {
  const TensorView* tensor = checkpoint_.find(name);
  SLUICE_CHECK(tensor != nullptr, "the reference's tensor is there");
  Row values(static_cast<std::size_t>(tensor->elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (tensor->dtype == DType::kF32) {
      float value;
      std::memcpy(&value, tensor->data + i * sizeof value, sizeof value);
      values[i] = static_cast<double>(value);
    } else {
      bf16 value;
      std::memcpy(&value, tensor->data + i * sizeof value, sizeof value);
      values[i] = static_cast<double>(to_float(value));
    }
  }
  return values;
}

ReferenceModel::Rows ReferenceModel::matrix(const std::string& name) const {
  const Row all = flat(name);
  const auto columns = static_cast<std::ptrdiff_t>(checkpoint_.find(name)->shape[1]);
  Rows rows;
  for (auto at = all.begin(); at != all.end(); at += columns) rows.emplace_back(at, at + columns);
  return rows;
}

ReferenceModel::Rows ReferenceModel::project(const Rows& x, const std::string& name) const {
  const Rows weight = matrix(name);
  Rows y;
  for (const Row& row : x) {
    Row& out = y.emplace_back();
    for (const Row& w : weight) out.push_back(dot(row, w));
  }
  return y;
}

ReferenceModel::Rows ReferenceModel::rms(const Rows& x, const std::string& name, double eps) const {
  const Row weight = flat(name);
  Rows y = x;
  for (Row& row : y) {
    const double r = 1 / std::sqrt(dot(row, row) / static_cast<double>(row.size()) + eps);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] *= r * weight[i];
  }
  return y;
}

void ReferenceModel::add(Rows& x, const Rows& y) {
  for (std::size_t t = 0; t < x.size(); ++t) {
    for (std::size_t i = 0; i < x[t].size(); ++i) x[t][i] += y[t][i];
  }
}

ReferenceModel::Row ReferenceModel::swiglu(const Row& x, const std::string& name) const {
  const Row gate = project({x}, name + "gate_proj.weight")[0], up = project({x}, name + "up_proj.weight")[0];
  Row m;
  for (std::size_t i = 0; i < gate.size(); ++i) m.push_back(gate[i] / (1 + std::exp(-gate[i])) * up[i]);
  return project({m}, name + "down_proj.weight")[0];
}

void ReferenceModel::make_rope(int dims) {
  const std::string type(rope_.at("rope_type").as_string());
  const double theta = number_of(rope_, "rope_theta", 10000), factor = number_of(rope_, "factor", 1);
  const double original = number_of(rope_, "original_max_position_embeddings", 0);
  const double low_turns = number_of(rope_, "low_freq_factor", 1), high_turns = number_of(rope_, "high_freq_factor", 4);
  const auto turns_at = [&](const char* key, double otherwise) {  // the pair that turns so often in the original
    const double turns = number_of(rope_, key, otherwise);
    return dims * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  for (int i = 0; i < dims / 2; ++i) {
    const double f = std::pow(theta, -2.0 * i / dims);
    double slow = 0;  // how much of the frequency is divided by the factor
    if (type == "yarn") {
      const double low = std::max(0.0, std::floor(turns_at("beta_fast", 32)));
      double high = std::min<double>(dims - 1, std::ceil(turns_at("beta_slow", 1)));
      if (high == low) high += 0.001;
      slow = std::clamp((i - low) / (high - low), 0.0, 1.0);
    } else if (type == "llama3") {
      const double turns = original * f / (2 * std::numbers::pi);
      slow = 1 - std::clamp((turns - low_turns) / (high_turns - low_turns), 0.0, 1.0);
    }
    frequencies_.push_back(f / factor * slow + f * (1 - slow));
  }
  if (type != "yarn") return;
  const auto g = [&](double mscale) { return factor > 1 ? 0.1 * mscale * std::log(factor) + 1 : 1; };
  const double mscale = number_of(rope_, "mscale", 0), all = number_of(rope_, "mscale_all_dim", 0);
  turn_scale_ = number_of(rope_, "attention_factor", mscale != 0 && all != 0 ? g(mscale) / g(all) : g(1));
}

void ReferenceModel::turn(Row& x, int offset, int position, bool halves) const {
  const auto pairs = static_cast<int>(frequencies_.size());
  for (int i = 0; i < pairs; ++i) {
    double& a = x[static_cast<std::size_t>(offset + (halves ? i : 2 * i))];
    double& b = x[static_cast<std::size_t>(offset + (halves ? i + pairs : 2 * i + 1))];
    const double angle = position * frequencies_[static_cast<std::size_t>(i)];
    const double c = std::cos(angle) * turn_scale_, s = std::sin(angle) * turn_scale_;
    const double a0 = a;
    a = a0 * c - b * s;
    b = a0 * s + b * c;
  }
}

}  // namespace sluice
