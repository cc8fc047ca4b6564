// ApiTest: the API over real sockets, with a scripted engine and the embedded model's tokenizer.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/test_paths_testing.h"
#include "files/json.h"
#include "serve/api/fake_engine_testing.h"
#include "serve/http/http_client_testing.h"
#include "serve/server.h"

namespace sluice {

inline const Tokenizer& tokenizer() {
  static const auto loaded = Tokenizer::load(source_dir() + "/models/sluice-tiny-v4");
  return *loaded.value();
}

inline std::vector<std::int32_t> ids_of(std::string_view text) {
  return tokenizer().encode(text).value();
}

inline boost::json::value parsed(std::string_view text) {
  auto value = parse_json(text, "answer");
  EXPECT_TRUE(value.ok()) << value.status().message() << "\n" << text;
  return value.ok() ? *value : boost::json::value(boost::json::object());
}

// The value at a path like "choices/0/delta/content"; null where there is none.
inline boost::json::value at(const boost::json::value& value, std::string_view path) {
  boost::system::error_code failure;
  const boost::json::value* found = value.find_pointer(std::string("/") + std::string(path), failure);
  return found == nullptr ? boost::json::value() : *found;
}
inline std::string text_at(const boost::json::value& value, std::string_view path) {
  const boost::json::value found = at(value, path);
  return found.is_string() ? std::string(std::string_view(found.get_string())) : "";
}
inline std::int64_t number_at(const boost::json::value& value, std::string_view path) {
  const boost::json::value found = at(value, path);
  return found.is_int64() ? found.get_int64() : -1;
}

// The data of every event of a stream, [DONE] included.
inline std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> events;
  for (std::size_t start = 0; start < body.size();) {
    const std::size_t end = body.find("\n\n", start);
    EXPECT_NE(end, std::string::npos);
    EXPECT_EQ(body.substr(start, 6), "data: ");
    if (end == std::string::npos) break;
    events.push_back(body.substr(start + 6, end - start - 6));
    start = end + 2;
  }
  return events;
}

class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::kOff);
    chat_ = load_chat_encoding("deepseek_v4", source_dir() + "/models/sluice-tiny-v4").value();
    options_.http.port = 0;
    options_.served_model_name = "tiny";
  }
  void start() {
    auto server = Server::start({engine_, tokenizer(), chat_.get(), defaults_}, options_);
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(server).value();
  }
  void say(std::string_view text) {
    engine_.script = [ids = ids_of(text)](const Request&) { return ids; };
  }
  TestAnswer post(std::string_view path, std::string_view body) {
    if (!server_) start();
    return request(server_->port(), "POST", path, body);
  }
  TestAnswer chat(std::string_view more = "") {
    return post("/v1/chat/completions", fmt::format(R"({{"messages":[{{"role":"user","content":"Hi"}}]{}}})", more));
  }
  TestAnswer complete(std::string_view more = "") {
    return post("/v1/completions", fmt::format(R"({{"prompt":"Once upon"{}}})", more));
  }
  TestAnswer get(std::string_view path) {
    if (!server_) start();
    TestAnswer answer = request(server_->port(), "GET", path);
    // The label that every metric has is tested by itself.
    for (const std::string_view label : {R"({model_name="tiny"})", R"(model_name="tiny",)"}) {
      for (std::size_t at = 0; path == "/metrics" && (at = answer.body.find(label, at)) != std::string::npos;) {
        answer.body.erase(at, label.size());
      }
    }
    return answer;
  }
  void expect_error(const TestAnswer& answer, int status, std::string_view param, std::string_view message) {
    EXPECT_EQ(answer.status, status) << answer.body;
    const boost::json::value error = parsed(answer.body);
    EXPECT_THAT(text_at(error, "error/message"), ::testing::HasSubstr(std::string(message)));
    EXPECT_EQ(text_at(error, "error/param"), param);
    EXPECT_NE(text_at(error, "error/type"), "");
  }

  FakeEngine engine_;
  std::unique_ptr<ChatEncoding> chat_;
  SamplingDefaults defaults_{.temperature = 0.6F, .top_p = 0.9F, .top_k = 40};  // the model's own
  ServerOptions options_;
  std::unique_ptr<Server> server_;
};

}  // namespace sluice
