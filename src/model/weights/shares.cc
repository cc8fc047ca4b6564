// Used by model, model/decoder, model/deepseek_mla and model/deepseek_v4.
#include "model/weights/shares.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {

std::vector<std::string> deal_weights(const RankGroup& group, std::span<const SharedWeights> shared,
                                      WeightTable& table) {
  std::vector<std::string> whole;
  if (group.ranks == 1) return whole;
  const auto deal = [&](WeightSpec& spec, const SharedWeights& rule) {
    const std::int64_t outputs = spec.shape.front(), runs = rule.runs > 0 ? rule.runs : outputs / kShareStrip;
    if (rule.copied && runs < group.ranks && group.ranks % runs == 0) {
      const std::int64_t size = outputs / runs;
      spec.share = {group.rank / (group.ranks / runs) * size, size};
    } else if (rule.runs > 0 ? deals(group, runs) : deals_outputs(group, outputs)) {
      spec.share = share_of(group, outputs);
    } else {
      const std::string note = fmt::format("{} ({} {})", rule.name, rule.runs > 0 ? runs : outputs,
                                           rule.runs > 0 ? "runs of heads" : "outputs");
      if (std::ranges::find(whole, note) == whole.end()) whole.push_back(note);
    }
  };
  for (WeightSpec& spec : table) {
    const std::string& name = spec.names.front().name;
    const auto rule =
        std::ranges::find_if(shared, [&](const SharedWeights& s) { return name.find(s.name) != std::string::npos; });
    if (rule != shared.end()) {
      deal(spec, *rule);
    } else if (spec.role == WeightRole::kLogits || (spec.for_drafts && deals_outputs(group, spec.shape.front()))) {
      deal(spec, {.name = name});
    }
  }
  return whole;
}

}  // namespace sluice
