// linear_step_bench: every linear layer of a model of DeepSeek-V4's kind, one after the other, with weights in memory:
// what a step costs but for attention, norms and mixing. Experts are drawn at random for each token.
//
// The shapes are those of a small V4-Flash: hidden 2048, 16 heads of 512, 32 experts of 1,024, six a token, and a
// head of 32,768 tokens.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/experts.h"
#include "kernels/isa.h"
#include "measure/machine_probe.h"

namespace sluice {
namespace {

struct Options {
  std::string isa = "auto", kernels;
  int threads = 2, layers = 16, rounds = 7;
  bool f32 = false;
  std::vector<int> rows{1, 16, 512};
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
    return LinearWeight::pack(exec_, view, f32_ ? InputForm::kF32 : InputForm::kInt8);
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
  }

  void print() {
    fmt::print("{:>6}{:>9}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "rows", "part", "ms", "GB/s", "% read", "GFLOP/s",
               "f32 peak", "tok/s");
    for (const int rows : options_.rows) {
      prepare(rows);
      const MachineSpeed speed = MachineProbe(&pool_, probe_bytes_per_thread(pool_.threads())).measure();
      const double read = speed.read_gbytes, fma = speed.f32_gflops;
      std::vector<double> dense, experts, head;
      for (int round = 0; round < options_.rounds; ++round) {
        double times[3] = {};
        for (const Layer& layer : layers_) {
          times[0] += seconds_of([&] { run_dense(layer, rows); });
          times[1] += seconds_of([&] { run_experts(layer, rows); });
        }
        times[2] = seconds_of([&] { run_one(head_, rows, normed_, kHidden, logits_); });
        dense.push_back(times[0]), experts.push_back(times[1]), head.push_back(times[2]);
      }
      const double parts[] = {median(dense), median(experts), median(head)};
      const double bytes[] = {dense_bytes(), expert_bytes(), static_cast<double>(head_.packed_bytes())};
      const double macs[] = {rows * dense_macs(), rows * expert_macs(), 1.0 * rows * kHidden * kVocabulary};
      const char* names[] = {"dense", "experts", "head", "step"};
      double total[3] = {};
      for (int i = 0; i < 4; ++i) {
        const double t = i < 3 ? parts[i] : total[0], b = i < 3 ? bytes[i] : total[1], m = i < 3 ? macs[i] : total[2];
        if (i < 3) total[0] += t, total[1] += b, total[2] += m;
        fmt::print("{:>6}{:>9}{:>10.2f}{:>10.1f}{:>10.1f}{:>10.0f}{:>10.1f}{:>10.1f}\n", rows, names[i], 1e3 * t,
                   b / t * 1e-9, 100 * b / t * 1e-9 / read, 2 * m / t * 1e-9, 200 * m / t * 1e-9 / fma, rows / t);
      }
    }
  }

 private:
  static double median(std::vector<double> v) {
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
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

  void prepare(int rows) {
    const auto fill = [&](std::vector<float>& v, int width) {
      std::normal_distribution<float> normal;
      v.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(width));
      for (float& x : v) x = normal(random_);
    };
    fill(normed_, kHidden), fill(q_a_, kQueryRank), fill(o_, kHeads * kHeadDim), fill(u_, kGroups * kGroupOut);
    fill(y_, kHidden), fill(kv_, kHeadDim), fill(q_, kHeads * kHeadDim), fill(logits_, kVocabulary);
    ids_.clear();
    std::vector<std::int32_t> all(kExperts);
    for (int e = 0; e < kExperts; ++e) all[static_cast<std::size_t>(e)] = e;
    touched_ = 0;
    std::vector<bool> seen(kExperts);
    for (int r = 0; r < rows; ++r) {
      std::shuffle(all.begin(), all.end(), random_);
      ids_.insert(ids_.end(), all.begin(), all.begin() + kSlots);
    }
    for (const std::int32_t id : ids_) seen[static_cast<std::size_t>(id)] = true;
    touched_ = static_cast<int>(std::count(seen.begin(), seen.end(), true));
    weights_.assign(ids_.size(), 0.25F);
  }

  void run_one(const LinearWeight& w, int rows, const std::vector<float>& x, int ldx, std::vector<float>& y) {
    const LinearJob job{.weight = &w, .x = x.data(), .ldx = ldx, .y = y.data(), .ldy = w.out()};
    linear(exec_, rows, {&job, 1});
  }

  void run_dense(const Layer& layer, int rows) {
    const LinearJob first[] = {{&layer.q_a, normed_.data(), kHidden, q_a_.data(), kQueryRank},
                               {&layer.kv, normed_.data(), kHidden, kv_.data(), kHeadDim}};
    linear(exec_, rows, first);
    run_one(layer.q_b, rows, q_a_, kQueryRank, q_);
    std::vector<LinearJob> groups;
    for (int g = 0; g < kGroups; ++g) {
      groups.push_back({&layer.o_a[static_cast<std::size_t>(g)], o_.data() + g * (kHeads * kHeadDim / kGroups),
                        kHeads * kHeadDim, u_.data() + g * kGroupOut, kGroups * kGroupOut});
    }
    linear(exec_, rows, groups);
    run_one(layer.o_b, rows, u_, kGroups * kGroupOut, y_);
  }

  void run_experts(const Layer& layer, int rows) {
    experts(exec_, {.rows = rows,
                    .hidden = kHidden,
                    .slots = kSlots,
                    .x = contiguous_rows(normed_.data(), kHidden),
                    .expert_ids = ids_.data(),
                    .expert_weights = weights_.data(),
                    .experts = layer.experts,
                    .shared = &layer.shared,
                    .limit = 10.0F,
                    .y = y_.data()});
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
  double expert_bytes() const {
    double bytes = 0;
    for (const Layer& l : layers_) bytes += of(l.shared) + touched_ * of(l.experts[0]);
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
  std::vector<Layer> layers_;
  LinearWeight head_;
  std::mt19937 random_{2};
  std::vector<float> normed_, q_a_, kv_, q_, o_, u_, y_, logits_, weights_;
  std::vector<std::int32_t> ids_;
  int touched_ = 0;
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
  app.add_flag("--f32", options.f32, "f32 inputs everywhere");
  CLI11_PARSE(app, argc, argv);
  sluice::Step(options).print();
  return 0;
}
