// Used by serve, serve/api/openai and serve/generate.
#include "serve/generate/answer_constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/string.hpp>
#include <utility>
#include <vector>

#include "files/json.h"
#include "grammar/automata/matcher.h"
#include "grammar/behind_marker.h"

namespace sluice {
namespace {

namespace json = boost::json;
using Source = GrammarSource;

class ConstraintReader {
 public:
  ConstraintReader(RequestFields& fields, GenerationOptions& out) : fields_(fields), out_(out) {}

  const json::object* read() {
    const json::object* schema = read_response_format();
    read_structured_outputs();
    read_one(fields_, "", "guided_json", Source::Kind::kJsonSchema, false);
    read_one(fields_, "", "guided_regex", Source::Kind::kRegex, false);
    read_one(fields_, "", "guided_choice", Source::Kind::kChoice, false);
    read_one(fields_, "", "guided_grammar", Source::Kind::kEbnf, false);
    if (out_.constraint && out_.ignore_eos) {
      fields_.refuse("ignore_eos", fmt::format("ignore_eos: expected false with {}", out_.constraint_field),
                     "invalid_value");
    }
    if (out_.constraint && out_.rules.min_tokens > 0) {
      fields_.refuse("min_tokens", fmt::format("min_tokens: expected 0 with {}", out_.constraint_field),
                     "invalid_value");
    }
    return schema;
  }

 private:
  void set(Source source, std::string field) {
    if (out_.constraint) {
      return fields_.refuse(field,
                            fmt::format("{}: expected one constraint, found {} as well", field, out_.constraint_field),
                            "invalid_value");
    }
    out_.constraint = std::move(source);
    out_.constraint_field = std::move(field);
  }

  const json::object* read_response_format() {
    const json::object* format = fields_.read_object("response_format");
    if (format == nullptr) return nullptr;
    RequestFields inner(fields_, "response_format", *format);
    std::optional<std::string> type;
    inner.read("type", type);
    const json::object* schema = inner.read_object("json_schema");
    inner.finish();
    if (inner.error()) return nullptr;
    if (type == "text") return nullptr;
    if (type == "json_object") return set({.text = R"({"type":"object"})"}, "response_format"), nullptr;
    if (type != "json_schema" || schema == nullptr) {
      fields_.refuse("response_format",
                     "response_format: expected type \"text\", \"json_object\", or \"json_schema\" with json_schema",
                     "invalid_value");
      return nullptr;
    }
    RequestFields named(inner, "json_schema", *schema);
    std::optional<bool> strict;  // the answer is bound to the schema either way
    named.read("strict", strict);
    const json::object* body = named.read_object("schema");
    if (body == nullptr) named.fail("schema", "an object");
    named.finish();
    if (named.error()) return fields_.refuse_with(*named.error()), nullptr;
    set({.text = dump_json(*body)}, "response_format.json_schema.schema");
    return body;
  }

  void read_structured_outputs() {
    const json::object* object = fields_.read_object("structured_outputs");
    if (object == nullptr) return;
    const std::string path = "structured_outputs.";
    RequestFields inner(fields_, "structured_outputs", *object);
    std::optional<bool> compact, any_object;
    inner.read("disable_any_whitespace", compact);
    inner.read("json_object", any_object);
    if (any_object.value_or(false))
      set({.text = R"({"type":"object"})", .compact = compact.value_or(false)}, path + "json_object");
    read_one(inner, path, "json", Source::Kind::kJsonSchema, compact.value_or(false));
    read_one(inner, path, "regex", Source::Kind::kRegex, false);
    read_one(inner, path, "choice", Source::Kind::kChoice, false);
    read_one(inner, path, "grammar", Source::Kind::kEbnf, false);
    inner.finish();
  }

  void read_one(RequestFields& fields, const std::string& path, std::string_view key, Source::Kind kind, bool compact) {
    const json::value* value = fields.find(key);
    if (value == nullptr || is_empty_json(*value)) return;
    Source source{.kind = kind, .compact = compact};
    if (kind == Source::Kind::kChoice) {
      if (!value->is_array()) return fields.fail(key, "an array of texts");
      for (const json::value& text : value->get_array()) {
        if (!text.is_string()) return fields.fail(key, "an array of texts");
        source.choices.emplace_back(std::string_view(text.get_string()));
      }
    } else if (value->is_string()) {
      source.text = std::string_view(value->get_string());
    } else if (kind == Source::Kind::kJsonSchema && (value->is_object() || value->is_bool())) {
      source.text = dump_json(*value);
    } else {
      return fields.fail(key, kind == Source::Kind::kJsonSchema ? "a schema or its text" : "a string");
    }
    set(std::move(source), path + std::string(key));
  }

  RequestFields& fields_;
  GenerationOptions& out_;
};

bool is_written(std::string_view token, const CallMarkup& markup) {
  if (token.empty()) return false;
  const std::array texts = {markup.begins,        markup.open,      markup.call,     markup.name_end,
                            markup.call_end,      markup.close,     markup.is_text,  markup.is_json,
                            markup.parameter_end, markup.parameter, kReasoningStart, kReasoningEnd};
  return std::ranges::any_of(texts, [&](std::string_view text) { return text.find(token) != std::string_view::npos; });
}

}  // namespace

const json::object* read_constraint(RequestFields& fields, GenerationOptions& out) {
  return ConstraintReader(fields, out).read();
}

std::function<std::shared_ptr<const TokenTrie>()> trie_maker(const Engine& engine, const Tokenizer& tokenizer,
                                                             const CallMarkup* markup) {
  return [&engine, &tokenizer, markup] {
    const std::vector<std::int32_t> ends = engine.end_token_ids();
    std::vector<std::string_view> tokens(
        static_cast<std::size_t>(std::min(engine.vocab_size(), tokenizer.vocab_size())));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto id = static_cast<std::int32_t>(i);
      const std::string_view bytes = tokenizer.token_bytes(id);
      const bool is_markup =
          markup != nullptr && is_written(bytes, *markup) && std::ranges::find(ends, id) == ends.end();
      if (!tokenizer.is_special(id) || is_markup) tokens[i] = bytes;
    }
    return std::make_shared<const TokenTrie>(tokens, ends);
  };
}

ApiError prefix_error(const std::string& field) {
  return {400, field + ": expected a continued message that a text of it begins with, found another one", field,
          "invalid_value"};
}

ApiResult<std::shared_ptr<const TokenConstraint>> make_constraint(GrammarCache& grammars, GenerationOptions& options,
                                                                  const std::string& behind,
                                                                  const std::string& continued) {
  if (!options.constraint) return std::shared_ptr<const TokenConstraint>();
  const auto grammar = grammars.get(*options.constraint);
  if (!grammar.ok()) {
    return ApiError{400, options.constraint_field + ": " + grammar.status().message(), options.constraint_field,
                    "unsupported_constraint"};
  }
  if ((*grammar)->trie().ends().empty()) {
    return ApiError{400, options.constraint_field + ": this model names no end token, so that no answer can end",
                    options.constraint_field, "unsupported_constraint"};
  }
  for (const std::string& remark : (*grammar)->network().remarks()) {
    options.ignored.push_back(options.constraint_field + remark);
  }
  Matcher matcher(*grammar);
  if (!continued.empty() && !matcher.accept_bytes(continued)) return prefix_error(options.constraint_field);
  if (behind.empty()) return std::shared_ptr<const TokenConstraint>(std::make_shared<Matcher>(matcher));
  return std::shared_ptr<const TokenConstraint>(std::make_shared<BehindMarker>(behind, matcher));
}

}  // namespace sluice
