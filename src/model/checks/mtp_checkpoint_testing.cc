#include "model/checks/mtp_checkpoint_testing.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/formats/number_formats.h"
#include "config/gguf/gguf_config.h"
#include "files/checkpoint.h"
#include "files/json.h"
#include "model/model_plan.h"

namespace sluice {
namespace {

// Norms near one, everything else such that products keep their size.
std::string random_bytes(const PlannedTensor& tensor, std::mt19937& random) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  const bool norm = tensor.shape.size() == 1 && tensor.name.find("norm") != std::string::npos;
  const double scale = tensor.shape.size() == 1 ? 0.1 : 1.5 / std::sqrt(static_cast<double>(tensor.shape.back()));
  std::normal_distribution<double> normal;
  std::string bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool centred = tensor.name.ends_with("bias");
    const auto value = static_cast<float>((norm && !centred ? 1 : 0) + scale * normal(random));
    const std::uint16_t half = to_bf16(value).bits;
    const bool wide = tensor.dtype == DType::kF32;
    bytes.append(wide ? reinterpret_cast<const char*>(&value) : reinterpret_cast<const char*>(&half), wide ? 4 : 2);
  }
  return bytes;
}

void write_layer(const ModelPlan& plan, const std::string& file, boost::json::object& index) {
  std::mt19937 random(20251124);
  boost::json::object header;
  std::string data;
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.group.empty() || tensor.left) continue;
    const std::string bytes = random_bytes(tensor, random);
    const bool wide = tensor.dtype == DType::kF32;
    header[tensor.name] = {{"dtype", wide ? "F32" : "BF16"},
                           {"shape", boost::json::value_from(tensor.shape)},
                           {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    index[tensor.name] = "mtp.safetensors";
    data += bytes;
  }
  const std::string text = boost::json::serialize(header);
  const std::uint64_t size = text.size();
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof(size));
  out << text << data;
}

}  // namespace

MtpCheckpoint::MtpCheckpoint(const std::string& folder)
    : changed_(folder, [](boost::json::object& config) { config["num_nextn_predict_layers"] = 1; }) {
  boost::json::object index;
  const Checkpoint main = Checkpoint::open(folder, gguf_names).value();
  for (const TensorView* tensor : main.tensors()) index[tensor->name] = "main.safetensors";
  std::filesystem::rename(path() + "/model.safetensors", path() + "/main.safetensors");
  EngineSetup options;
  options.mtp = true;
  const ModelPlan plan = plan_model(load_model_config(path()).value(), options).value();
  write_layer(plan, path() + "/mtp.safetensors", index);
  std::ofstream(path() + "/model.safetensors.index.json")
      << boost::json::serialize(boost::json::object{{"weight_map", index}});
}

}  // namespace sluice
