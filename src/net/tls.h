// TLS by OpenSSL's libssl, as a filter between bytes: it knows no sockets. TLS 1.2 and 1.3, no renegotiation.
//
// Thread safety: a TlsConfig may be used by several threads; a TlsStream belongs to one connection.
// Used by http_client.cc and serve/http/http_socket.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

// The settings of one side's connections.
class TlsConfig {
 public:
  // A server's: its certificate chain and its key, read from files in PEM.
  static Result<std::shared_ptr<const TlsConfig>> load(const std::string& certificate, const std::string& key);
  // A client's: whose certificates it trusts, from a file in PEM, "": those that the system trusts; or all
  // certificates.
  static Result<std::shared_ptr<const TlsConfig>> client(const std::string& authorities, bool trust_all);
  ~TlsConfig();
  TlsConfig(const TlsConfig&) = delete;
  TlsConfig& operator=(const TlsConfig&) = delete;

 private:
  friend class TlsStream;
  explicit TlsConfig(void* context) : context_(context) {}
  void* const context_;  // SSL_CTX
};

// One side of a connection.
class TlsStream {
 public:
  explicit TlsStream(const TlsConfig& config);
  // The client's, whose first bytes are there to be taken: the certificate has to be of that host, a name or an
  // address.
  TlsStream(const TlsConfig& config, const std::string& host);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // Takes bytes from the other side and appends what they say to `plain`. False: they are no TLS that this side
  // understands, or not of whom it trusts; an alert may be among the bytes to send.
  bool receive(std::string_view bytes, std::string& plain);
  bool ended() const { return ended_; }                    // the other side said that it sends no more
  bool ready() const;                                      // both have said who they are
  const std::string& failure() const { return failure_; }  // what was wrong, in words
  // Appends what is to be sent, handshakes and alerts included.
  void take(std::string& out);
  // Sends this side's bytes; a server only after the client has said something, a client only when it is ready.
  bool send(std::string_view plain);
  void end();  // says that no more comes

 private:
  void* ssl_;
  bool ended_ = false;
  std::string failure_;
};

}  // namespace sluice
