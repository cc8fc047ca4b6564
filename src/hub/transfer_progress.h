// TransferProgress: how far a download is, on stderr. On a terminal it is one line with bytes, rate and the time left;
// elsewhere it is a line of the log every ten seconds.
// Thread safety: any thread.
// Used by download.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace sluice {

// "41 s", "3 min 5 s", "2 h 10 min".
std::string format_time_left(double seconds);

class TransferProgress {
 public:
  // The disk has `there` bytes of the total already.
  TransferProgress(std::string label, std::uint64_t there, std::uint64_t total);
  ~TransferProgress();  // erases the line
  TransferProgress(const TransferProgress&) = delete;
  TransferProgress& operator=(const TransferProgress&) = delete;

  void add(std::uint64_t bytes);
  void take_back(std::uint64_t bytes);  // such bytes have to be fetched again
  std::string text() const;             // "1.2 GB of 3.4 GB, 35 %, 20.1 MB/s, 1 min 49 s left"

 private:
  std::string text_locked() const;

  const std::string label_;
  const bool on_terminal_;
  mutable std::mutex mutex_;
  std::uint64_t there_, fetched_ = 0;
  const std::uint64_t total_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
  bool drawn_ = false;
};

}  // namespace sluice
