// Used by cli/manual/manual_commands.cc and serve/api/openai/plain_endpoints.cc.
#include "serve/api/api_document.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <iterator>
#include <string_view>

#include "files/json.h"
#include "serve/api/field_table.h"

namespace sluice {
namespace {

namespace json = boost::json;

constexpr std::string_view kHead = R"(# Fields of requests

Written by `sluice api`, from the table by which requests are checked; `GET /openapi.json` says the same to programs. How the
server answers: [the server](server.md).

A value of another type or out of range is a 400 that names the field. Empty values (null, `""`, `[]`, `{}`) of a field
at the top of a body count as absent, but for `messages`, `prompt`, `input` and `tokens`. A field whose effect is missing here is a 400 unless it asks for nothing; one that nobody knows is ignored and named in
the answer's header `X-Sluice-Ignored`, or refused with `--strict-fields`.

)";

std::string_view type_name(FieldType type) {
  switch (type) {
    case FieldType::kNumber:
      return "number";
    case FieldType::kInteger:
    case FieldType::kBits64:
      return "integer";
    case FieldType::kBoolean:
      return "boolean";
    case FieldType::kString:
      return "string";
    case FieldType::kStrings:
      return "string or strings";
    case FieldType::kTokenIds:
      return "token ids";
    case FieldType::kObject:
      return "object";
    case FieldType::kArray:
      return "array";
    case FieldType::kAny:
      break;
  }
  return "";
}

std::string_view place_name(unsigned places) {
  if ((places & kInBoth) == kInBoth) return "both";
  return (places & kInChat) != 0 ? "chat" : "completions";
}

json::value typed(std::string_view type) {
  return json::object{{"type", type}};
}

json::value nullable(json::object schema) {
  return json::object{{"anyOf", json::array{std::move(schema), typed("null")}}};
}

// Returns the schema of one field. Objects and arrays get their members in owner_of(), when the fields of these come.
json::object schema_of(const Field& field) {
  json::object out;
  const auto bounds = [&] {
    if (field.low == field.high) return;
    const auto bound = [&](double value) {
      return field.type == FieldType::kInteger ? json::value(static_cast<std::int64_t>(value)) : json::value(value);
    };
    out["minimum"] = bound(field.low);
    out["maximum"] = bound(field.high);
  };
  switch (field.type) {
    case FieldType::kNumber:
    case FieldType::kInteger:
    case FieldType::kBits64:
      out["type"] = type_name(field.type);
      bounds();
      break;
    case FieldType::kStrings: {
      const json::object text{{"type", "string"}, {"minLength", 1}};
      out["anyOf"] = json::array{
          typed("string"),
          json::object{{"type", "array"}, {"items", text}, {"maxItems", static_cast<std::int64_t>(field.high)}}};
      break;
    }
    case FieldType::kTokenIds:
      out = {{"type", "array"},
             {"items", json::object{{"type", "integer"}, {"minimum", 0}}},
             {"maxItems", static_cast<std::int64_t>(field.high)}};
      break;
    case FieldType::kAny:
      break;
    default:
      out["type"] = type_name(field.type);
  }
  if (!field.text.empty()) out["description"] = field.text;
  return out;
}

// The schema of the object in which the last part of a path is a key: "a.b[].c" goes to a, then to the items of b.
json::object& owner_of(json::object& root, std::string_view path, std::string_view& key) {
  json::object* at = &root;
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    std::string_view name = path.substr(0, dot);
    path.remove_prefix(dot + 1);
    const bool is_items = name.ends_with("[]");
    if (is_items) name.remove_suffix(2);
    json::value& found = at->at("properties").as_object()[name];
    json::object& schema =
        found.as_object().contains("anyOf") ? found.as_object()["anyOf"].as_array()[0].as_object() : found.as_object();
    at = &schema;
    if (is_items) {
      if (!schema.contains("items")) schema["items"] = json::object{{"type", "object"}};
      at = &schema["items"].as_object();
    }
    if (!at->contains("properties")) (*at)["properties"] = json::object();
  }
  key = path;
  return *at;
}

json::object request_schema(FieldPlaces place) {
  json::object root{{"type", "object"}, {"required", json::array()}, {"properties", json::object()}};
  for (const Field* listed : fields_of(place)) {
    const Field& field = *listed;
    // `content` is a string or a list of parts: the schema leaves it open.
    if (field.name.find("content[]") != std::string_view::npos) continue;
    std::string_view key;
    json::object& owner = owner_of(root, field.name, key);
    json::object schema;
    if (field.use == FieldUse::kRead) schema = schema_of(field);
    if (field.use == FieldUse::kIgnored) schema["description"] = "ignored";
    if (field.use == FieldUse::kOnly) {  // `text` is the one value that is accepted
      schema = {{"enum", json::array{*parse_json(field.text, "the table of fields"), nullptr}}};
      owner["properties"].as_object()[key] = std::move(schema);
      continue;
    }
    // The table marks a field as required by the end of its description.
    const bool is_required = field.text.ends_with("required");
    owner["properties"].as_object()[key] = is_required ? json::value(std::move(schema)) : nullable(std::move(schema));
    if (!is_required) continue;
    if (!owner.contains("required")) owner["required"] = json::array();
    owner["required"].as_array().emplace_back(key);
  }
  return root;
}

json::object answers(std::string_view what, bool generates) {
  const auto answer = [](std::string_view text, std::string_view type, json::value schema) {
    return json::object{{"description", text},
                        {"content", json::object{{type, json::object{{"schema", std::move(schema)}}}}}};
  };
  const json::object error{{"$ref", "#/components/schemas/Error"}};
  json::object out{{"200", answer(what, "application/json", typed("object"))}};
  if (generates) {
    out["200"].as_object()["content"].as_object()["text/event-stream"] = json::object{{"schema", typed("string")}};
  }
  struct Status {
    const char *code, *text;
    bool of_bodies;
  };
  for (const Status& status : {Status{"400", "what is wrong with the request", false},
                               {"403", "host or origin", false},
                               {"404", "no such model", true},
                               {"413", "a body over 16 MiB", true},
                               {"429", "too many wait", true},
                               {"500", "a fault of the server's", false},
                               {"503", "busy or stopping", false}}) {
    if (generates || !status.of_bodies) out[status.code] = answer(status.text, "application/json", error);
  }
  return out;
}

json::object posting(std::string_view summary, FieldPlaces place) {
  const json::object content{{"application/json", json::object{{"schema", request_schema(place)}}}};
  return {{"post", json::object{{"summary", summary},
                                {"requestBody", json::object{{"required", true}, {"content", content}}},
                                {"responses", answers(summary, true)}}}};
}

json::object telling(std::string_view summary) {
  return {{"get", json::object{{"summary", summary}, {"responses", answers(summary, false)}}}};
}

void append_call(std::string& out, FieldPlaces place, std::string_view call, std::string_view about) {
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "\n## {}\n\n{}\n\n| field | type | range | by default | effect |\n|---|---|---|---|---|\n", call,
                 about);
  std::string ignored, missing, shared;
  const auto add = [](std::string& list, std::string_view name, std::string_view value) {
    fmt::format_to(std::back_inserter(list), "{}`{}`{}", list.empty() ? "" : ", ", name, value);
  };
  for (const Field* listed : fields_of(place)) {
    const Field& field = *listed;
    if ((field.places & kInBoth) != 0) {  // same as in chat, nested fields included
      if (field.name.find_first_of(".[") == std::string_view::npos) add(shared, field.name, "");
      continue;
    }
    if (field.use == FieldUse::kRead) {
      fmt::format_to(to, "| `{}` | {} | {} | {} | {} |\n", field.name, type_name(field.type), field.range(),
                     field.preset, field.text);
    } else if (field.use == FieldUse::kIgnored) {
      add(ignored, field.name, "");
    } else {
      add(missing, field.name, fmt::format(" ({})", field.text));
    }
  }
  if (!shared.empty()) fmt::format_to(to, "\nAs in chat: {}.\n", shared);
  if (!ignored.empty()) fmt::format_to(to, "\nWithout effect: {}.\n", ignored);
  if (!missing.empty()) fmt::format_to(to, "\nAt this value only: {}.\n", missing);
}

}  // namespace

std::string api_markdown() {
  std::string out(kHead);
  out += "| field | in | type | range | by default | effect |\n|---|---|---|---|---|---|\n";
  const auto to = std::back_inserter(out);
  for (const Field& field : request_fields()) {
    if (field.use != FieldUse::kRead || (field.places & kInBoth) == 0) continue;
    fmt::format_to(to, "| `{}` | {} | {} | {} | {} | {} |\n", field.name, place_name(field.places),
                   type_name(field.type), field.range(), field.preset, field.text);
  }
  out += "\n## Without effect\n\nKnown, and ignored: there is nothing here that they could change.\n\n";
  for (const Field& field : request_fields()) {
    if (field.use != FieldUse::kIgnored || (field.places & kInBoth) == 0) continue;
    fmt::format_to(to, "- `{}` ({})\n", field.name, place_name(field.places));
  }
  out += "\n## Not supported\n\nKnown from other servers; accepted at this value only, which asks for nothing.\n\n";
  out += "| field | in | value | instead |\n|---|---|---|---|\n";
  for (const Field& field : request_fields()) {
    if (field.use != FieldUse::kOnly || (field.places & kInBoth) == 0) continue;
    // In such rows `text` is the accepted value and `preset` says what to use instead.
    fmt::format_to(to, "| `{}` | {} | `{}` | {} |\n", field.name, place_name(field.places), field.text, field.preset);
  }
  append_call(out, kInResponses, "`POST /v1/responses`", "[How it answers](server.md#responses).");
  append_call(out, kInMessages, "`POST /v1/messages`",
              "[How it answers](server.md#messages). `POST /v1/messages/count_tokens` has the same but `max_tokens`, "
              "`stop_sequences` and `stream`.");
  append_call(out, kInScore, "`POST /v1/score`", "[How it answers](server.md#scores-and-token-ids).");
  append_call(out, kInTokenize, "`POST /tokenize`", "[How it answers](server.md#tokens-and-prompts).");
  append_call(out, kInDetokenize, "`POST /detokenize`", "[How it answers](server.md#tokens-and-prompts).");
  return out;
}

std::string openapi_json() {
  const json::object error{
      {"type", "object"},
      {"required", json::array{"error"}},
      {"properties",
       json::object{{"error", json::object{{"type", "object"},
                                           {"required", json::array{"message", "type", "param", "code"}}}}}}};
  return dump_json(json::object{
      {"openapi", "3.1.0"},
      {"info", json::object{{"title", "Sluice"}, {"version", "1"}}},
      {"paths",
       json::object{
           {"/v1/chat/completions", posting("a chat answer, whole or streamed", kInChat)},
           {"/v1/completions", posting("the continuation of a raw prompt", kInCompletion)},
           {"/v1/responses", posting("an answer as items, whole or streamed", kInResponses)},
           {"/v1/responses/input_tokens", posting("the number of a prompt's tokens", kInResponses)},
           {"/v1/messages", posting("an answer as content blocks, whole or streamed", kInMessages)},
           {"/v1/messages/count_tokens", posting("the number of a prompt's tokens", kInCount)},
           {"/v1/score", posting("what the model says of given texts", kInScore)},
           {"/v1/chat/completions/render", posting("the prompt of a chat request, as text and ids", kInChat)},
           {"/tokenize", posting("the ids of a text or of messages", kInTokenize)},
           {"/detokenize", posting("the text of ids", kInDetokenize)},
           {"/tokenizer_info", telling("the tokenizer and its special tokens")},
           {"/v1/models", telling("the one model that is served")},
           {"/health", telling("whether tokens can be made")},
       }},
      {"components", json::object{{"schemas", json::object{{"Error", error}}}}},
  });
}

}  // namespace sluice
