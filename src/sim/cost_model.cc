// Used by calibrate.cc, cli/commands/simulate_command.cc, load_estimate.h and simulation.h.
#include "sim/cost_model.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "base/storage/mapped_file.h"
#include "files/json.h"
#include "files/json_fields.h"

namespace sluice {
namespace {

constexpr double kMostSeconds = 1e6;

struct Term {
  const char* name;
  double CostModel::* value;
};
constexpr Term kTerms[] = {
    {"step", &CostModel::step}, {"weights", &CostModel::weights}, {"half_rows", &CostModel::half_rows},
    {"row", &CostModel::row},   {"span", &CostModel::span},       {"context", &CostModel::context},
    {"read", &CostModel::read}, {"draft", &CostModel::draft},
};

std::string term_names() {
  std::string names;
  for (const Term& term : kTerms) names += fmt::format("{}{}", names.empty() ? "" : ", ", term.name);
  return names;
}

Status check(const CostModel& cost) {
  bool any = false;
  for (const Term& term : kTerms) {
    const double value = cost.*term.value;
    if (!(value >= 0 && value <= kMostSeconds)) {
      return invalid_argument(fmt::format("--cost: {}: expected 0 to {}, found {}", term.name, kMostSeconds, value));
    }
    any |= value > 0 && term.value != &CostModel::half_rows;
  }
  if (!any) return invalid_argument("--cost: expected a term above 0, so that time passes; found none");
  return {};
}

Result<CostModel> parse_file(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  SLUICE_ASSIGN_OR_RETURN(const boost::json::value value, parse_json(text, path));
  CostModel cost;
  JsonFields fields(value, path);
  for (const Term& term : kTerms) fields.read(term.name, cost.*term.value, 0, kMostSeconds);
  SLUICE_RETURN_IF_ERROR(fields.status());
  return cost;
}

Result<CostModel> parse_terms(std::string_view text) {
  CostModel cost;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const std::size_t equals = item.find('=');
    const std::string_view name = item.substr(0, equals);
    const std::string_view number = equals == std::string_view::npos ? "" : item.substr(equals + 1);
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const Term* term =
        std::find_if(std::begin(kTerms), std::end(kTerms), [&](const Term& t) { return t.name == name; });
    if (term == std::end(kTerms) || error != std::errc() || end != number.data() + number.size()) {
      std::string presets;
      for (const CostPreset& preset : cost_presets()) presets += fmt::format("{}, ", preset.name);
      return invalid_argument(
          fmt::format("--cost: expected calibrate, {}a file, or term=seconds split by commas with the terms {}; found "
                      "'{}'",
                      presets, term_names(), item));
    }
    cost.*term->value = value;
  }
  return cost;
}

}  // namespace

const std::vector<CostPreset>& cost_presets() {
  static const std::vector<CostPreset> presets = {
      {"v4-pro-8gpu",
       "DeepSeek-V4-Pro on eight large GPUs, tensor parallel",
       {.step = 18.6e-3,
        .weights = 31e-3,
        .half_rows = 124,
        .row = 31e-6,
        .span = 0,
        .context = 0,
        .read = 0,
        .draft = 0}},
      {"dense-attention-8gpu",
       "a large model whose attention reads all of its context, on eight large GPUs",
       {.step = 18.6e-3,
        .weights = 31e-3,
        .half_rows = 124,
        .row = 31e-6,
        .span = 0,
        .context = 3.44e-10,
        .read = 0,
        .draft = 0}},
  };
  return presets;
}

double CostModel::step_seconds(const StepPlan& plan) const {
  double before_rows = 0, before_spans = 0, drafts = 0;
  for (const Span& s : plan.spans) {
    const double rows = s.rows, before = s.first_position;
    before_spans += before;
    drafts += s.drafts;
    before_rows += rows * (before + (rows - 1) / 2);
  }
  const double rows = plan.rows;
  return step + weights * rows / (rows + half_rows) + row * rows + span * static_cast<double>(plan.spans.size()) +
         context * before_rows + read * before_spans + draft * drafts;
}

std::string CostModel::text() const {
  std::string text;
  for (const Term& term : kTerms) {
    if (this->*term.value == 0 || (weights == 0 && term.value == &CostModel::half_rows)) continue;
    text += fmt::format("{}{}={:.4g}", text.empty() ? "" : ",", term.name, this->*term.value);
  }
  return text;
}

Result<CostModel> parse_cost(const std::string& text) {
  for (const CostPreset& preset : cost_presets()) {
    if (preset.name == text) return preset.cost;
  }
  std::error_code error;
  Result<CostModel> cost = std::filesystem::is_regular_file(text, error) ? parse_file(text) : parse_terms(text);
  if (!cost.ok()) return cost;
  SLUICE_RETURN_IF_ERROR(check(*cost));
  return cost;
}

}  // namespace sluice
