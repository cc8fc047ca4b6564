// A blocking HTTP client for tests: sends bytes as they are, well-formed or not, and reads answers.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

struct TestAnswer {
  int status = 0;      // 0: the connection ended before a whole answer
  std::string head;    // status line and header
  std::string body;    // chunks joined
  bool whole = false;  // the end was seen
};

class TestClient {
 public:
  // `receive_bytes`: about this many are kept by the system until they are read; 0: megabytes.
  explicit TestClient(int port, int receive_bytes = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  // Nothing more is sent; the answer is still read.
  void end_sending() { ::shutdown(socket_, SHUT_WR); }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // `header`: more lines of it, each with its end.
  void send_request(std::string_view method, std::string_view path, std::string_view body = "",
                    std::string_view header = "") {
    send(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n{}", method, path, header,
                     body.size(), body));
  }

  // For bytes, or the end of the connection: a minute otherwise.
  void wait_at_most(std::chrono::milliseconds patience) { patience_ = patience; }

  // More bytes into the buffer; false at the end of the connection. It is a failure if neither comes.
  bool receive() {
    pollfd ready{socket_, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(patience_.count())) <= 0) {
      ADD_FAILURE() << "neither bytes nor an end of the connection came";
      return false;
    }
    std::array<char, 65536> bytes;
    const auto got = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (got <= 0) return false;
    buffer_.append(bytes.data(), static_cast<std::size_t>(got));
    return true;
  }
  // Reads until the buffer holds `text`; what is there then.
  std::string read_until(std::string_view text) {
    while (buffer_.find(text) == std::string::npos && receive()) {
    }
    return buffer_;
  }
  // Everything up to the end of the connection.
  std::string read_all() {
    while (receive()) {
    }
    return std::exchange(buffer_, {});
  }

  TestAnswer read_answer(bool head_only = false) {
    TestAnswer answer;
    const std::string seen = read_until("\r\n\r\n");
    const std::size_t end = seen.find("\r\n\r\n");
    if (end == std::string::npos) return answer;
    answer.head = seen.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    answer.status = std::stoi(answer.head.substr(answer.head.find(' ') + 1, 3));
    if (head_only) {
      answer.whole = true;
    } else if (answer.head.find("Transfer-Encoding: chunked") != std::string::npos) {
      read_chunks(answer);
    } else if (const auto at = answer.head.find("Content-Length: "); at != std::string::npos) {
      const std::size_t length = std::stoul(answer.head.substr(at + 16));
      while (buffer_.size() < length && receive()) {
      }
      answer.whole = buffer_.size() >= length;
      answer.body = buffer_.substr(0, length);
      buffer_.erase(0, length);
    } else {
      answer.body = read_all();
      answer.whole = true;
    }
    return answer;
  }

 private:
  void read_chunks(TestAnswer& answer) {
    for (;;) {
      while (buffer_.find("\r\n") == std::string::npos) {
        if (!receive()) return;
      }
      const std::size_t length = std::stoul(buffer_, nullptr, 16);
      const std::size_t start = buffer_.find("\r\n") + 2;
      while (buffer_.size() < start + length + 2) {
        if (!receive()) return;
      }
      answer.body += buffer_.substr(start, length);
      buffer_.erase(0, start + length + 2);
      if (length == 0) {
        answer.whole = true;
        return;
      }
    }
  }

  int socket_;
  bool connected_ = false;
  std::chrono::milliseconds patience_{60'000};
  std::string buffer_;
};

inline TestAnswer request(int port, std::string_view method, std::string_view path, std::string_view body = "",
                          std::string_view header = "") {
  TestClient client(port);
  client.send_request(method, path, body, header);
  return client.read_answer(method == "HEAD");
}

}  // namespace sluice
