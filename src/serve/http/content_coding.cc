// Used by serve/server.cc.
#include "serve/http/content_coding.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>

namespace sluice {
namespace {

using Decoded = std::variant<std::string, ApiError>;

constexpr std::size_t kPieceBytes = 64 << 10;
constexpr int kMostWindowBits = 24;  // for zstd: 16 MiB, the memory that a frame may ask for

// "GZIP " -> "gzip"
std::string coding_name(std::string_view coding) {
  while (!coding.empty() && (coding.front() == ' ' || coding.front() == '\t')) coding.remove_prefix(1);
  while (!coding.empty() && (coding.back() == ' ' || coding.back() == '\t')) coding.remove_suffix(1);
  std::string out(coding.substr(0, 40));
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

ApiError too_long(std::size_t max_bytes) {
  return {413, fmt::format("the decoded body exceeds the limit of {} bytes", max_bytes), "", ""};
}

ApiError broken(std::string_view coding, std::string_view what) {
  return {400, fmt::format("request body: expected {} as Content-Encoding says, found {}", coding, what), "",
          "invalid_encoding"};
}

// gzip with all its members, or the zlib format, which HTTP calls deflate.
Decoded inflate_body(std::string_view body, std::string_view coding, std::size_t max_bytes) {
  constexpr int kGzipOrZlib = 15 + 32;  // the largest window; the header decides
  z_stream stream{};
  if (inflateInit2(&stream, kGzipOrZlib) != Z_OK) return ApiError{503, "no memory to decode the body", "", ""};
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
  auto* input = const_cast<char*>(body.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast): zlib reads only
  stream.next_in = reinterpret_cast<Bytef*>(input);
  stream.avail_in = static_cast<uInt>(body.size());
  std::array<char, kPieceBytes> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before it is read
  std::string out;
  for (;;) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = kPieceBytes;
    const int state = inflate(&stream, Z_NO_FLUSH);
    const std::size_t made = kPieceBytes - stream.avail_out;
    if (out.size() + made > max_bytes) return too_long(max_bytes);
    out.append(piece.data(), made);
    if (state == Z_STREAM_END) {
      if (stream.avail_in == 0) return out;
      if (inflateReset(&stream) != Z_OK) return broken(coding, "bytes behind its end");
    } else if (state == Z_BUF_ERROR) {
      return broken(coding, "its beginning only");
    } else if (state != Z_OK) {
      return broken(coding, stream.msg != nullptr ? stream.msg : "other bytes");
    }
  }
}

Decoded decode_zstd(std::string_view body, std::size_t max_bytes) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (context == nullptr) return ApiError{503, "no memory to decode the body", "", ""};
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kMostWindowBits);
  ZSTD_inBuffer in{body.data(), body.size(), 0};
  std::array<char, kPieceBytes> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before it is read
  std::string out;
  for (;;) {
    ZSTD_outBuffer made{piece.data(), piece.size(), 0};
    const std::size_t left = ZSTD_decompressStream(context.get(), &made, &in);
    if (ZSTD_isError(left) != 0U) return broken("zstd", ZSTD_getErrorName(left));
    if (out.size() + made.pos > max_bytes) return too_long(max_bytes);
    out.append(piece.data(), made.pos);
    if (in.pos == in.size && made.pos < made.size) {
      return left == 0 ? Decoded(std::move(out)) : broken("zstd", "its beginning only");
    }
  }
}

}  // namespace

bool is_coded(std::string_view content_encoding) {
  const std::string name = coding_name(content_encoding);
  return !name.empty() && name != "identity";
}

Decoded decode_body(std::string_view body, std::string_view content_encoding, std::size_t max_bytes) {
  const std::string name = coding_name(content_encoding);
  if (name == "zstd") return decode_zstd(body, max_bytes);
  if (name == "gzip" || name == "x-gzip" || name == "deflate") return inflate_body(body, name, max_bytes);
  return ApiError{
      415, fmt::format("the header Content-Encoding: expected one of {}, or none, found '{}'", kKnownCodings, name), "",
      "unsupported_encoding"};
}

std::optional<ApiError> BodyDecoder::decode(HttpRequest& request) {
  const std::size_t before = held_->fetch_add(max_body_bytes_);
  std::size_t held = max_body_bytes_;
  std::optional<ApiError> error;
  if (before + max_body_bytes_ > max_bodies_bytes_) {
    error = ApiError{503, "the server holds too many request bodies; try again", "", "unavailable"};
  } else {
    auto decoded = decode_body(request.body, request.header("content-encoding"), max_body_bytes_);
    if (auto* failure = std::get_if<ApiError>(&decoded)) {
      error = std::move(*failure);
    } else {
      request.body = std::move(std::get<std::string>(decoded));
      request.body.shrink_to_fit();
      held = request.body.size();
      *held_ -= max_body_bytes_ - held;
      request.body_room = std::shared_ptr<void>(nullptr, [counter = held_, held](void*) { *counter -= held; });
      return std::nullopt;
    }
  }
  *held_ -= held;
  return error;
}

}  // namespace sluice
