#include "model/checks/reference_model_testing.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>

#include "base/check.h"
#include "base/formats/number_formats.h"
#include "base/storage/mapped_file.h"
#include "files/json.h"

namespace sluice {
namespace {

// A power of two that brings `most` to at most 1 / inverse.
double scale_for(float most, float inverse) {
  return std::exp2(std::ceil(std::log2(static_cast<double>(most * inverse))));
}

float largest(const std::vector<double>& x, int first, int count, float least) {
  for (int i = first; i < first + count; ++i) {
    least = std::max(least, std::fabs(static_cast<float>(x[static_cast<std::size_t>(i)])));
  }
  return least;
}

template <class Code>
void round_codes(std::vector<double>& x, int first, int count, double scale, const Code& code) {
  for (int i = first; i < first + count; ++i) {
    double& value = x[static_cast<std::size_t>(i)];
    value = static_cast<double>(code(static_cast<float>(value / scale))) * scale;
  }
}

float of_type(const TensorView& tensor, std::size_t i) {
  const std::byte* const at = tensor.data + i * (tensor.dtype == DType::kF32    ? 4
                                                 : tensor.dtype == DType::kBF16 ? 2
                                                                                : 1);
  const auto read = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (tensor.dtype) {
    case DType::kF32:
      return read(float{});
    case DType::kBF16:
      return to_float(read(bf16{}));
    case DType::kF8E4M3:
      return e4m3_to_float(read(std::uint8_t{}));
    case DType::kF8E8M0:
      return e8m0_to_float(read(std::uint8_t{}));
    default:
      SLUICE_CHECK(false, "a type of the reference's tensors");
  }
}

}  // namespace

ReferenceModel::ReferenceModel(const std::string& folder) : checkpoint_(Checkpoint::open(folder).value()) {
  const std::string file = folder + "/config.json";
  config_ = parse_json(read_text_file(file).value(), file).value().as_object();
  if (const auto* rope = config_.if_contains("rope_parameters")) rope_ = rope->as_object();
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
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(of_type(*tensor, i));
  return values;
}

const ReferenceModel::Rows& ReferenceModel::matrix(const std::string& name) const {
  Rows& rows = matrices_[name];
  if (!rows.empty()) return rows;
  const TensorView& tensor = *checkpoint_.find(name);
  const bool fp4 = tensor.dtype == DType::kI8, scaled = fp4 || tensor.dtype == DType::kF8E4M3;
  const auto columns = static_cast<std::size_t>(tensor.shape[1]) * (fp4 ? 2 : 1);
  rows.assign(static_cast<std::size_t>(tensor.shape[0]), Row(columns));
  const TensorView* scales = scaled ? checkpoint_.find(name.substr(0, name.size() - 6) + "scale") : nullptr;
  const std::size_t block_rows = fp4 ? 1 : 128, block = fp4 ? 32 : 128, scale_columns = (columns + block - 1) / block;
  for (std::size_t n = 0; n < rows.size(); ++n) {
    for (std::size_t i = 0; i < columns; ++i) {
      const std::size_t at = n * columns + i;
      double value;
      if (fp4) {
        const auto pair = std::to_integer<unsigned>(tensor.data[at / 2]);
        value = static_cast<double>(e2m1_to_float(static_cast<std::uint8_t>(i % 2 == 0 ? pair & 15 : pair >> 4)));
      } else {
        value = static_cast<double>(of_type(tensor, at));
      }
      if (scaled) value *= static_cast<double>(of_type(*scales, n / block_rows * scale_columns + i / block));
      rows[n][i] = value;
    }
  }
  return rows;
}

ReferenceModel::Rows ReferenceModel::project(const Rows& x, const std::string& name) const {
  const Rows& weight = matrix(name);
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
  // Routed experts have none.
  const bool has_biases = flag("mlp_bias", false) && name.find(".experts.") == std::string::npos;
  const auto of = [&](const Row& row, const char* part) {
    Rows y = project({row}, name + part + ".weight");
    if (has_biases) add(y, {flat(name + part + ".bias")});
    return y[0];
  };
  const Row gate = of(x, "gate_proj"), up = of(x, "up_proj");
  Row m;
  for (std::size_t i = 0; i < gate.size(); ++i) m.push_back(gate[i] / (1 + std::exp(-gate[i])) * up[i]);
  return of(m, "down_proj");
}

ReferenceModel::Rotation ReferenceModel::make_rotation(const boost::json::object& rope, int dims) {
  Rotation rotation;
  const std::string type(rope.at("rope_type").as_string());
  const double theta = number_of(rope, "rope_theta", 10000), factor = number_of(rope, "factor", 1);
  const double original = number_of(rope, "original_max_position_embeddings", 0);
  const double low_turns = number_of(rope, "low_freq_factor", 1), high_turns = number_of(rope, "high_freq_factor", 4);
  const auto turns_at = [&](const char* key, double otherwise) {  // the pair that turns so often in the original
    const double turns = number_of(rope, key, otherwise);
    return dims * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  for (int i = 0; i < dims / 2; ++i) {
    const double f = std::pow(theta, -2.0 * i / dims);
    double slow = 0;  // the part of the frequency that is divided by the factor
    if (type == "yarn") {
      const double low = std::max(0.0, std::floor(turns_at("beta_fast", 32)));
      double high = std::min<double>(dims - 1, std::ceil(turns_at("beta_slow", 1)));
      if (high == low) high += 0.001;
      slow = std::clamp((i - low) / (high - low), 0.0, 1.0);
    } else if (type == "llama3") {
      const double turns = original * f / (2 * std::numbers::pi);
      slow = 1 - std::clamp((turns - low_turns) / (high_turns - low_turns), 0.0, 1.0);
    }
    rotation.frequencies.push_back(f / factor * slow + f * (1 - slow));
  }
  if (type != "yarn") return rotation;
  const auto g = [&](double mscale) { return factor > 1 ? 0.1 * mscale * std::log(factor) + 1 : 1; };
  const double mscale = number_of(rope, "mscale", 0), all = number_of(rope, "mscale_all_dim", 0);
  rotation.scale = number_of(rope, "attention_factor", mscale != 0 && all != 0 ? g(mscale) / g(all) : g(1));
  return rotation;
}

void ReferenceModel::turn(const Rotation& rotation, Row& x, int offset, int position, bool halves) {
  const auto pairs = static_cast<int>(rotation.frequencies.size());
  for (int i = 0; i < pairs; ++i) {
    double& a = x[static_cast<std::size_t>(offset + (halves ? i : 2 * i))];
    double& b = x[static_cast<std::size_t>(offset + (halves ? i + pairs : 2 * i + 1))];
    const double angle = position * rotation.frequencies[static_cast<std::size_t>(i)];
    const double c = std::cos(angle) * rotation.scale, s = std::sin(angle) * rotation.scale;
    const double a0 = a;
    a = a0 * c - b * s;
    b = a0 * s + b * c;
  }
}

void ReferenceModel::round_bf16(Row& x, int first, int count) {
  round_codes(x, first, count, 1, [](float value) { return round_to_bf16(value); });
}

void ReferenceModel::round_e4m3(Row& x, int first, int count) {
  round_codes(x, first, count, scale_for(largest(x, first, count, 1e-4F), 1.0F / 448.0F),
              [](float value) { return e4m3_to_float(float_to_e4m3(value)); });
}

void ReferenceModel::round_fp4(Row& x) {
  for (int i = 0; i < static_cast<int>(x.size()); i += 32) {
    round_codes(x, i, 32, scale_for(largest(x, i, 32, 0x6p-126F), 1.0F / 6.0F),
                [](float value) { return e2m1_to_float(float_to_e2m1(value)); });
  }
}

void ReferenceModel::hadamard(Row& x) {
  const Row before = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = 0;
    for (std::size_t j = 0; j < x.size(); ++j) x[i] += std::popcount(i & j) % 2 == 0 ? before[j] : -before[j];
    x[i] /= std::sqrt(static_cast<double>(x.size()));
  }
}

ReferenceModel::Row ReferenceModel::default_inputs(const Row& x, const std::string& name) const {
  Row rounded = x;
  const DType stored = checkpoint_.find(name)->dtype;
  if (stored == DType::kF32) return rounded;
  if (stored != DType::kI8) {
    round_bf16(rounded);
    return rounded;
  }
  for (int i = 0; i < static_cast<int>(x.size()); i += 32) {
    const float most = largest(x, i, 32, 0);
    for (int j = i; j < i + 32; ++j) {
      double& value = rounded[static_cast<std::size_t>(j)];
      value = most == 0 ? 0 : std::nearbyint(static_cast<double>(static_cast<float>(value) * (127.0F / most)));
      value *= static_cast<double>(most / 127.0F);
    }
  }
  return rounded;
}

ReferenceModel::Rows ReferenceModel::default_project(const Rows& x, const std::string& name) const {
  Rows rounded;
  for (const Row& row : x) rounded.push_back(default_inputs(row, name));
  return project(rounded, name);
}

ReferenceModel::Row ReferenceModel::default_swiglu(const Row& x, const std::string& gate, const std::string& up,
                                                   const std::string& down, double weight, double limit) const {
  Row m = default_project({x}, gate)[0];
  const Row b = default_project({x}, up)[0];
  for (std::size_t i = 0; i < m.size(); ++i) {
    const double a = limit > 0 ? std::min(m[i], limit) : m[i];
    m[i] = a / (1 + std::exp(-a)) * (limit > 0 ? std::clamp(b[i], -limit, limit) : b[i]) * weight;
  }
  return default_project({m}, down)[0];
}

std::vector<ReferenceModel::Split> ReferenceModel::splits_of(const Split& keys) {
  std::vector<Split> splits;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i % 256 == 0) splits.emplace_back();
    splits.back().push_back(keys[i]);
  }
  return splits;
}

ReferenceModel::Row ReferenceModel::default_attend(Row query, const std::vector<Split>& splits, int offset,
                                                   int value_dims, double scale, std::optional<double> sink) {
  round_bf16(query);
  double most = -HUGE_VAL, z = 0;
  Row sum(static_cast<std::size_t>(value_dims));
  for (const Split& keys : splits) {
    Row weights;
    for (const Row* key : keys) {
      weights.push_back(std::inner_product(query.begin(), query.end(), key->begin(), 0.0) * scale);
    }
    const double top = *std::max_element(weights.begin(), weights.end());
    for (double& w : weights) w = std::exp(w - top);
    round_bf16(weights);
    const double all = std::max(most, top), before = std::exp(most - all), now = std::exp(top - all);
    z *= before;
    for (double& value : sum) value *= before;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      z += now * weights[i];
      for (std::size_t d = 0; d < sum.size(); ++d) {
        sum[d] += now * weights[i] * (*keys[i])[static_cast<std::size_t>(offset) + d];
      }
    }
    most = all;
  }
  if (sink) z += std::exp(*sink - most);
  for (double& value : sum) value /= z;
  return sum;
}

std::vector<int> ReferenceModel::best(const Row& scores, int visible, int count) {
  std::vector<std::pair<double, int>> order;  // negated, so that the best comes first and then the lower
  for (int i = 0; i < visible; ++i) order.emplace_back(-scores[static_cast<std::size_t>(i)], i);
  std::sort(order.begin(), order.end());
  order.resize(static_cast<std::size_t>(std::min(visible, count)));
  std::vector<int> chosen;
  for (const auto& [score, i] : order) chosen.push_back(i);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

ReferenceModel::Row ReferenceModel::check_experts(const Recording& run, int layer, int position, const Row& x,
                                                  const Routes& expected, const std::string& name,
                                                  StageErrors& errors) const {
  const Row &ids = *run.at(layer, "router_ids", position), &weights = *run.at(layer, "router_weights", position);
  Row expected_ids, expected_weights, sum(x.size());
  for (const auto& [expert, weight] : expected) expected_ids.push_back(expert), expected_weights.push_back(weight);
  errors.add("router_ids", ids, expected_ids);
  errors.add("router_weights", weights, expected_weights);
  for (std::size_t s = 0; s < ids.size(); ++s) {
    const std::string expert = fmt::format("{}experts.{}.", name, static_cast<int>(ids[s]));
    const Row one = default_swiglu(x, expert, weights[s]);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
  }
  return sum;
}

void ReferenceModel::check_residual_stream(const Recording& run, StageErrors& errors, const SubLayer& attention,
                                           const SubLayer& feed_forward) const {
  const double eps = number("rms_norm_eps");
  Rows x;
  for (const TokenId id : run.ids()) x.push_back(matrix("model.embed_tokens.weight")[static_cast<std::size_t>(id)]);
  for (int layer = 0; layer < integer("num_hidden_layers"); ++layer) {
    const auto check = [&](const SubLayer& sub_layer, const char* norm, const char* output, const char* sum) {
      sub_layer(layer, rms(x, fmt::format("model.layers.{}.{}.weight", layer, norm), eps));
      add(x, run.rows(layer, output));
      errors.add(sum, run.rows(layer, sum), x);
      x = run.rows(layer, sum);
    };
    check(attention, "input_layernorm", "attn_out", "resid_mid");
    check(feed_forward, "post_attention_layernorm", "ffn_out", "resid_out");
  }
  const char* head = flag("tie_word_embeddings", false) ? "model.embed_tokens.weight" : "lm_head.weight";
  const Rows last = rms(x, "model.norm.weight", eps);
  errors.add("logits", run.logits(), rounds_head_ ? default_project(last, head) : project(last, head));
}

}  // namespace sluice
