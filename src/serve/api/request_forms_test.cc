// Requests in forms that other servers take and clients therefore send. They are compressed, have a byte order mark,
// odd slashes, whole numbers written as 10.0, or empty values. Also answers that the header alone decides.
#include <zlib.h>
#include <zstd.h>

#include "serve/api/api_testing.h"
#include "serve/api/field_table.h"
#include "serve/http/content_coding.h"

namespace sluice::request_forms_test {
namespace {

using ::testing::HasSubstr;

class RequestFormsTest : public ApiTest {
 protected:
  TestAnswer send(std::string_view path, std::string_view header, std::string_view body) {
    if (!server_) start();
    return request(server_->port(), "POST", path, body, header);
  }
  SamplingParams last() { return engine_.seen().back().sampling; }
};

std::string gzip(const std::string& text) {
  std::string out(text.size() + 1024, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

const std::string kBody = R"({"prompt":"Once upon","max_tokens":3})";

TEST_F(RequestFormsTest, CompressedBodiesAreRead) {
  say("one");
  EXPECT_EQ(send("/v1/completions", "Content-Encoding: gzip\r\n", gzip(kBody)).status, 200);
  EXPECT_EQ(send("/v1/completions", "content-encoding: ZSTD\r\n", zstd(kBody)).status, 200);
  EXPECT_EQ(send("/v1/completions", "Content-Encoding: identity\r\n", kBody).status, 200);
  EXPECT_EQ(send("/tokenize", "Content-Encoding: zstd\r\n", zstd(R"({"prompt":"a"})")).status, 200);
  const TestAnswer other = send("/v1/completions", "Content-Encoding: br\r\n", kBody);
  expect_error(other, 415, "", "expected one of gzip, zstd, deflate");
  EXPECT_THAT(other.head, HasSubstr("Accept-Encoding: gzip, zstd, deflate\r\n"));
  expect_error(send("/v1/completions", "Content-Encoding: gzip\r\n", kBody), 400, "", "expected gzip");
  const std::string long_text(options_.http.max_body_bytes + 1, ' ');
  expect_error(send("/v1/completions", "Content-Encoding: gzip\r\n", gzip(long_text)), 413, "", "the decoded body");
}

TEST_F(RequestFormsTest, DecodedBodiesHaveALimitTogether) {
  BodyDecoder decoder(100, 250);
  const auto coded = [] {
    HttpRequest request;
    request.headers = {{"content-encoding", "gzip"}};
    request.body = gzip(std::string(90, 'x'));
    return request;
  };
  HttpRequest first = coded(), second = coded(), third = coded();
  EXPECT_FALSE(decoder.decode(first));
  EXPECT_EQ(first.body, std::string(90, 'x'));
  EXPECT_FALSE(decoder.decode(second));
  ASSERT_TRUE(decoder.decode(third)) << "100 more might be needed, and 70 are left";
  EXPECT_EQ(decoder.decode(third)->status, 503);
  first = {};
  EXPECT_FALSE(decoder.decode(third)) << "its room is given back with the request";
}

TEST_F(RequestFormsTest, AByteOrderMarkIsSkipped) {
  say("one");
  EXPECT_EQ(post("/v1/completions", "\xEF\xBB\xBF" + kBody).status, 200);
  EXPECT_EQ(post("/v1/completions", "\xEF\xBB" + kBody).status, 400);
}

TEST_F(RequestFormsTest, SlashesAndHints) {
  say("one");
  for (const char* path : {"//v1/completions", "/v1//completions", "/v1/completions/", "///v1///completions//"}) {
    EXPECT_EQ(post(path, kBody).status, 200) << path;
  }
  EXPECT_EQ(get("/health/").status, 200);
  EXPECT_EQ(get("//").status, 200);
  for (const char* path : {"/v1/v1/completions", "/completions", "/openai/v1/completions"}) {
    expect_error(post(path, kBody), 404, "", "did you mean /v1/completions?");
  }
  EXPECT_THAT(post("/no/such", kBody).body, Not(HasSubstr("did you mean")));
}

TEST_F(RequestFormsTest, WholeNumbersMayHaveAPoint) {
  say("one");
  EXPECT_EQ(complete(R"(,"max_tokens":10.0,"top_k":5.0,"seed":7.0,"n":1.0)").status, 200);
  EXPECT_EQ(last().top_k, 5);
  EXPECT_EQ(last().seed, 7U);
  EXPECT_EQ(complete(R"(,"max_tokens":1e1,"seed":-3.0)").status, 200);
  EXPECT_EQ(last().seed, static_cast<std::uint64_t>(-3));
  for (const char* wrong : {R"(,"top_k":5.5)", R"(,"seed":1e300)", R"(,"seed":9007199254740994.0)", R"(,"n":-0.5)"}) {
    EXPECT_EQ(complete(wrong).status, 400) << wrong;
  }
}

TEST_F(RequestFormsTest, ATopPOf0KeepsTheLikeliestToken) {
  say("one");
  EXPECT_EQ(complete(R"(,"top_p":0)").status, 200);
  EXPECT_GT(last().top_p, 0.0F);
  EXPECT_LT(last().top_p, 1e-30F);
}

TEST_F(RequestFormsTest, EmptyValuesCountAsAbsent) {
  say("one");
  int pairs = 0;
  for (const FieldPlaces place : {kInChat, kInCompletion}) {
    for (const Field* field : fields_of(place)) {
      if (field->empty_counts()) continue;
      for (const char* value : {"null", R"("")", "[]", "{}"}) {
        const std::string more = fmt::format(R"(,"{}":{})", field->name, value);
        const TestAnswer answer = place == kInChat ? chat(more) : complete(more);
        EXPECT_EQ(answer.status, 200) << more << " " << answer.body;
        ++pairs;
      }
    }
  }
  EXPECT_GT(pairs, 300);
}

TEST_F(RequestFormsTest, WhatTheHeaderRefusesIsNotAskedToGoOn) {
  options_.keys = {.keys = {"k"}};
  start();
  TestClient client(server_->port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 401);
}

TEST_F(RequestFormsTest, AnswersToUnreadRequestsMayBeReadByAllowedPages) {
  options_.cors_origins = {"https://chat.example"};
  start();
  for (const char* rest : {"Content-Length: 99999999\r\n\r\n", "Content-Length: 5\r\nExpect: tea\r\n\r\n",
                           "Transfer-Encoding: gzip\r\n\r\n"}) {
    TestClient client(server_->port());
    client.send(std::string("POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://chat.example\r\n") +
                rest);
    const TestAnswer answer = client.read_answer();
    EXPECT_GE(answer.status, 400) << rest;
    EXPECT_THAT(answer.head, HasSubstr("Access-Control-Allow-Origin: https://chat.example")) << rest;
  }
}

}  // namespace
}  // namespace sluice::request_forms_test
