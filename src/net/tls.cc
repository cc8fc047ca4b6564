// Used by http_client.cc and serve/http/http_socket.h.
#include "net/tls.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <climits>

#include "base/check.h"

namespace sluice {
namespace {

SSL_CTX* as_context(void* context) {
  return static_cast<SSL_CTX*>(context);
}
SSL* as_ssl(void* ssl) {
  return static_cast<SSL*>(ssl);
}

std::string last_error() {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return text.data();
}

// Clients that ask which protocol to speak hear HTTP/1.1; what else they know does not matter.
int choose_protocol(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_length, const unsigned char* in,
                    unsigned in_length, void* /*argument*/) {
  static constexpr std::array<unsigned char, 9> kHttp = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* chosen = nullptr;
  const int found = SSL_select_next_proto(&chosen, out_length, kHttp.data(), kHttp.size(), in, in_length);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

}  // namespace

Result<std::shared_ptr<const TlsConfig>> TlsConfig::load(const std::string& certificate, const std::string& key) {
  ERR_clear_error();
  std::shared_ptr<const TlsConfig> config(new TlsConfig(SSL_CTX_new(TLS_server_method())));
  SSL_CTX* context = as_context(config->context_);
  SLUICE_CHECK(context != nullptr, "libssl gives a context");
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                   SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) {
    return invalid_argument(
        fmt::format("--tls-certificate {}: expected a certificate chain in PEM: {}", certificate, last_error()));
  }
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return invalid_argument(
        fmt::format("--tls-key {}: expected the certificate's private key in PEM: {}", key, last_error()));
  }
  return config;
}

Result<std::shared_ptr<const TlsConfig>> TlsConfig::client(const std::string& authorities, bool trust_all) {
  ERR_clear_error();
  std::shared_ptr<const TlsConfig> config(new TlsConfig(SSL_CTX_new(TLS_client_method())));
  SSL_CTX* context = as_context(config->context_);
  SLUICE_CHECK(context != nullptr, "libssl gives a context");
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  if (trust_all) return config;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (authorities.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_file(context, authorities.c_str()) != 1) {
    return invalid_argument(fmt::format("{}: expected certificates in PEM: {}", authorities, last_error()));
  }
  return config;
}

TlsConfig::~TlsConfig() {
  SSL_CTX_free(as_context(context_));
}

TlsStream::TlsStream(const TlsConfig& config) : ssl_(SSL_new(as_context(config.context_))) {
  SLUICE_CHECK(ssl_ != nullptr, "libssl gives a connection");
  SSL* ssl = as_ssl(ssl_);
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_set_accept_state(ssl);
}

TlsStream::TlsStream(const TlsConfig& config, const std::string& host) : TlsStream(config) {
  SSL* ssl = as_ssl(ssl_);
  SSL_set_connect_state(ssl);
  std::array<unsigned char, sizeof(in6_addr)> address{};
  const bool is_address =
      inet_pton(AF_INET, host.c_str(), address.data()) == 1 || inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
  if (is_address) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl, host.c_str());
    SSL_set1_host(ssl, host.c_str());
  }
  SSL_do_handshake(ssl);
}

TlsStream::~TlsStream() {
  SSL_free(as_ssl(ssl_));
}

bool TlsStream::receive(std::string_view bytes, std::string& plain) {
  SSL* ssl = as_ssl(ssl_);
  SLUICE_CHECK(bytes.size() <= INT_MAX, "reads are small");
  if (BIO_write(SSL_get_rbio(ssl), bytes.data(), static_cast<int>(bytes.size())) < 0) return false;
  std::array<char, 16 << 10> piece;  // a record's most
  for (;;) {
    ERR_clear_error();
    const int got = SSL_read(ssl, piece.data(), static_cast<int>(piece.size()));
    if (got > 0) {
      plain.append(piece.data(), static_cast<std::size_t>(got));
      continue;
    }
    const int why = SSL_get_error(ssl, got);
    ended_ = ended_ || why == SSL_ERROR_ZERO_RETURN;
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_ZERO_RETURN) return true;
    const long verdict = SSL_get_verify_result(ssl);
    failure_ = verdict == X509_V_OK ? last_error() : X509_verify_cert_error_string(verdict);
    ERR_clear_error();
    return false;
  }
}

bool TlsStream::ready() const {
  return SSL_is_init_finished(as_ssl(ssl_)) == 1;
}

void TlsStream::take(std::string& out) {
  BIO* bio = SSL_get_wbio(as_ssl(ssl_));
  const std::size_t before = out.size(), more = BIO_ctrl_pending(bio);
  out.resize(before + more);
  std::size_t got = 0;
  if (more > 0 && BIO_read_ex(bio, out.data() + before, more, &got) != 1) got = 0;
  out.resize(before + got);
}

bool TlsStream::send(std::string_view plain) {
  ERR_clear_error();
  std::size_t sent = 0;
  return plain.empty() || (SSL_write_ex(as_ssl(ssl_), plain.data(), plain.size(), &sent) == 1 && sent == plain.size());
}

void TlsStream::end() {
  ERR_clear_error();
  if (SSL_is_init_finished(as_ssl(ssl_)) == 1) SSL_shutdown(as_ssl(ssl_));
  ERR_clear_error();
}

}  // namespace sluice
