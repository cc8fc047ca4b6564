// Which requests are answered by their Host and Origin, and what /debug needs.
#include "serve/guard/access.h"

#include <future>

#include "serve/api/api_testing.h"

namespace sluice::access_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AccessTest : public ApiTest {
 protected:
  TestAnswer send(std::string_view method, std::string_view path, std::string_view header, std::string_view body = "") {
    if (!server_) start();
    TestClient client(server_->port());
    client.send(
        fmt::format("{} {} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n{}", method, path, header, body.size(), body));
    return client.read_answer(method == "HEAD");
  }
  std::string own_host() { return fmt::format("localhost:{}", server_->port()); }
};

TEST_F(AccessTest, AForeignHostIsRefused) {
  for (const char* host : {"evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example",
                           "192.168.0.7", "x[::1]"}) {
    const TestAnswer answer = send("GET", "/v1/models", fmt::format("Host: {}\r\n", host));
    expect_error(answer, 403, "", "Host");
    EXPECT_THAT(answer.head, HasSubstr("403 Forbidden"));
  }
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1:8000", "127.1.2.3", "[::1]:8000", "me.localhost"}) {
    EXPECT_EQ(send("GET", "/v1/models", fmt::format("Host: {}\r\n", host)).status, 200) << host;
  }
}

TEST_F(AccessTest, AForeignOriginIsRefused) {
  for (const char* origin : {"http://evil.example", "null", "https://localhost.evil.example", "http://localhost:1"}) {
    const std::string header = fmt::format("Host: localhost:8000\r\nOrigin: {}\r\n", origin);
    expect_error(send("POST", "/debug/cache/reset", header), 403, "", "--cors-origin");
    expect_error(send("POST", "/v1/completions", header, R"({"prompt":"x"})"), 403, "", "--cors-origin");
    EXPECT_EQ(send("OPTIONS", "/v1/completions", header + "Access-Control-Request-Method: POST\r\n").status, 403);
  }
  EXPECT_EQ(engine_.reset_calls(), 0);
  EXPECT_TRUE(engine_.seen().empty());
  EXPECT_EQ(send("GET", "/v1/models", "Host: localhost:80\r\nOrigin: http://localhost:80\r\n").status, 200);
}

TEST_F(AccessTest, AllowedOriginsAreAnsweredWithPreflights) {
  options_.cors_origins = {"https://chat.example"};
  const std::string header = "Host: localhost\r\nOrigin: https://chat.example\r\n";
  const TestAnswer preflight = send("OPTIONS", "/v1/chat/completions",
                                    header +
                                        "Access-Control-Request-Method: POST\r\n"
                                        "Access-Control-Request-Headers: authorization, content-type\r\n");
  EXPECT_EQ(preflight.status, 200);
  EXPECT_THAT(preflight.head, HasSubstr("Access-Control-Allow-Origin: https://chat.example\r\n"));
  EXPECT_THAT(preflight.head, HasSubstr("Access-Control-Allow-Headers: authorization, content-type\r\n"));
  EXPECT_THAT(preflight.head, HasSubstr("Access-Control-Allow-Methods: GET, POST"));
  say("one");
  for (const char* stream : {"false", "true"}) {
    const TestAnswer answer =
        send("POST", "/v1/completions", header, fmt::format(R"({{"prompt":"x","stream":{}}})", stream));
    EXPECT_EQ(answer.status, 200);
    EXPECT_THAT(answer.head, HasSubstr("Access-Control-Allow-Origin: https://chat.example\r\nVary: Origin\r\n"));
  }
  EXPECT_EQ(send("GET", "/v1/models", "Host: chat.example\r\n").status, 200);
  EXPECT_THAT(send("GET", "/v1/models", "Host: localhost\r\n").head, Not(HasSubstr("Access-Control")));
}

TEST_F(AccessTest, OnOtherAddressesAnyHostMayBeNamedButNotByAPage) {
  options_.http.hosts = {"0.0.0.0"};
  EXPECT_EQ(send("GET", "/v1/models", "Host: gpu-server:8000\r\n").status, 200);
  EXPECT_EQ(send("GET", "/v1/models", "Host: 10.0.0.7:80\r\nOrigin: http://10.0.0.7:80\r\n").status, 200);
  EXPECT_EQ(send("GET", "/v1/models", "Host: evil.example\r\nOrigin: http://evil.example\r\n").status, 403);
}

TEST_F(AccessTest, DebugIsNotForProxies) {
  EXPECT_EQ(send("GET", "/debug/cache", "Host: localhost\r\n").status, 200);
  for (const char* header : {"Forwarded: for=1.2.3.4", "X-Forwarded-For: 1.2.3.4", "X-Forwarded-Host: a",
                             "X-Real-IP: 1.2.3.4", "Via: 1.1 proxy"}) {
    const TestAnswer answer = send("POST", "/debug/cache/reset", fmt::format("Host: localhost\r\n{}\r\n", header));
    expect_error(answer, 403, "", "proxy");
  }
  EXPECT_EQ(engine_.reset_calls(), 0);
}

TEST_F(AccessTest, TargetsAndHosts) {
  EXPECT_EQ(send("GET", "http://localhost:1/v1/models?x=1", "Host: evil.example\r\n").status, 200);
  EXPECT_EQ(send("GET", "http://evil.example/v1/models", "Host: localhost\r\n").status, 403);
  EXPECT_EQ(send("GET", "HTTP://localhost", "Host: localhost\r\n").status, 200);
  EXPECT_EQ(send("GET", "/v1/models", "").status, 400);
  EXPECT_EQ(send("GET", "/v1/models", "Host: localhost\r\nHost: localhost\r\n").status, 400);
  TestClient old(server_->port());
  old.send("GET /v1/models HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_answer().status, 200);
}

// A request over the limit is refused at once, while others wait, and room comes back.
TEST_F(AccessTest, TooManyWaitingRequestsAreToldSo) {
  options_.waiting = {.max_requests = 2, .max_tokens = 100};
  std::promise<void> go;
  engine_.before_output = [wait = go.get_future().share()] { wait.wait(); };
  say("one");
  start();
  const std::string body = R"({"prompt":[5,6,7]})";
  TestClient first(server_->port()), second(server_->port());
  for (TestClient* client : {&first, &second}) {
    const std::size_t seen = engine_.seen().size();
    client->send_request("POST", "/v1/completions", body);
    while (engine_.seen().size() == seen) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int i = 0; i < 2; ++i) {
    const TestAnswer refused = post("/v1/completions", body);
    EXPECT_THAT(refused.head, HasSubstr("429 Too Many Requests"));
    EXPECT_THAT(refused.head, HasSubstr("Retry-After: 1"));
    expect_error(refused, 429, "", "wait");
  }
  go.set_value();
  EXPECT_EQ(first.read_answer().status, 200);
  EXPECT_EQ(second.read_answer().status, 200);
  engine_.wait_idle();
  EXPECT_EQ(post("/v1/completions", body).status, 200);
}

TEST_F(AccessTest, WaitingTokensAreLimitedButForOneAlone) {
  options_.waiting = {.max_requests = 10, .max_tokens = 100};
  std::promise<void> go;
  engine_.before_output = [wait = go.get_future().share()] { wait.wait(); };
  say("one");
  start();
  const std::string body = fmt::format(R"({{"prompt":[{}]}})", fmt::join(std::vector<int>(120, 7), ","));
  TestClient first(server_->port());
  first.send_request("POST", "/v1/completions", body);
  while (engine_.seen().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(post("/v1/completions", R"({"prompt":[5]})").status, 429);
  go.set_value();
  EXPECT_EQ(first.read_answer().status, 200);
  engine_.wait_idle();
  EXPECT_EQ(post("/v1/completions", R"({"prompt":[5]})").status, 200);
}

}  // namespace
}  // namespace sluice::access_test
