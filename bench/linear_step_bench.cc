// linear_step_bench: times every linear layer of a model of DeepSeek-V4's kind, one after the other, with weights in
// memory. This is the cost of a step without attention, norms and mixing. Experts are drawn at random for each token
// and layer.
//
// "x first" is a part's time relative to the first number of rows (--rows 1,2,3,4,5), "bytes x" the same for its bytes.
// "beyond" is the one divided by the other: 1 if rows cost only the bytes that they read. The shapes are those of a
// small V4-Flash: hidden 2048, 16 heads of 512, 32 experts of 1,024, six a token, and a head of 32,768 tokens.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/machine_probe.h"
#include "kernels/device/isa.h"
#include "kernels/ops/experts.h"

namespace sluice {
namespace {

struct Options {
  std::string isa = "auto", kernels;
  int threads = 2, layers = 16, rounds = 7;
  bool f32 = false, tiles = false;
  std::vector<int> rows{1, 2, 3, 4, 5, 6, 7, 8, 16, 512};
};

constexpr int kHidden = 2048, kHeads = 16, kHeadDim = 512, kQueryRank = 1024, kGroups = 4, kGroupOut = 512;
constexpr int kExperts = 32, kSlots = 6, kInter = 1024, kVocabulary = 32768;

class Weights {
 public:
  Weights(const Exec& exec, bool f32) : exec_(exec), f32_(f32) {}

  LinearWeight fp8(int out, int in) { return make(WeightFormat::kFp8, out, in, 128, 128); }
  LinearWeight mxfp4(int out, int in) { return make(WeightFormat::kMxfp4, out, in, 1, 32); }
  LinearWeight bf16(int out, int in) { return make(WeightFormat::kBf16, out, in, 0, 0); }

 private:
  LinearWeight make(WeightFormat format, int out, int in, int block_out, int block_in) {
    WeightView view{.format = format, .out = out, .in = in};
    data_.resize(view.row_bytes() * static_cast<std::size_t>(out));
    for (std::size_t i = 0; i + 4 <= data_.size(); i += 4) {
      const auto word = static_cast<std::uint32_t>(random_()) & 0xBFBFBFBFU;
      std::copy_n(reinterpret_cast<const std::byte*>(&word), 4, data_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    view.data = data_.data();
    if (block_in > 0) {
      view.scale_format = ScaleFormat::kE8m0;
      view.block_out = block_out;
      view.block_in = block_in;
      view.scale_columns = (in + block_in - 1) / block_in;
      scales_.assign(static_cast<std::size_t>((out + block_out - 1) / block_out * view.scale_columns), std::byte{120});
      view.scales = scales_.data();
    }
    return LinearWeight::make(view, f32_ ? InputForm::kF32 : InputForm::kInt8, packs_for(exec_));
  }

  const Exec& exec_;
  bool f32_;
  std::mt19937 random_{1};
  std::vector<std::byte> data_, scales_;
};

struct Layer {
  LinearWeight q_a, kv, q_b, o_b;
  std::vector<LinearWeight> o_a;
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;
};

class Step {
 public:
  explicit Step(const Options& options) : options_(options), pool_(options.threads) {
    auto table = select_kernels(options.isa, options.kernels);
    if (!table.ok()) throw CLI::ValidationError(std::string(table.status().message()));
    exec_ = {&pool_, *table};
    Weights make(exec_, options.f32);
    for (int i = 0; i < options.layers; ++i) layers_.push_back(make_layer(make));
    head_ = make.bf16(kVocabulary, kHidden);
    if (!options.tiles) return;
    for (const Layer& layer : layers_) in_tiles_.push_back(as_tiles(layer));
    head_in_tiles_ = as_tiles(head_);
  }

  // Times are the shortest of the rounds, each of which has all numbers of rows: what else the machine does only adds.
  void print() {
    fmt::print("{:>6}{:>9}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>9}{:>9}{:>9}\n", "rows", "part", "ms", "GB/s",
               "% read", "GFLOP/s", "f32 peak", "tok/s", "x first", "bytes x", "beyond");
    std::vector<Batch> batches;
    for (const int rows : options_.rows) {
      batches.push_back(prepare(rows));
      if (!options_.tiles) continue;
      batches.push_back(batches.back());
      batches.back().tiles = true;
    }
    MachineSpeed speed;
    for (int round = 0; round < options_.rounds; ++round) {
      const MachineSpeed now =
          MachineProbe(&pool_, probe_bytes_per_thread(pool_.threads()), features_of(*exec_.kernels)).measure();
      speed.read_gbytes = std::max(speed.read_gbytes, now.read_gbytes);
      speed.f32_gflops = std::max(speed.f32_gflops, now.f32_gflops);
      for (Batch& batch : batches) measure(batch);
    }
    Parts first = parts_of(batches.front());
    for (const Batch& batch : batches) {
      if (options_.tiles && !batch.tiles) first = parts_of(batch);
      print(batch.rows, batch.tiles ? " tiles" : "", parts_of(batch), first, speed);
    }
  }

 private:
  enum Part { kDense, kExpertParts, kHead, kStep, kParts };
  struct Parts {
    double seconds[kParts], bytes[kParts], multiply_adds[kParts];
  };

  // Inputs, and a layer's experts for each row.
  struct Batch {
    int rows = 0;
    bool tiles = false;
    std::vector<float> normed, q_a, kv, q, o, u, y, logits, weights;
    std::vector<std::vector<std::int32_t>> ids;
    int touched = 0;  // experts of all layers
    double seconds[kStep] = {1e9, 1e9, 1e9};
  };

  void measure(Batch& batch) {
    double times[kStep] = {};
    const std::vector<Layer>& layers = batch.tiles ? in_tiles_ : layers_;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      times[kDense] += seconds_of([&] { run_dense(layers[i], batch); });
      times[kExpertParts] += seconds_of([&] { run_experts(layers[i], batch.ids[i], batch); });
    }
    times[kHead] = seconds_of(
        [&] { run_one(batch.tiles ? head_in_tiles_ : head_, batch.rows, batch.normed, kHidden, batch.logits); });
    for (int i = 0; i < kStep; ++i) batch.seconds[i] = std::min(batch.seconds[i], times[i]);
  }

  Parts parts_of(const Batch& batch) const {
    Parts parts{{batch.seconds[kDense], batch.seconds[kExpertParts], batch.seconds[kHead]},
                {dense_bytes(), expert_bytes(batch.touched), static_cast<double>(head_.packed_bytes())},
                {batch.rows * dense_macs(), batch.rows * expert_macs(), 1.0 * batch.rows * kHidden * kVocabulary}};
    for (int i = 0; i < kStep; ++i) {
      parts.seconds[kStep] += parts.seconds[i];
      parts.bytes[kStep] += parts.bytes[i];
      parts.multiply_adds[kStep] += parts.multiply_adds[i];
    }
    return parts;
  }

  static void print(int rows, const char* profile, const Parts& parts, const Parts& first, const MachineSpeed& speed) {
    const char* names[] = {"dense", "experts", "head", "step"};
    for (int i = 0; i < kParts; ++i) {
      const double t = parts.seconds[i], b = parts.bytes[i], m = parts.multiply_adds[i];
      const double ratio = t / first.seconds[i], bytes_ratio = b / first.bytes[i];
      fmt::print("{:>6}{:>9}{:>10.2f}{:>10.1f}{:>10.1f}{:>10.0f}{:>10.1f}{:>10.1f}{:>9.2f}{:>9.2f}{:>9.2f}{}\n", rows,
                 names[i], 1e3 * t, b / t * 1e-9, 100 * b / t * 1e-9 / speed.read_gbytes, 2 * m / t * 1e-9,
                 200 * m / t * 1e-9 / speed.f32_gflops, rows / t, ratio, bytes_ratio, ratio / bytes_ratio, profile);
    }
  }

  // The same packed bytes, in the order of tiles.
  static LinearWeight as_tiles(const LinearWeight& w) {
    return LinearWeight::make(w.view(), InputForm::kTiles, {.packed = w.packed(), .packed_bytes = w.packed_bytes()});
  }
  static ExpertWeights as_tiles(const ExpertWeights& e) { return {as_tiles(e.gate), as_tiles(e.up), as_tiles(e.down)}; }
  static Layer as_tiles(const Layer& layer) {
    Layer tiles{as_tiles(layer.q_a),   as_tiles(layer.kv), as_tiles(layer.q_b), as_tiles(layer.o_b), {}, {},
                as_tiles(layer.shared)};
    for (const LinearWeight& w : layer.o_a) tiles.o_a.push_back(as_tiles(w));
    for (const ExpertWeights& e : layer.experts) tiles.experts.push_back(as_tiles(e));
    return tiles;
  }

  static Layer make_layer(Weights& make) {
    Layer layer;
    layer.q_a = make.fp8(kQueryRank, kHidden);
    layer.kv = make.fp8(kHeadDim, kHidden);
    layer.q_b = make.fp8(kHeads * kHeadDim, kQueryRank);
    for (int g = 0; g < kGroups; ++g) layer.o_a.push_back(make.fp8(kGroupOut, kHeads * kHeadDim / kGroups));
    layer.o_b = make.fp8(kHidden, kGroups * kGroupOut);
    for (int e = 0; e < kExperts; ++e) {
      layer.experts.push_back({make.mxfp4(kInter, kHidden), make.mxfp4(kInter, kHidden), make.mxfp4(kHidden, kInter)});
    }
    layer.shared = {make.fp8(kInter, kHidden), make.fp8(kInter, kHidden), make.fp8(kHidden, kInter)};
    return layer;
  }

  Batch prepare(int rows) {
    Batch batch;
    batch.rows = rows;
    const auto fill = [&](std::vector<float>& v, int width) {
      std::normal_distribution<float> normal;
      v.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(width));
      for (float& x : v) x = normal(random_);
    };
    fill(batch.normed, kHidden), fill(batch.q_a, kQueryRank), fill(batch.o, kHeads * kHeadDim);
    fill(batch.u, kGroups * kGroupOut), fill(batch.y, kHidden), fill(batch.kv, kHeadDim);
    fill(batch.q, kHeads * kHeadDim), fill(batch.logits, kVocabulary);
    batch.weights.assign(static_cast<std::size_t>(rows * kSlots), 0.25F);
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) draw_experts(batch);
    return batch;
  }

  void draw_experts(Batch& batch) {
    std::vector<std::int32_t> all(kExperts), ids;
    std::iota(all.begin(), all.end(), 0);
    std::vector<bool> seen(kExperts);
    for (int r = 0; r < batch.rows; ++r) {
      std::shuffle(all.begin(), all.end(), random_);
      ids.insert(ids.end(), all.begin(), all.begin() + kSlots);
    }
    for (const std::int32_t id : ids) seen[static_cast<std::size_t>(id)] = true;
    batch.touched += static_cast<int>(std::count(seen.begin(), seen.end(), true));
    batch.ids.push_back(std::move(ids));
  }

  void run_one(const LinearWeight& w, int rows, const std::vector<float>& x, int ldx, std::vector<float>& y) {
    const LinearJob job{.weight = &w, .x = x.data(), .ldx = ldx, .y = y.data(), .ldy = w.out()};
    linear(exec_, rows, {&job, 1});
  }

  void run_dense(const Layer& layer, Batch& batch) {
    const LinearJob first[] = {{&layer.q_a, batch.normed.data(), kHidden, batch.q_a.data(), kQueryRank},
                               {&layer.kv, batch.normed.data(), kHidden, batch.kv.data(), kHeadDim}};
    linear(exec_, batch.rows, first);
    run_one(layer.q_b, batch.rows, batch.q_a, kQueryRank, batch.q);
    std::vector<LinearJob> groups;
    for (int g = 0; g < kGroups; ++g) {
      groups.push_back({&layer.o_a[static_cast<std::size_t>(g)], batch.o.data() + g * (kHeads * kHeadDim / kGroups),
                        kHeads * kHeadDim, batch.u.data() + g * kGroupOut, kGroups * kGroupOut});
    }
    linear(exec_, batch.rows, groups);
    run_one(layer.o_b, batch.rows, batch.u, kGroups * kGroupOut, batch.y);
  }

  void run_experts(const Layer& layer, const std::vector<std::int32_t>& ids, Batch& batch) {
    experts(exec_, {.rows = batch.rows,
                    .hidden = kHidden,
                    .slots = kSlots,
                    .x = contiguous_rows(batch.normed.data(), kHidden),
                    .expert_ids = ids.data(),
                    .expert_weights = batch.weights.data(),
                    .experts = layer.experts,
                    .shared = &layer.shared,
                    .activation = {.limit = 10.0F},
                    .y = batch.y.data()});
  }

  static double of(const ExpertWeights& e) {
    return static_cast<double>(e.gate.packed_bytes() + e.up.packed_bytes() + e.down.packed_bytes());
  }
  double dense_bytes() const {
    double bytes = 0;
    for (const Layer& l : layers_) {
      bytes += static_cast<double>(l.q_a.packed_bytes() + l.kv.packed_bytes() + l.q_b.packed_bytes());
      bytes += static_cast<double>(l.o_b.packed_bytes());
      for (const LinearWeight& w : l.o_a) bytes += static_cast<double>(w.packed_bytes());
    }
    return bytes;
  }
  double expert_bytes(int touched) const {
    double bytes = touched * of(layers_[0].experts[0]);
    for (const Layer& l : layers_) bytes += of(l.shared);
    return bytes;
  }
  double dense_macs() const {
    return options_.layers * (1.0 * kHidden * (kQueryRank + kHeadDim) + 1.0 * kQueryRank * kHeads * kHeadDim +
                              1.0 * kHeads * kHeadDim * kGroupOut + 1.0 * kGroups * kGroupOut * kHidden);
  }
  double expert_macs() const { return options_.layers * 3.0 * kHidden * kInter * (kSlots + 1); }

  const Options& options_;
  ThreadPool pool_;
  Exec exec_;
  std::vector<Layer> layers_, in_tiles_;
  LinearWeight head_, head_in_tiles_;
  std::mt19937 random_{2};
};

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  CLI::App app{"The linear layers of a whole step, weights in memory"};
  sluice::Options options;
  app.add_option("--isa", options.isa)->capture_default_str();
  app.add_option("--kernels", options.kernels, "-amx,-vnni: leaves out kernels (see `sluice kernels`)");
  app.add_option("--threads", options.threads)->capture_default_str();
  app.add_option("--layers", options.layers)->capture_default_str();
  app.add_option("--rounds", options.rounds)->capture_default_str();
  app.add_option("--rows", options.rows)->delimiter(',')->capture_default_str();
  app.add_flag("--tiles", options.tiles,
               "The profile amx beside the default; \"x first\" is its time beside the default's");
  app.add_flag("--f32", options.f32, "f32 inputs everywhere");
  bool processor_time = false;
  app.add_flag("--processor-time", processor_time, "Time the processor instead of the clock; forces one thread");
  CLI11_PARSE(app, argc, argv);
  if (processor_time) {
    options.threads = 1;
    sluice::measure_with(sluice::TimeKind::kProcessor);
  }
  sluice::Step(options).print();
  return 0;
}
