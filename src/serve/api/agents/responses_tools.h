// The tools of a /v1/responses request that its client runs: functions, functions in namespaces (how coding agents send
// those of their servers), and custom tools, whose input is free text. All are on offer to the model as functions, and
// its calls go back by the client's names. Thread safety: plain values.
// Used by agent_answer.h, agent_request.h and responses_request.cc.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/request_fields.h"

namespace sluice {

// A tool by its client's name.
struct ClientTool {
  std::string name, space;  // `space`: its namespace, "" without one
  bool is_custom = false;
};
// The tools by the names under which the model calls them.
using ClientTools = std::map<std::string, ClientTool, std::less<>>;

class ResponsesTools {
 public:
  // Reads the key "tools". Tools of other types are noted as ignored.
  void read(RequestFields& fields);

  // Under which name the model knows a tool. One that is not on offer keeps its own name.
  std::string model_name(std::string_view name, std::string_view space) const;
  // Leaves only the tools of these names for the model on offer.
  void keep(const std::vector<std::string>& model_names);

  bool empty() const { return offered_.empty(); }
  boost::json::array take_shown() { return std::move(shown_); }  // tools as the answer repeats them
  boost::json::array functions() const;                          // in chat's form
  std::vector<std::string> paths() const;                        // where each of these stands in the client's body
  ClientTools names() const;

 private:
  struct Offered {
    ClientTool tool;
    std::string model_name, path;
    boost::json::object function;
  };

  void read_tool(RequestFields& tool, const std::string& path, const std::string& space);
  void read_function(RequestFields& tool, const std::string& path, const std::string& space);
  void read_custom(RequestFields& tool, const std::string& path, const std::string& space);
  void offer(ClientTool tool, const std::string& path, boost::json::object function);

  std::vector<Offered> offered_;
  boost::json::array shown_;
};

// A custom tool's input as the arguments of a function, and back; of arguments that were cut, what there is.
std::string custom_arguments(std::string_view input);
std::string custom_input(std::string_view arguments);

}  // namespace sluice
