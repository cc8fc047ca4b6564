// TLS by OpenSSL's libssl, as a filter between bytes: it knows no sockets. TLS 1.2 and 1.3, no renegotiation.
//
// Thread safety: a TlsConfig may be used by several threads; a TlsStream belongs to one connection.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

// A server's certificate chain and its key, read from files in PEM.
class TlsConfig {
 public:
  static Result<std::shared_ptr<const TlsConfig>> load(const std::string& certificate, const std::string& key);
  ~TlsConfig();
  TlsConfig(const TlsConfig&) = delete;
  TlsConfig& operator=(const TlsConfig&) = delete;

 private:
  friend class TlsStream;
  explicit TlsConfig(void* context) : context_(context) {}
  void* const context_;  // SSL_CTX
};

// The server's side of one connection.
class TlsStream {
 public:
  explicit TlsStream(const TlsConfig& config);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // Takes bytes from the client and appends what they say to `plain`. False: they are no TLS that this server
  // understands; an alert may be among the bytes to send.
  bool receive(std::string_view bytes, std::string& plain);
  bool ended() const { return ended_; }  // the client said that it sends no more
  // Appends what is to be sent, handshakes and alerts included.
  void take(std::string& out);
  // What the server says; only after the client has said something.
  bool send(std::string_view plain);
  void end();  // says that no more comes

 private:
  void* ssl_;
  bool ended_ = false;
};

}  // namespace sluice
