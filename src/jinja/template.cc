// Used by text/chat/templates/chat_templates.h.
#include "jinja/template.h"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "jinja/evaluator.h"
#include "jinja/parser.h"

namespace sluice::jinja {

namespace {

namespace json = boost::json;

// Not charged to the run: what a request holds is limited where it comes in. The parser limits its depth.
struct Origin {
  bool is_client = false;
  std::span<const std::string_view> own_words = {};

  Value text(std::string_view bytes) const {
    if (!is_client || std::ranges::find(own_words, bytes) != own_words.end()) {
      return Value::constant_text(std::string(bytes));
    }
    return Value(std::make_shared<const Text>(nullptr, MarkedText().client(bytes), true));
  }
};

Value from_json(const json::value& value, const Origin& origin) {
  switch (value.kind()) {
    case json::kind::null:
      return Value::none();
    case json::kind::bool_:
      return Value::boolean(value.get_bool());
    case json::kind::int64:
      return Value::integer(value.get_int64());
    case json::kind::uint64:
      return Value::integer(static_cast<Int>(value.get_uint64()));
    case json::kind::double_:
      return Value::real(value.get_double());
    case json::kind::string:
      return origin.text(value.get_string());
    case json::kind::array: {
      std::vector<Value> items;
      for (const json::value& item : value.get_array()) items.push_back(from_json(item, origin));
      return Value(std::make_shared<const Sequence>(nullptr, Sequence::Flavor::kList, std::move(items)));
    }
    case json::kind::object: {
      Dict::Entries entries;
      for (const auto& [key, item] : value.get_object()) {
        entries.emplace_back(origin.text(key), from_json(item, origin));
      }
      return Value(std::make_shared<const Dict>(nullptr, std::move(entries)));
    }
  }
  return {};
}

}  // namespace

Result<Template> Template::parse(std::string_view source, std::string_view what) {
  Result<TemplateTree> tree = parse_template(source);
  if (!tree.ok()) return tree.status().with_context(std::string(what));
  return Template(std::string(source), std::string(what), std::move(tree).value());
}

Result<MarkedText> Template::render(const json::object& variables) const {
  return render(variables, Limits(), std::time(nullptr));
}

Result<MarkedText> Template::render(const json::object& variables, const Limits& limits, std::time_t now) const {
  Run run(limits, now);
  Evaluator evaluator(run, *tree_);
  for (const auto& [name, value] : variables) evaluator.set_variable(name, from_json(value, {}));
  return finish(run, evaluator);
}

Result<MarkedText> Template::render_request(const json::object& own, const json::object& request,
                                            std::span<const std::string_view> own_words) const {
  Run run(Limits(), std::time(nullptr));
  Evaluator evaluator(run, *tree_);
  const Origin client{.is_client = true, .own_words = own_words};
  for (const auto& [name, value] : own) evaluator.set_variable(name, from_json(value, {}));
  for (const auto& [name, value] : request) evaluator.set_variable(name, from_json(value, client));
  return finish(run, evaluator);
}

Result<MarkedText> Template::finish(Run& run, Evaluator& evaluator) const {
  MarkedText text = evaluator.render();
  if (run.failed()) return run.status().with_context(what_);
  return text;
}

bool Template::mentions(std::string_view name) const {
  return std::ranges::find(tree_->names, name) != tree_->names.end();
}

}  // namespace sluice::jinja
