// The page and the engine's stream, over real sockets.
#include <chrono>
#include <thread>

#include "serve/api/api_testing.h"
#include "web_ui/web_ui.h"

namespace sluice::page_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PageTest : public ApiTest {
 protected:
  TestAnswer get_with(std::string_view path, std::string_view header) {
    if (!server_) start();
    return request(server_->port(), "GET", path, "", header);
  }
};

TEST_F(PageTest, BrowsersGetThePageAndOthersJson) {
  EXPECT_EQ(text_at(parsed(get("/").body), "server"), "sluice");
  EXPECT_EQ(text_at(parsed(get_with("/", "Accept: application/json\r\n").body), "server"), "sluice");
  const TestAnswer page = get_with("/", "Accept: text/html,application/xhtml+xml;q=0.9\r\n");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, find_page_file("index.html")->plain);
  EXPECT_THAT(page.head, HasSubstr("Content-Type: text/html"));
  EXPECT_THAT(page.head, HasSubstr("default-src 'none'; script-src 'self';"));
  EXPECT_THAT(page.head, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(page.head, HasSubstr("require-trusted-types-for 'script'; trusted-types 'none'"));
  EXPECT_THAT(page.head, HasSubstr("X-Content-Type-Options: nosniff"));
}

TEST_F(PageTest, FilesAreCompressedAndTagged) {
  const TestAnswer plain = get("/page/main.js");
  EXPECT_EQ(plain.status, 200);
  EXPECT_THAT(plain.head, HasSubstr("Content-Type: text/javascript"));
  EXPECT_THAT(plain.head, Not(HasSubstr("Content-Encoding")));
  const PageFile& file = *find_page_file("main.js");
  EXPECT_EQ(plain.body, file.plain);
  const TestAnswer packed = get_with("/page/main.js", "Accept-Encoding: gzip, br\r\n");
  EXPECT_THAT(packed.head, HasSubstr("Content-Encoding: gzip"));
  EXPECT_EQ(packed.body, file.gzip);
  const TestAnswer known = get_with("/page/main.js", fmt::format("If-None-Match: \"{}\"\r\n", file.tag));
  EXPECT_EQ(known.status, 304);
  EXPECT_EQ(known.body, "");
  EXPECT_EQ(get_with("/page/main.js", "If-None-Match: \"other\"\r\n").status, 200);
  EXPECT_EQ(get("/page/nothing.js").status, 404);
  EXPECT_EQ(get("/page/../main.js").status, 404);
  EXPECT_EQ(post("/page/main.js", "").status, 405);
}

TEST_F(PageTest, IsSmall) {
  std::size_t packed = 0;
  for (const PageFile& file : page_files()) packed += file.gzip.size();
  EXPECT_GT(page_files().size(), 10U);
  EXPECT_LT(packed, 150U << 10);
}

// No script makes elements or code of a string.
TEST_F(PageTest, NothingParsesStrings) {
  for (const PageFile& file : page_files()) {
    for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(",
                             "new Function", "srcdoc", "createContextualFragment", "setHTML", "style=\"", "http://"}) {
      if (file.name.ends_with(".svg") || (file.name == "dom.js" && std::string_view(word) == "http://")) continue;
      EXPECT_EQ(file.plain.find(word), std::string_view::npos) << file.name << ": " << word;
    }
  }
}

class StreamTest : public ApiTest {
 protected:
  StreamTest() {
    for (std::uint64_t number = 0; number < 3; ++number) {
      StepRecord record;
      record.number = number;
      record.begin_ns = static_cast<std::int64_t>(number) * 1'000'000;
      record.end_ns = record.begin_ns + 500'000;
      record.rows = 7;
      record.items = {{.kind = StepItem::Kind::kArrival, .sequence = 1, .a = 7, .b = 3},
                      {.kind = StepItem::Kind::kBlock, .sequence = 1, .a = 987654321, .b = 876543219},
                      {.kind = StepItem::Kind::kSpan, .flags = StepItem::kSamples, .sequence = 1, .a = 0, .b = 7}};
      engine_.recorded.push_back(std::move(record));
    }
    engine_.where.policy = "fair";
    engine_.where.latents.pages = 2;
    engine_.where.latents.cells = {{.used = 15}, {.cached = 15}};
    engine_.where.sequences = {{.sequence = 1, .state = SequenceSnapshot::State::kPrompt, .latent_pages = {1}}};
  }
};

TEST_F(StreamTest, StepsAndSnapshots) {
  start();
  TestClient client(server_->port());
  client.send_request("GET", "/debug/engine/stream");
  client.read_until("event: snapshot");
  const std::string seen = client.read_until("event: steps");
  EXPECT_THAT(seen, HasSubstr("text/event-stream"));
  std::string all = client.read_until("]]]]\n");
  EXPECT_THAT(all, HasSubstr("data: [[0,0,500,7,0,0,0,0,0,0,0,0,0,[[0,0,0,1,7,3],[9,1,0,1,0,7]]],[1,1000,1500,"));
  EXPECT_THAT(all, Not(AnyOf(HasSubstr("987654321"), HasSubstr("876543219")))) << "names of blocks stay inside";
  all = client.read_until("\"sequences\":[{");
  EXPECT_THAT(all, HasSubstr(R"("cells":"f0000f")"));
  // The server's end is the stream's.
  server_->stop(std::chrono::milliseconds(60'000));
  EXPECT_THAT(client.read_all(), HasSubstr("0\r\n\r\n"));
}

TEST_F(StreamTest, SnapshotsAtMostTwiceASecond) {
  start();
  TestClient client(server_->port());
  client.send_request("GET", "/debug/engine/stream");
  client.read_until("event: snapshot");
  const auto first = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(900));
  server_->stop(std::chrono::milliseconds(60'000));
  const std::string more = client.read_all();
  int looks = 0;
  for (std::size_t at = 0; (at = more.find("event: snapshot", at)) != std::string::npos; ++at) ++looks;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - first;
  EXPECT_LE(looks, 1 + 2 * seconds.count());
}

TEST_F(StreamTest, AtMostSixteenLook) {
  start();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 16; ++i) {
    clients.push_back(std::make_unique<TestClient>(server_->port()));
    clients.back()->send_request("GET", "/debug/engine/stream");
    clients.back()->read_until("retry:");
  }
  expect_error(get("/debug/engine/stream"), 503, "", "16 others look at the engine already");
  clients.clear();
}

TEST_F(StreamTest, Exports) {
  const TestAnswer trace = get("/debug/engine/trace");
  EXPECT_THAT(trace.head, HasSubstr("attachment; filename=\"sluice-trace.jsonl\""));
  EXPECT_THAT(trace.body,
              HasSubstr(R"({"timestamp":0.000,"input_length":7,"output_length":3,"max_tokens":3,"step":0)"));
  const boost::json::value events = parsed(get("/debug/engine/perfetto").body);
  EXPECT_EQ(text_at(events, "traceEvents/0/name"), "process_name");
}

TEST_F(StreamTest, ClosedToOtherMachines) {
  options_.http.hosts = {"0.0.0.0"};
  for (const char* path : {"/debug/engine/stream", "/debug/engine/trace", "/debug/engine/perfetto"}) {
    expect_error(get(path), 403, "", "--enable-debug-endpoints");
  }
}

}  // namespace
}  // namespace sluice::page_test
