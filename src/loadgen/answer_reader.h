// AnswerReader: what a load generator wants to know of one answer of an OpenAI-compatible server, from its bytes and
// the times at which they came. Reads chat completions and completions, whole and streamed.
//
// The first token is the first event with text, reasoning or (part of) a tool call: servers send a first event with the
// role alone, which is not a token. An event may hold several tokens; the server's usage tells how many there were.
// Thread safety: one thread at a time.
// Used by load_run.h.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/event_reader.h"
#include "net/http_client.h"

namespace sluice {

enum class Failure {
  kNone,
  kConnect,     // no connection
  kStatus,      // a status other than 200
  kTimeout,     // no end in time
  kCut,         // the answer or its stream ended early: no [DONE], no finish_reason, a broken connection
  kMalformed,   // not HTTP, not JSON, not of the API's form
  kErrorEvent,  // an error object within a stream
  kMixed,       // events of another answer: the id changed
  kNoTokens,    // an end without any token, though some were asked for
  kGivenUp,     // the run ended first
};
const char* failure_name(Failure failure);

struct AnswerRecord {
  Failure failure = Failure::kNone;
  std::string reason;  // the cause of the failure
  int status = 0;
  LoadClock::time_point end;
  std::vector<LoadClock::time_point> token_times;                      // the time of each event with a token
  int prompt_tokens = -1, completion_tokens = -1, cached_tokens = -1;  // the server's usage; -1: it reports none
  std::string finish_reason;
  std::string text;                 // reasoning, text and tool calls as they came, one after the other
  std::vector<std::string> pieces;  // the parts of `text`, one an event
  std::string logprobs;             // for each token, as the server wrote them; "": none
};

class AnswerReader {
 public:
  // Events for HttpClient; `ended` is called with the whole record. The reader must outlive the call.
  HttpEvents events(std::function<void(AnswerRecord)> ended);

 private:
  void take_head(int status, bool events);
  void take_bytes(std::string_view bytes);
  void take_event(std::string_view data);
  void take_whole();
  void take_object(const boost::json::object& object);
  void take_choice(const boost::json::object& choice);
  void take_usage(const boost::json::object& object);
  void finish(CallEnd end, const std::string& reason);
  void fail(Failure failure, std::string reason);

  AnswerRecord record_;
  EventReader reader_;
  std::string body_, id_;
  bool streamed_ = false, done_ = false;
};

}  // namespace sluice
