#include "serve/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <semaphore>
#include <thread>

#include "serve/http/http_client_testing.h"

namespace sluice::http_server_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

constexpr auto kPatience = 30s;  // with a busy machine; less than the timeouts that would end things, too

HttpResponse text(std::string body) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

// A server whose handler echoes "METHOD path body", except for a few paths.
class HttpServerTest : public ::testing::Test {
 protected:
  void start() {
    options_.port = 0;
    auto server = HttpServer::start(
        options_, [this](const HttpExchangePtr& exchange) { handle(exchange); },
        [this](const HttpSummary& summary) { last_status_ = summary.status; });
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(server).value();
    port_ = server_->port();
  }

  void handle(const HttpExchangePtr& exchange) {
    const HttpRequest& request = exchange->request();
    if (request.path == "/drop") return;
    if (request.path == "/hold") {
      exchange->on_disconnect([this] { gone_.set_value(); });
      held_ = exchange;
      arrived_.set_value();
    } else if (request.path == "/busy") {
      is_busy_.release();
      busy_until_.acquire();
      exchange->respond(text("done"));
    } else if (request.path == "/stream") {
      exchange->begin_stream(text("one,"));
      exchange->write("two,");
      exchange->write("");
      exchange->write("three");
      exchange->finish();
      exchange->write("after the end");
    } else if (request.path == "/broken") {
      exchange->begin_stream(text("half"));
    } else {
      exchange->respond(text(request.method + " " + request.path + " " + request.body));
    }
  }

  HttpServerOptions options_;
  std::atomic<int> last_status_ = 0;
  std::promise<void> gone_, arrived_;
  std::counting_semaphore<> is_busy_{0}, busy_until_{0};
  HttpExchangePtr held_;
  std::unique_ptr<HttpServer> server_;
  int port_ = 0;
};

TEST_F(HttpServerTest, AnswersAndKeepsTheConnection) {
  start();
  TestClient client(port_);
  for (int i = 0; i < 3; ++i) {
    client.send_request("POST", "/echo?x=1", "hello");
    const TestAnswer answer = client.read_answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "POST /echo hello");
    EXPECT_THAT(answer.head, HasSubstr("Connection: keep-alive"));
  }
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
  start();
  TestClient client(port_);
  std::string all;
  for (int i = 0; i < 20; ++i) all += fmt::format("GET /{} HTTP/1.1\r\nHost: t\r\n\r\n", i);
  client.send(all);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.read_answer().body, fmt::format("GET /{} ", i));
}

TEST_F(HttpServerTest, StreamsInChunksAndToOldClientsUntilTheEnd) {
  start();
  const TestAnswer answer = request(port_, "GET", "/stream");
  EXPECT_THAT(answer.head, HasSubstr("Transfer-Encoding: chunked"));
  EXPECT_EQ(answer.body, "one,two,three");
  EXPECT_TRUE(answer.whole);
  TestClient old(port_);
  old.send("GET /stream HTTP/1.0\r\n\r\n");
  const std::string bytes = old.read_all();
  EXPECT_THAT(bytes, HasSubstr("\r\n\r\none,two,three"));
  EXPECT_THAT(bytes, Not(HasSubstr("chunked")));
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  start();
  TestClient client(port_);
  client.send_request("HEAD", "/x");
  EXPECT_THAT(client.read_answer(/*head_only=*/true).head, HasSubstr("Content-Length: 8"));
  client.send_request("GET", "/y");
  EXPECT_EQ(client.read_answer().body, "GET /y ");
}

TEST_F(HttpServerTest, ADroppedExchangeIs500AndABrokenStreamIsCut) {
  start();
  EXPECT_EQ(request(port_, "GET", "/drop").status, 500);
  const TestAnswer broken = request(port_, "GET", "/broken");
  EXPECT_EQ(broken.body, "half");
  EXPECT_FALSE(broken.whole);
}

TEST_F(HttpServerTest, MalformedRequestsAre400) {
  start();
  for (const char* bytes :
       {"nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "\x16\x03\x01\x02\r\n\r\n"}) {
    TestClient client(port_);
    client.send(bytes);
    const TestAnswer answer = client.read_answer();
    EXPECT_EQ(answer.status, 400) << bytes;
    EXPECT_THAT(answer.body, HasSubstr("malformed HTTP request")) << bytes;
    EXPECT_THAT(answer.head, HasSubstr("Connection: close"));
  }
}

TEST_F(HttpServerTest, LimitsOfSize) {
  options_.max_body_bytes = 1000;
  options_.max_header_bytes = 2000;
  start();
  EXPECT_EQ(request(port_, "POST", "/ok", std::string(1000, 'x')).status, 200);
  EXPECT_EQ(request(port_, "POST", "/long", std::string(1001, 'x')).status, 413);
  TestClient chunked(port_);
  chunked.send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" + std::string(0x800, 'x'));
  EXPECT_EQ(chunked.read_answer().status, 413);
  TestClient header(port_);
  header.send("GET / HTTP/1.1\r\nX: " + std::string(3000, 'x') + "\r\n\r\n");
  EXPECT_EQ(header.read_answer().status, 431);
}

TEST_F(HttpServerTest, AClientThatSendsAnOversizedBodyWholeStillReadsTheAnswer) {
  start();
  TestClient client(port_);
  client.send_request("POST", "/long", std::string((16 << 20) + 1, 'x'));
  EXPECT_EQ(client.read_answer().status, 413);
}

TEST_F(HttpServerTest, ExpectContinue) {
  start();
  TestClient client(port_);
  client.send("POST /e HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("100 Continue"));
  client.send("hi");
  EXPECT_THAT(client.read_until("/e hi"), HasSubstr("200 OK"));
}

TEST_F(HttpServerTest, SlowClientsAreDropped) {
  options_.idle_timeout = 100ms;
  options_.header_timeout = 200ms;
  options_.body_timeout = 200ms;
  start();
  TestClient idle(port_);
  EXPECT_EQ(idle.read_all(), "");
  const auto start_time = std::chrono::steady_clock::now();
  TestClient loris(port_);
  for (int i = 0; i < 6 && loris.send("GET / HTTP/1.1\r\nX: "); ++i) std::this_thread::sleep_for(50ms);
  EXPECT_EQ(loris.read_all(), "");
  TestClient body(port_);
  body.send("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(body.read_all(), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start_time, 50s) << "the client's own patience is a minute";
}

TEST_F(HttpServerTest, AReaderThatStallsIsCut) {
  options_.write_timeout = 200ms;
  start();
  TestClient client(port_);
  client.send_request("GET", "/hold");
  arrived_.get_future().wait();
  held_->begin_stream(text(""));
  for (int i = 0; i < 64; ++i) held_->write(std::string(1 << 20, 'x'));
  EXPECT_EQ(gone_.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST_F(HttpServerTest, ABodyInAnUnknownCodingIsNotReadAsTheNextRequest) {
  start();
  for (const char* coding : {"gzip", "chunked, gzip", "gzip, chunked", "chunk\xF6", "identity", ""}) {
    TestClient client(port_);
    client.send(fmt::format(
        "POST /a HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: {}\r\n\r\nGET /b HTTP/1.1\r\nHost: t\r\n\r\n", coding));
    client.end_sending();
    const std::string all = client.read_all();
    EXPECT_EQ(all.find("HTTP/1.1 400"), 0U) << coding << ": " << all;
    EXPECT_EQ(all.find("/b"), std::string::npos) << coding << ": " << all;
  }
}

TEST_F(HttpServerTest, TellsWhenAReaderFallsBehindAndWhenItHasCaughtUp) {
  options_.max_unread_bytes = 100'000;
  start();
  TestClient client(port_);
  client.send_request("GET", "/hold");
  arrived_.get_future().wait();
  std::promise<void> full, caught_up;
  held_->on_backlog([&](bool is_full) { (is_full ? full : caught_up).set_value(); });
  held_->begin_stream(text(""));
  const std::string piece(1 << 20, 'x');
  constexpr std::size_t kPieces = 32;  // more than the system keeps for a reader
  for (std::size_t i = 0; i < kPieces; ++i) held_->write(piece);
  ASSERT_EQ(full.get_future().wait_for(kPatience), std::future_status::ready);
  std::future<void> caught = caught_up.get_future();
  EXPECT_EQ(caught.wait_for(20ms), std::future_status::timeout);
  std::future<TestAnswer> answer = std::async(std::launch::async, [&] { return client.read_answer(); });
  ASSERT_EQ(caught.wait_for(kPatience), std::future_status::ready);
  held_->finish();
  EXPECT_EQ(answer.get().body.size(), kPieces * piece.size());
}

TEST_F(HttpServerTest, NoticesThatTheClientLeft) {
  start();
  {
    TestClient client(port_);
    client.send_request("GET", "/hold");
    arrived_.get_future().wait();
    client.send("GET /pipelined HTTP/1.1\r\nHost: t\r\n\r\n");
  }
  EXPECT_EQ(gone_.get_future().wait_for(kPatience), std::future_status::ready);
  held_->respond(text("nobody reads this"));
}

TEST_F(HttpServerTest, AClientThatEndedItsHalfGetsItsAnswers) {
  start();
  TestClient client(port_);
  client.send_request("GET", "/hold");
  client.send_request("GET", "/next");
  client.end_sending();
  arrived_.get_future().wait();
  EXPECT_EQ(client.read_answer(true).status, 100) << "bytes that a client which is gone would refuse";
  EXPECT_EQ(gone_.get_future().wait_for(50ms), std::future_status::timeout);
  held_->respond(text("late"));
  EXPECT_EQ(client.read_answer().body, "late");
  EXPECT_EQ(client.read_answer().body, "GET /next ");
  EXPECT_FALSE(client.receive()) << "then the connection ends";
}

TEST_F(HttpServerTest, AStreamFindsOutWhetherItsReaderLeft) {
  start();
  HttpResponse head = text("begun");
  head.filler = ";";
  {
    TestClient client(port_);
    client.send_request("GET", "/hold");
    arrived_.get_future().wait();
    held_->begin_stream(head);
    client.read_until("begun");
    client.end_sending();
    EXPECT_NE(client.read_until(";").find(';'), std::string::npos);
  }
  held_->write("nobody reads this");
  EXPECT_EQ(gone_.get_future().wait_for(kPatience), std::future_status::ready);

  gone_ = {}, arrived_ = {};
  {
    TestClient client(port_);
    client.send_request("GET", "/hold");
    arrived_.get_future().wait();
    held_->begin_stream(head);
    client.read_until("begun");
  }
  EXPECT_EQ(gone_.get_future().wait_for(kPatience), std::future_status::ready) << "without a piece to write";
}

TEST_F(HttpServerTest, TooManyConnectionsAreRefused) {
  options_.max_connections = 2;
  start();
  TestClient a(port_), b(port_);
  a.send_request("GET", "/a");
  b.send_request("GET", "/b");
  EXPECT_EQ(a.read_answer().status, 200);
  EXPECT_EQ(b.read_answer().status, 200);
  TestClient c(port_);
  EXPECT_EQ(c.read_answer().status, 503);
  a.close();
  const auto end = std::chrono::steady_clock::now() + kPatience;
  int status = 503;  // until the server has seen that the connection is gone
  while (status == 503 && std::chrono::steady_clock::now() < end) status = request(port_, "GET", "/again").status;
  EXPECT_EQ(status, 200);
}

TEST_F(HttpServerTest, BodiesTogetherAreBounded) {
  options_.max_bodies_bytes = 1500;
  start();
  TestClient first(port_);
  first.send_request("POST", "/hold", std::string(1000, 'x'));
  arrived_.get_future().wait();
  EXPECT_EQ(request(port_, "POST", "/b", std::string(1000, 'x')).status, 503);
  held_->respond(text("done"));
  EXPECT_EQ(first.read_answer().status, 200);
  EXPECT_EQ(request(port_, "POST", "/b", std::string(1000, 'x')).status, 200);
}

TEST_F(HttpServerTest, DrainWaitsForAnswersAndRefusesNewConnections) {
  start();
  TestClient client(port_), idle(port_);
  idle.wait_at_most(10s);
  client.send_request("GET", "/hold");
  arrived_.get_future().wait();
  EXPECT_FALSE(server_->drain(50ms));
  EXPECT_EQ(idle.read_all(), "");
  EXPECT_FALSE(TestClient(port_).connected());
  auto drained = std::async(std::launch::async, [&] { return server_->drain(kPatience); });
  held_->respond(text("late"));
  EXPECT_EQ(client.read_answer().body, "late");
  EXPECT_TRUE(drained.get());
  server_->close();
  server_->close();
}

// The server's thread is busy while they connect, and finds one after the other when it begins to drain.
TEST_F(HttpServerTest, DrainClosesWhatIsJustBeingAccepted) {
  start();
  TestClient first(port_), second(port_);
  second.send_request("GET", "/known");
  EXPECT_EQ(second.read_answer().status, 200);
  first.send_request("GET", "/busy");
  is_busy_.acquire();
  second.send_request("GET", "/busy");
  TestClient late(port_), later(port_);
  later.wait_at_most(10s);
  busy_until_.release();
  is_busy_.acquire();  // it learned of the others together with this request
  auto drained = std::async(std::launch::async, [&] { return server_->drain(kPatience); });
  std::this_thread::sleep_for(50ms);
  busy_until_.release();
  EXPECT_EQ(later.read_all(), "");
  EXPECT_EQ(late.read_all(), "");
  EXPECT_TRUE(drained.get());
}

TEST_F(HttpServerTest, CloseCutsWhatIsLeft) {
  start();
  TestClient client(port_);
  client.send_request("GET", "/hold");
  arrived_.get_future().wait();
  server_->close();
  EXPECT_EQ(gone_.get_future().wait_for(0s), std::future_status::ready);
  EXPECT_EQ(client.read_all(), "");
  server_.reset();
  held_->respond(text("to nobody"));
}

TEST_F(HttpServerTest, AnAddressInUseIsAClearError) {
  start();
  HttpServerOptions same;
  same.port = port_;
  const auto second = HttpServer::start(same, nullptr, nullptr);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), HasSubstr(fmt::format("127.0.0.1:{}: the address is in use", port_)));
  EXPECT_EQ(HttpServer::check(same).message(), second.status().message());
  same.hosts = {"203.0.113.7"};
  EXPECT_FALSE(HttpServer::start(same, nullptr, nullptr).ok());
  EXPECT_FALSE(HttpServer::check(same).ok());
  server_.reset();
  same.hosts = {"127.0.0.1"};
  ASSERT_TRUE(HttpServer::check(same).ok());
  EXPECT_TRUE(HttpServer::start(same, nullptr, nullptr).ok()) << "what was checked is free again";
}

}  // namespace
}  // namespace sluice::http_server_test
