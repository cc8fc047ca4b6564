// Used by http_session.cc.
#define BOOST_ASIO_SEPARATE_COMPILATION
#define BOOST_BEAST_SEPARATE_COMPILATION

#include "serve/http/http_exchange.h"

#include <utility>

namespace sluice {
namespace {

class Exchange : public HttpExchange {
 public:
  Exchange(std::weak_ptr<HttpLoop> loop, std::shared_ptr<HttpLiveAnswer> answer)
      : loop_(std::move(loop)), answer_(std::move(answer)) {}
  ~Exchange() override {
    change([](HttpLiveAnswer& answer) { answer.abandon(); });
  }

  HttpRequest& request() override { return answer_->request; }
  void respond(HttpResponse response) override {
    change([response = std::move(response)](HttpLiveAnswer& answer) { answer.respond(response); });
  }
  void begin_stream(HttpResponse head) override {
    change([head = std::move(head)](HttpLiveAnswer& answer) { answer.begin_stream(head); });
  }
  void write(std::string piece) override {
    change([piece = std::move(piece)](HttpLiveAnswer& answer) { answer.write(piece); });
  }
  void finish() override {
    change([](HttpLiveAnswer& answer) { answer.finish(); });
  }
  void post(std::function<void()> task) override {
    if (const auto loop = loop_.lock()) boost::asio::post(loop->io, std::move(task));
  }
  void on_disconnect(std::function<void()> gone) override {
    change([gone = std::move(gone)](HttpLiveAnswer& answer) {
      if (answer.session.expired()) {
        gone();
      } else if (!answer.finished) {
        answer.gone = gone;
      }
    });
  }
  void on_backlog(std::function<void(bool)> tell) override {
    change([tell = std::move(tell)](HttpLiveAnswer& answer) {
      if (!answer.session.expired() && !answer.finished) answer.backlog = tell;
    });
  }
  void after(std::chrono::nanoseconds time, std::function<void()> task) override {
    const auto loop = loop_.lock();
    if (!loop) return;
    boost::asio::post(loop->io, [io = &loop->io, answer = answer_, time, task = std::move(task)] {
      if (answer->session.expired() || answer->finished) return;
      answer->timer = std::make_unique<boost::asio::steady_timer>(*io, time);
      answer->timer->async_wait([weak = std::weak_ptr(answer), task](boost::system::error_code failure) {
        const auto found = weak.lock();
        if (!failure && found && !found->finished && !found->session.expired()) task();
      });
    });
  }

 private:
  // Makes the change at once on the network thread, unless an earlier one has yet to be made.
  template <class Change>
  void change(Change change) {
    const auto loop = loop_.lock();
    if (!loop) return;
    if (answer_->changes == 0 && loop->is_current()) return make(*answer_, change);
    ++answer_->changes;
    boost::asio::post(loop->io, [answer = answer_, change = std::move(change)] {
      make(*answer, change);
      --answer->changes;
    });
  }

  template <class Change>
  static void make(HttpLiveAnswer& answer, const Change& change) {
    change(answer);
    if (const auto session = answer.session.lock()) session->changed();
  }

  std::weak_ptr<HttpLoop> loop_;
  std::shared_ptr<HttpLiveAnswer> answer_;
};

}  // namespace

HttpExchangePtr make_http_exchange(const std::shared_ptr<HttpLoop>& loop, std::shared_ptr<HttpLiveAnswer> answer) {
  return std::make_shared<Exchange>(loop, std::move(answer));
}

}  // namespace sluice
