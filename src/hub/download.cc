// Used by pull.cc.
#include "hub/download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "hub/part_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// A lock on a file, as huggingface_hub takes it.
class FileLock {
 public:
  explicit FileLock(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (fd_ < 0 || ::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
    log_info("another process fetches this file; waiting for it ({})", path);
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  const int fd_;
};

// One file's download: chunks, and where the hub says that its bytes are.
class Download {
 public:
  Download(const DownloadPlan& plan, const RepositoryFile& file, WebAddress source, PartFile& part,
           TransferProgress& progress)
      : plan_(plan), file_(file), source_(std::move(source)), part_(part), progress_(progress) {}

  // Fetches chunks until there are none, or one of the workers fails.
  void work(HubHttp& http) {
    while (const std::optional<PartFile::Chunk> chunk = part_.take()) {
      const Status status = fetch(http, *chunk);
      if (status.ok()) continue;
      const std::scoped_lock lock(mutex_);
      if (status_.ok()) status_ = status;
      part_.abandon();
    }
  }

  Status run(HubHttp& http) {
    part_.plan(kChunkBytes);
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(part_.chunks(), kConnections); ++i) {
      others.emplace_back([this] {
        HubHttp own(plan_.settings);
        work(own);
      });
    }
    work(http);
    others.clear();
    return status_;
  }

 private:
  WebAddress place() {
    const std::scoped_lock lock(mutex_);
    return place_.value_or(source_);
  }

  void set_place(std::optional<WebAddress> place) {
    const std::scoped_lock lock(mutex_);
    place_ = std::move(place);
  }

  // Says how many bytes at the beginning of an answer's body are not wanted.
  Status check_head(const HttpHead& head, std::uint64_t from, std::uint64_t& skip) const {
    skip = head.status == 200 ? from : 0;
    if (head.status == 200 || head.field("Content-Range").starts_with(fmt::format("bytes {}-", from))) return {};
    return invalid_argument(fmt::format("{}: asked for the bytes from {} on, found the range '{}'", file_.path, from,
                                        head.field("Content-Range")));
  }

  HubAnswer fetch_some(HubHttp& http, const PartFile::Chunk& chunk, std::uint64_t& received) {
    const std::uint64_t from = chunk.begin + received;
    std::uint64_t skip = 0;
    HubGet get{.from = place()};
    if (from > 0 || chunk.end < file_.bytes) get.range = fmt::format("bytes={}-{}", from, chunk.end - 1);
    get.on_head = [&](const HttpHead& head) { return check_head(head, from, skip); };
    get.on_body = [&](std::string_view bytes) -> Status {
      const std::uint64_t skipped = std::min<std::uint64_t>(skip, bytes.size());
      skip -= skipped;
      bytes.remove_prefix(skipped);
      const std::uint64_t wanted = chunk.end - chunk.begin - received;
      const bool is_too_long = bytes.size() > wanted;
      bytes = bytes.substr(0, wanted);
      SLUICE_RETURN_IF_ERROR(part_.put(chunk, bytes));
      received += bytes.size();
      progress_.add(bytes.size());
      return is_too_long ? unavailable(fmt::format("{}: the server sends more than was asked for", file_.path))
                         : Status();
    };
    return http.get(get);
  }

  Status fetch(HubHttp& http, const PartFile::Chunk& chunk) {
    HubRetries retries;
    for (std::uint64_t received = 0;;) {
      const std::uint64_t before = received;
      HubAnswer answer = fetch_some(http, chunk, received);
      if (received == chunk.end - chunk.begin) {
        // Whatever the end of the answer was. The next chunk asks the same place.
        set_place(answer.place);
        return {};
      }
      Status status = explain_answer(answer, plan_.name, plan_.settings);
      if (status.ok()) {
        status = unavailable(fmt::format("{}: the answer ended early", file_.path));
        answer.passing = true;
      }
      // Such a place is good for a while only; then the hub names another.
      const bool is_elsewhere = !plan_.settings.is_endpoint(answer.place.server);
      answer.passing = answer.passing || (is_elsewhere && answer.failure.ok() && answer.head.status >= 400);
      set_place(std::nullopt);
      SLUICE_RETURN_IF_ERROR(retries.wait(answer, status, received > before));
    }
  }

  const DownloadPlan& plan_;
  const RepositoryFile& file_;
  const WebAddress source_;
  PartFile& part_;
  TransferProgress& progress_;
  std::mutex mutex_;
  std::optional<WebAddress> place_;
  Status status_;
};

// The bytes that are missing, and whether they are the right ones.
Status complete(const DownloadPlan& plan, const RepositoryFile& file, HubHttp& http, TransferProgress& progress,
                PartFile& part) {
  SLUICE_ASSIGN_OR_RETURN(const WebAddress source,
                          parse_web_address(fmt::format("{}/{}/resolve/{}/{}", plan.settings.endpoint, plan.name.id,
                                                        plan.commit, escape_path(file.path))));
  const bool is_resumed = part.written() > 0;
  SLUICE_RETURN_IF_ERROR(Download(plan, file, source, part, progress).run(http));
  Status status = part.finish();
  if (!part.is_wrong() || !is_resumed) return status;
  log_info("{}: what was there of it was not its beginning; fetching it anew", file.path);
  progress.take_back(file.bytes);
  SLUICE_RETURN_IF_ERROR(part.start_anew());
  SLUICE_RETURN_IF_ERROR(Download(plan, file, source, part, progress).run(http));
  return part.finish();
}

}  // namespace

Status download(const DownloadPlan& plan, const RepositoryFile& file, HubHttp& http, TransferProgress& progress) {
  const fs::path blob = fs::path(plan.blobs) / file.digest;
  const std::string part_path = blob.string() + ".incomplete";
  const FileLock lock(fmt::format("{}/{}.lock", plan.locks, file.digest));
  std::error_code error;
  if (fs::is_regular_file(blob, error)) return {};  // another process has fetched it meanwhile
  PartFile part(part_path, file);
  SLUICE_RETURN_IF_ERROR(part.open());
  const Status status = complete(plan, file, http, progress, part);
  if (status.ok()) {
    fs::rename(part_path, blob, error);
    if (!error) return {};
    return resource_exhausted(fmt::format("{}: cannot be put there ({})", blob.string(), error.message()));
  }
  if (!part.is_wrong()) return status;
  fs::remove(part_path, error);  // such bytes are of no use
  return {status.code(), status.message() +
                             "; nothing of it was kept: try again, and if it repeats, the server or a proxy changes "
                             "the files"};
}

}  // namespace sluice
