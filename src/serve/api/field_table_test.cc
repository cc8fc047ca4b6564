// Every line of the table of fields has its effect on a request: wrong values are refused, and named.
#include "serve/api/field_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "files/json.h"
#include "serve/api/agents/agent_request.h"
#include "serve/api/api_document.h"
#include "serve/api/openai/openai_request.h"

namespace sluice::field_table_test {
namespace {

std::vector<FieldPlaces> places_of(const Field& field) {
  std::vector<FieldPlaces> out;
  for (const FieldPlaces place : {kInChat, kInCompletion}) {
    if ((field.places & place) != 0) out.push_back(place);
  }
  return out;
}

// The error of a request with this field; nested ones within the objects that they need.
ApiError error_with(FieldPlaces place, std::string_view path, const std::string& value, bool strict = true) {
  std::string field(path), shown = value;
  for (std::size_t dot = field.rfind('.'); dot != std::string::npos; dot = field.rfind('.')) {
    const bool of_schema = path.starts_with("response_format.json_schema") && field.find('.') == dot;
    shown = fmt::format(R"({{{}"{}":{}}})", of_schema ? R"("type":"json_schema",)" : "", field.substr(dot + 1), shown);
    field.resize(dot);
  }
  shown = fmt::format(R"("{}":{})", field, shown);
  if (field == "stream_options") shown += R"(,"stream":true)";
  const RequestRules rules{.strict_fields = strict};
  const auto error_of = [](const auto& result) {
    const auto* error = std::get_if<ApiError>(&result);
    return error != nullptr ? *error : ApiError{200, "", "", ""};
  };
  if (place == kInChat) {
    const std::string messages = field == "messages" ? "" : R"("messages":[{"role":"user","content":"x"}],)";
    return error_of(parse_chat_completion_request("{" + messages + shown + "}", rules));
  }
  const std::string prompt = field == "prompt" ? "" : R"("prompt":"x",)";
  return error_of(parse_completion_request("{" + prompt + shown + "}", rules));
}

ApiError agent_error(FieldPlaces place, const Field& field, const std::string& value) {
  std::string path(field.name), shown = value;
  for (std::size_t dot = path.rfind('.'); dot != std::string::npos; dot = path.rfind('.')) {
    const std::string above = path.substr(0, dot), key = path.substr(dot + 1);
    std::string_view type;
    if (above == "text.format" && key != "type") {
      type = key == "description" ? R"("type":"text",)" : R"("type":"json_schema",)";
    }
    if (above == "tool_choice" && key == "tools") type = R"("type":"allowed_tools",)";
    if (above == "thinking" && key != "type") type = R"("type":"enabled",)";
    shown = fmt::format(R"({{{}"{}":{}}})", type, key, shown);
    path = above;
  }
  std::string body = fmt::format(R"({{"{}":{})", path, shown);
  const auto need = [&](std::string_view key, std::string_view with) {
    if (path != key) body += fmt::format(R"(,"{}":{})", key, with);
  };
  if (place == kInResponses) need("input", R"("x")");
  if (place != kInResponses) need("messages", R"([{"role":"user","content":"x"}])");
  if (place == kInMessages) need("max_tokens", "4");
  body += "}";
  const RequestRules rules{.strict_fields = true};
  auto read = place == kInResponses ? read_responses_request(body, rules) : read_messages_request(body, place, rules);
  if (const auto* error = std::get_if<ApiError>(&read)) return *error;
  const auto chat = as_chat_request(std::get<AgentRequest>(read), rules);
  const auto* error = std::get_if<ApiError>(&chat);
  return error != nullptr ? *error : ApiError{200, "", "", ""};
}

std::vector<std::string> wrong_values(const Field& field) {
  std::vector<std::string> out = {field.type == FieldType::kObject ? "7" : R"({"strange":1})"};
  const bool is_number = field.type == FieldType::kNumber || field.type == FieldType::kInteger;
  if (is_number || field.type == FieldType::kBits64) out.insert(out.end(), {R"("1")", "true", "[1]", "1e300"});
  if (field.type == FieldType::kInteger || field.type == FieldType::kBits64) out.emplace_back("1.5");
  if (is_number) {
    out.push_back(fmt::format("{:.0f}", field.high + 1));
    out.push_back(fmt::format("{:.0f}", field.low - 1));
  }
  if (field.type == FieldType::kBoolean) out.insert(out.end(), {"1", R"("true")"});
  if (field.type == FieldType::kString) out.insert(out.end(), {"1", "true"});
  if (field.type == FieldType::kTokenIds) out.insert(out.end(), {"[-1]", "[1.5]", R"(["1"])", "[2147483648]"});
  if (field.type == FieldType::kStrings) out.insert(out.end(), {"1", "[1]", R"([""])"});
  return out;
}

TEST(FieldTableTest, WrongValuesAreRefusedAndNamed) {
  for (const Field& field : request_fields()) {
    if (field.use != FieldUse::kRead || field.type == FieldType::kAny || field.name.starts_with("messages")) continue;
    for (const FieldPlaces place : places_of(field)) {
      for (const std::string& value : wrong_values(field)) {
        const ApiError error = error_with(place, field.name, value);
        EXPECT_EQ(error.status, 400) << field.name << " " << value;
        EXPECT_EQ(error.param, field.name) << value << ": " << error.message;
        EXPECT_NE(error.message.find(field.name), std::string::npos) << error.message;
      }
      if (field.name.find('.') != std::string_view::npos) continue;  // some are required there
      EXPECT_EQ(error_with(place, field.name, "null").message, "") << field.name;
    }
  }
}

// The calls of agents: what is theirs, and what they share with chat. Items and blocks: agent_api_test.
TEST(FieldTableTest, WrongValuesOfAgentsCallsAreRefusedAndNamed) {
  for (const FieldPlaces place : {kInResponses, kInMessages, kInCount}) {
    for (const Field* field : fields_of(place)) {
      const bool is_of_items = field->name.find("[]") != std::string_view::npos;
      if (field->use != FieldUse::kRead || field->type == FieldType::kAny || is_of_items) continue;
      for (const std::string& value : wrong_values(*field)) {
        const ApiError error = agent_error(place, *field, value);
        EXPECT_EQ(error.status, 400) << field->name << " " << value;
        EXPECT_EQ(error.param, field->name) << value << ": " << error.message;
        EXPECT_NE(error.message.find(field->name), std::string::npos) << error.message;
      }
    }
    for (const Field& field : request_fields()) {
      const bool is_of_items = field.name.find("[]") != std::string_view::npos;
      if ((field.places & place) == 0 || (field.places & kInBoth) != 0) continue;
      if (field.use == FieldUse::kRead || is_of_items) continue;
      const bool refused = field.use == FieldUse::kOnly;
      EXPECT_EQ(agent_error(place, field, R"({"strange":1})").status == 400, refused) << field.name;
      if (!refused) continue;
      EXPECT_EQ(agent_error(place, field, std::string(field.text)).message, "") << field.name;
    }
  }
}

TEST(FieldTableTest, KeysOfMessagesAreThoseOfTheTable) {
  const auto message_with = [](std::string_view name, std::string_view value) {
    const bool of_part = name.starts_with("messages[].content[].");
    const std::string key(name.substr(name.rfind('.') + 1));
    const std::string pair = fmt::format(R"(,"{}":{})", key, value);
    std::string content = R"("content":"x")";
    if (of_part) content = fmt::format(R"("content":[{{"type":"text","text":"x"{}}}])", pair);
    return fmt::format(R"([{{"role":"user",{}{}}}])", content, of_part ? "" : pair);
  };
  for (const Field& field : request_fields()) {
    if ((field.places & kInChat) == 0) continue;
    if (!field.name.starts_with("messages[]") || field.name.ends_with("role") || field.name.ends_with("content") ||
        field.name.ends_with("[].type") || field.name.ends_with("[].text")) {
      continue;
    }
    const std::string strange = message_with(field.name, field.type == FieldType::kBoolean ? "7" : R"({"strange":1})");
    const ApiError error = error_with(kInChat, "messages", strange);
    EXPECT_EQ(error.status, field.use == FieldUse::kIgnored ? 200 : 400) << field.name << ": " << error.message;
    EXPECT_EQ(error.message.find("unknown key"), std::string::npos) << error.message;
    EXPECT_EQ(error_with(kInChat, "messages", message_with(field.name, "null")).message, "") << field.name;
  }
}

TEST(FieldTableTest, WhatIsMissingIsRefusedAndWhatSaysNothingPasses) {
  for (const Field& field : request_fields()) {
    if (field.use == FieldUse::kRead || field.name.starts_with("messages")) continue;
    if (field.name.starts_with("response_format.json_schema.")) continue;  // next to a schema
    for (const FieldPlaces place : places_of(field)) {
      const bool refused = field.use == FieldUse::kOnly;
      const ApiError error = error_with(place, field.name, R"({"strange":1})");
      EXPECT_EQ(error.status, refused ? 400 : 200) << field.name;
      EXPECT_EQ(error.param, refused ? field.name : "") << error.message;
      if (!refused) continue;
      EXPECT_EQ(error_with(place, field.name, std::string(field.text)).message, "") << field.name;
      EXPECT_EQ(error_with(place, field.name, "[]").message, "") << field.name;
    }
  }
}

TEST(FieldTableTest, NamesAreFoundWhereTheyBelong) {
  std::set<std::pair<unsigned, std::string_view>> seen;
  for (const Field& field : request_fields()) {
    for (const FieldPlaces place :
         {kInChat, kInCompletion, kInResponses, kInMessages, kInCount, kInTokenize, kInDetokenize, kInScore}) {
      if ((field.places & place) == 0) continue;
      EXPECT_TRUE(seen.emplace(place, field.name).second) << field.name << " is there twice";
      EXPECT_EQ(find_field(place, field.name), &field);
      if (const auto dot = field.name.rfind('.'); dot != std::string_view::npos) {
        std::string_view above = field.name.substr(0, dot);
        if (above.ends_with("[]")) above.remove_suffix(2);
        EXPECT_NE(find_field(place, above), nullptr) << field.name;
      }
    }
  }
  EXPECT_EQ(find_field(kInChat, "prompt"), nullptr);
  EXPECT_EQ(find_field(kInCompletion, "messages"), nullptr);
  EXPECT_NE(find_field(kInChat, "messages[12].content[3].text"), nullptr);
}

TEST(FieldTableTest, BothDocumentsNameEveryField) {
  const std::string markdown = api_markdown();
  const auto openapi = parse_json(openapi_json(), "openapi");
  ASSERT_TRUE(openapi.ok()) << openapi.status().message();
  for (const Field& field : request_fields()) {
    EXPECT_NE(markdown.find(fmt::format("`{}`", field.name)), std::string::npos) << field.name;
    if (field.name.find('.') != std::string_view::npos) continue;
    for (const FieldPlaces place : places_of(field)) {
      const char* path = place == kInChat ? "/paths/~1v1~1chat~1completions" : "/paths/~1v1~1completions";
      const std::string pointer =
          fmt::format("{}/post/requestBody/content/application~1json/schema/properties/{}", path, field.name);
      boost::system::error_code failure;
      EXPECT_NE(openapi->find_pointer(pointer, failure), nullptr) << pointer;
    }
  }
}

}  // namespace
}  // namespace sluice::field_table_test
