#include "serve/http/content_coding.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <string>

namespace sluice::content_coding_test {
namespace {

constexpr int kGzip = 15 + 16, kZlib = 15;

std::string deflated(const std::string& text, int form) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, form, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text, int window_bits = 0) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  if (window_bits != 0) {
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_bits);
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  }
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_inBuffer in{text.data(), text.size(), 0};
  ZSTD_outBuffer made{out.data(), out.size(), 0};
  while (ZSTD_compressStream2(context, &made, &in, window_bits == 0 ? ZSTD_e_end : ZSTD_e_flush) != 0) continue;
  if (window_bits != 0) {
    while (ZSTD_compressStream2(context, &made, &in, ZSTD_e_end) != 0) continue;
  }
  ZSTD_freeCCtx(context);
  out.resize(made.pos);
  return out;
}

std::string text_of(const std::variant<std::string, ApiError>& decoded) {
  const auto* text = std::get_if<std::string>(&decoded);
  return text != nullptr ? *text : "error: " + std::get<ApiError>(decoded).message;
}
int status_of(const std::variant<std::string, ApiError>& decoded) {
  const auto* error = std::get_if<ApiError>(&decoded);
  return error != nullptr ? error->status : 200;
}

const std::string kText = R"({"prompt": ")" + std::string(200'000, 'a') + R"("})";

TEST(ContentCoding, DecodesWhatClientsSend) {
  EXPECT_EQ(text_of(decode_body(deflated(kText, kGzip), "gzip", 1 << 20)), kText);
  EXPECT_EQ(text_of(decode_body(deflated(kText, kGzip), " X-GZIP ", 1 << 20)), kText);
  EXPECT_EQ(text_of(decode_body(deflated(kText, kZlib), "deflate", 1 << 20)), kText);
  EXPECT_EQ(text_of(decode_body(zstd(kText), "zstd", 1 << 20)), kText);
  EXPECT_EQ(text_of(decode_body(zstd(kText), "Zstd", kText.size())), kText);
  EXPECT_EQ(text_of(decode_body(deflated("", kGzip), "gzip", 10)), "");
}

TEST(ContentCoding, ReadsSeveralMembersAndFrames) {
  EXPECT_EQ(text_of(decode_body(deflated("ab", kGzip) + deflated("cd", kGzip), "gzip", 100)), "abcd");
  EXPECT_EQ(text_of(decode_body(zstd("ab") + zstd("cd"), "zstd", 100)), "abcd");
}

TEST(ContentCoding, EndsAtTheLimit) {
  const std::string bomb(40'000'000, '\0');
  EXPECT_EQ(status_of(decode_body(deflated(bomb, kGzip), "gzip", 1 << 20)), 413);
  EXPECT_EQ(status_of(decode_body(zstd(bomb), "zstd", 1 << 20)), 413);
  EXPECT_EQ(status_of(decode_body(deflated("abc", kGzip), "gzip", 2)), 413);
  EXPECT_EQ(status_of(decode_body(zstd("abc"), "zstd", 3)), 200);
}

TEST(ContentCoding, RefusesBrokenBytes) {
  for (const std::string& whole : {deflated(kText, kGzip), zstd(kText)}) {
    const std::string coding = whole[0] == '\x1f' ? "gzip" : "zstd";
    EXPECT_EQ(status_of(decode_body(whole.substr(0, whole.size() - 3), coding, 1 << 20)), 400);
    EXPECT_EQ(status_of(decode_body(whole + "tail", coding, 1 << 20)), 400);
    EXPECT_EQ(status_of(decode_body("no such bytes", coding, 1 << 20)), 400);
    EXPECT_EQ(status_of(decode_body(whole.substr(0, 1), coding, 1 << 20)), 400);
  }
  std::string other = deflated(kText, kGzip);
  other[other.size() / 2] ^= 0x55;
  EXPECT_EQ(status_of(decode_body(other, "gzip", 1 << 20)), 400);
  EXPECT_EQ(status_of(decode_body(zstd(kText, 27), "zstd", 1 << 20)), 400) << "a window of 128 MiB";
}

TEST(ContentCoding, NamesWhatIsNotKnown) {
  for (const char* coding : {"br", "compress", "gzip, gzip", "zstd,gzip"}) {
    const auto decoded = decode_body("x", coding, 100);
    EXPECT_EQ(status_of(decoded), 415) << coding;
    EXPECT_NE(text_of(decoded).find("gzip, zstd, deflate"), std::string::npos);
  }
  EXPECT_FALSE(is_coded(""));
  EXPECT_FALSE(is_coded("Identity"));
  EXPECT_TRUE(is_coded("br"));
}

}  // namespace
}  // namespace sluice::content_coding_test
