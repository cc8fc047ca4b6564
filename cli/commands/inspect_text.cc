#include "cli/commands/inspect_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "base/formats/block_codes.h"
#include "base/progress.h"
#include "cache/pages/page_geometry.h"
#include "files/safetensors.h"

namespace sluice {
namespace {

std::string mib(std::size_t bytes) {
  return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / 1048576);
}

// "layers.3.attn.wq_a.weight" belongs to "layers.3", "model.layers.3.mlp.x" to "model.layers.3", "head.weight" to
// "head".
std::string owner_of(const std::string& name) {
  std::size_t at = 0;
  while (at != std::string::npos) {
    const std::size_t dot = name.find('.', at);
    const std::string_view part = std::string_view(name).substr(at, dot - at);
    if (!part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; })) {
      return name.substr(0, dot);
    }
    at = dot == std::string::npos ? dot : dot + 1;
  }
  return name.substr(0, name.find_first_of("._"));
}

std::string every_tensor(const std::vector<InspectedTensor>& tensors) {
  std::size_t width = 6;
  for (const InspectedTensor& tensor : tensors) width = std::max(width, tensor.name.size());
  std::string text = fmt::format("  {:<{}} {:<8} {:>14}  {}\n", "tensor", width, "dtype", "bytes", "shape");
  for (const InspectedTensor& tensor : tensors) {
    fmt::format_to(std::back_inserter(text), "  {:<{}} {:<8} {:>14}  {}\n", tensor.name, width,
                   dtype_name(tensor.dtype), tensor.bytes, shape_text(tensor.shape));
  }
  return text;
}

std::string tensors_by_layer(const std::vector<InspectedTensor>& tensors) {
  struct Sum {
    std::string owner;
    std::size_t tensors = 0, bytes = 0;
    std::map<DType, std::size_t> bytes_by_dtype;
  };
  std::vector<Sum> sums;  // in the order of first appearance
  std::map<std::string, std::size_t> index;
  for (const InspectedTensor& tensor : tensors) {
    const std::string owner = owner_of(tensor.name);
    const auto [found, added] = index.emplace(owner, sums.size());
    if (added) sums.push_back({owner, 0, 0, {}});
    Sum& sum = sums[found->second];
    ++sum.tensors;
    sum.bytes += tensor.bytes;
    sum.bytes_by_dtype[tensor.dtype] += tensor.bytes;
  }
  std::string text = fmt::format("  {:<16} {:>8} {:>14}  {}\n", "part", "tensors", "bytes", "of them");
  for (const Sum& sum : sums) {
    std::string parts;
    for (const auto& [dtype, bytes] : sum.bytes_by_dtype) {
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", dtype_name(dtype),
                           format_bytes(static_cast<double>(bytes)));
    }
    fmt::format_to(std::back_inserter(text), "  {:<16} {:>8} {:>14}  {}\n", sum.owner, sum.tensors, sum.bytes, parts);
  }
  return text;
}

std::string weights_text(const ModelConfig& config, const std::vector<InspectedTensor>& tensors) {
  const QuantizationConfig& q = config.quantization;
  if (q.fp8) {
    return fmt::format("fp8 in blocks of {}x{}, experts {}", q.block_rows, q.block_columns, config.moe.expert_dtype);
  }
  // Blocks of integers are multiplied as they are (kernels/ops/linear.h); others become f32 at load.
  std::set<std::string_view> kept, widened;
  for (const InspectedTensor& tensor : tensors) {
    if (!is_block_dtype(tensor.dtype)) continue;
    (block_codes(tensor.dtype).inputs > 0 ? kept : widened).insert(dtype_name(tensor.dtype));
  }
  if (kept.empty() && widened.empty()) return "not quantised";
  std::string text = fmt::format("{}", fmt::join(kept, ", "));
  if (!widened.empty()) {
    text += fmt::format("{}{}, as f32 in memory", kept.empty() ? "" : "; ", fmt::join(widened, ", "));
  }
  return text;
}

struct PlaneName {
  std::string layer, kind;
};

// "layers.3.csa" is of layer 3 and of kind "csa", "layers.3.kv.0" (one a head) of kind "kv".
PlaneName split_plane_name(const std::string& name) {
  std::vector<std::string> parts;
  std::istringstream in(name);
  for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
  if (parts.size() < 3) return {name, name};
  return {parts[0] + "." + parts[1], parts[2]};
}

// Returns the bytes of two open states and of the window pages that a sequence at rest holds.
std::size_t sequence_bytes(const CacheLayout& layout) {
  const auto pages = static_cast<std::size_t>(PageGeometry::of(layout).steady_window_pages());
  return layout.window_page_bytes() * pages + 2 * layout.open_bytes();
}

}  // namespace

std::string config_text(const ModelPlan& plan, const std::vector<InspectedTensor>& tensors) {
  const ModelConfig& config = plan.config;
  std::string text;
  const auto line = [&text](std::string_view name, const std::string& value) {
    fmt::format_to(std::back_inserter(text), "  {:<12} {}\n", name, value);
  };
  line("model", fmt::format("{} ({})", config.architecture, config.model_type));
  line("sizes", fmt::format("hidden {}, vocabulary {}, context {}", config.hidden_size, config.vocab_size,
                            config.max_position_embeddings));
  for (const PlanFact& fact : plan.facts) line(fact.name, fact.text);
  line("weights", weights_text(config, tensors));
  line("profile", plan.profile.text());
  return text;
}

std::string tensor_text(const std::vector<InspectedTensor>& tensors, const ParameterCount& parameters, bool all) {
  std::size_t bytes = 0;
  for (const InspectedTensor& tensor : tensors) bytes += tensor.bytes;
  return fmt::format("{} tensors, {} bytes ({}); {} parameters, {} active\n{}", tensors.size(), bytes,
                     format_bytes(static_cast<double>(bytes)), parameters.all, parameters.active,
                     all ? every_tensor(tensors) : tensors_by_layer(tensors));
}

std::string cache_text(const CacheLayout& layout) {
  struct Kind {
    const PlaneSpec* first = nullptr;
    std::set<std::string> layers;
    std::size_t planes = 0, initial_bytes = 0;
  };
  std::map<std::pair<std::string, PlaneKind>, Kind> kinds;
  for (const PlaneSpec& plane : layout.planes) {
    const PlaneName name = split_plane_name(plane.name);
    Kind& kind = kinds[{name.kind, plane.kind}];
    if (kind.first == nullptr) kind.first = &plane;
    kind.layers.insert(name.layer);
    ++kind.planes;
    kind.initial_bytes += plane.initial.size();
  }
  std::string text = fmt::format("cache\n  {:<12} {:<7} {:>6} {:>10} {:>12} {:>14}  {}\n", "plane", "kind", "layers",
                                 "row bytes", "tokens a row", "bytes a token", "bytes a sequence");
  const PageGeometry geometry = PageGeometry::of(layout);
  for (const auto& [key, kind] : kinds) {
    const PlaneSpec& s = *kind.first;
    const std::size_t row = static_cast<std::size_t>(s.format.row_bytes()) * kind.planes;  // a row of all layers
    std::string rows = "-", tokens = "-", per_token = "-", per_sequence = "-";
    if (s.kind != PlaneKind::kOpen) {
      rows = std::to_string(row / kind.layers.size());
      tokens = std::to_string(s.tokens_per_row);
    }
    const std::size_t in_window_pages =
        kind.planes * s.page_bytes() * static_cast<std::size_t>(geometry.steady_window_pages());
    if (s.kind == PlaneKind::kLatent) {
      per_token = fmt::format("{:.2f}", static_cast<double>(kind.planes * s.page_bytes()) / kBlockTokens);
    } else {  // an open state has two copies, besides those in window pages
      per_sequence = std::to_string(2 * kind.initial_bytes + in_window_pages);
    }
    fmt::format_to(std::back_inserter(text), "  {:<12} {:<7} {:>6} {:>10} {:>12} {:>14}  {}\n", key.first,
                   sluice::name(s.kind), kind.layers.size(), rows, tokens, per_token, per_sequence);
  }
  const std::size_t per_sequence = sequence_bytes(layout);
  fmt::format_to(std::back_inserter(text),
                 "  a token costs {:.2f} bytes, a running sequence {} bytes beside ({} window pages, open state "
                 "twice), and an open "
                 "state more for each token that a step may draft\n"
                 "  a latent page of 128 tokens has {} bytes, a window page {} bytes, an open state {} bytes\n",
                 layout.latent_bytes_per_token(), per_sequence, geometry.steady_window_pages(),
                 layout.latent_page_bytes(), layout.window_page_bytes(), layout.open_bytes());
  return text;
}

std::string cache_types_text(const std::vector<InspectedCache>& caches) {
  std::string text = fmt::format("cache by type\n  {:<10} {:<10} {:>14}  {}\n", "KV rows", "index rows",
                                 "bytes a token", "bytes a sequence");
  for (const InspectedCache& cache : caches) {
    fmt::format_to(std::back_inserter(text), "  {:<10} {:<10} {:>14.2f}  {}\n", cache.kv, cache.index,
                   cache.layout.latent_bytes_per_token(), sequence_bytes(cache.layout));
  }
  return text;
}

std::string memory_text(const MemoryPlan& plan, const MemoryRequest& request) {
  std::string text = fmt::format("memory plan for {} of cache\n", mib(request.budget_bytes));
  fmt::format_to(std::back_inserter(text), "  sequences    {} at once, {} rows a step, at most {} tokens each\n",
                 plan.sequences, request.max_batched_tokens, request.max_model_len);
  fmt::format_to(std::back_inserter(text), "  latent       {} pages of 128 tokens, {}\n", plan.latent_pages,
                 mib(plan.latent_bytes));
  fmt::format_to(std::back_inserter(text), "  window       {} pages, {}\n", plan.window_pages, mib(plan.window_bytes));
  fmt::format_to(std::back_inserter(text), "  open         {}\n  all          {}\n", mib(plan.open_bytes),
                 mib(plan.total_bytes()));
  return text;
}

}  // namespace sluice
