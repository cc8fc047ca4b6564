#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "files/json.h"
#include "jinja/template.h"

namespace sluice::jinja::safe_text_test {
namespace {

// The output, or "! message". The variable c is a client's.
std::string out(std::string_view source, bool clients = false) {
  const auto parsed = Template::parse(source, "test");
  if (!parsed.ok()) return "! " + parsed.status().message();
  const auto variables = parse_json(R"({"c": "a<b> & \"c\"", "n": 3, "l": ["<", "&"]})", "variables");
  const Result<MarkedText> text =
      clients ? parsed->render_request({}, variables->get_object(), {}) : parsed->render(variables->get_object());
  if (!text.ok()) return "! " + text.status().message();
  if (!clients) return text->bytes;
  std::string marked;  // what is a client's in brackets
  std::size_t done = 0;
  for (const ByteRange& range : text->clients) {
    marked += text->bytes.substr(done, range.begin - done) + "[" +
              text->bytes.substr(range.begin, range.end - range.begin) + "]";
    done = range.end;
  }
  return marked + text->bytes.substr(done);
}

struct Case {
  const char* source;
  const char* expected;
};

// All of these are what jinja2 3.1.6 and markupsafe 3.0.4 write in the environment of transformers.
TEST(JinjaSafeText, EscapesWhatIsPutIntoIt) {
  for (const Case& c : std::initializer_list<Case>{
           {"{{ 'Use '|safe + c + \"'\"|safe }}", "Use a&lt;b&gt; &amp; &#34;c&#34;'"},
           {"{{ c + 'x'|safe }}", "a&lt;b&gt; &amp; &#34;c&#34;x"},
           {"{{ ('<'|safe) ~ '<' }}", "<<"},
           {"{{ (('<'|safe) ~ '') + '<' }}", "<<"},
           {"{{ ('<'|safe) * 2 + '<' }}", "<<&lt;"},
           {"{{ ('<b>'|safe)[1:] + '<' }}|{{ ('<b>'|safe)[0] + '<' }}", "b>&lt;|<&lt;"},
           {"{{ ('<%s>'|safe) % '<' }}|{{ ('%s%d'|safe) % ('<', n) }}", "<&lt;>|&lt;3"},
           {"{{ ('<%s>'|safe)|format('<') }}|{{ '%s'|format('<'|safe) }}", "<&lt;>|<"},
           {"{{ ('<{}>'|safe).format('<') }}|{{ ('{a}'|safe).format(a='<') }}", "<&lt;>|&lt;"},
           {"{{ (', '|safe).join(l) }}|{{ l|join(','|safe) }}", "&lt;, &amp;|<,&"},
           {"{{ ('<a'|safe).replace('a', '>') }}|{{ ('<a'|safe)|replace('a', '>') }}", "<&gt;|<>"},
           {"{{ ('<a'|safe).upper() + '<' }}|{{ ('<a'|safe)|upper + '<' }}|{{ ('<a'|safe)|title + '<' }}",
            "<A&lt;|<A&lt;|<A<"},
           {"{{ ('<a >'|safe).split()[0] + '<' }}|{{ ('  <'|safe)|trim + '<' }}", "<a&lt;|<&lt;"},
           {"{% for x in '<'|safe %}{{ x + '<' }}{% endfor %}|{{ ('<'|safe)|first + '<' }}", "<<|<<"},
           {"{{ '<'|e }}|{{ '<'|e|e }}|{{ '<'|e|forceescape }}|{{ ('<'|e) + '<' }}", "&lt;|&lt;|&amp;lt;|&lt;&lt;"},
           {"{{ ['<'|safe] }}|{{ '<'|safe is escaped }}|{{ '<' is escaped }}", "[Markup('<')]|True|False"},
           {"{% set x = '<'|safe %}{{ x + '<' }}{% set y %}{{ x }}{% endset %}{{ y + '<' }}", "<&lt;<<"},
           {"{{ {'k': '<'|safe}['k'] + '<' }}|{{ ('<'|safe)|string + '<' }}", "<&lt;|<&lt;"},
           {"{{ ('a\\nb'|safe)|indent(1) + '<' }}|{{ ('<'|safe)|reverse + '<' }}", "a\n b&lt;|<&lt;"},
       }) {
    EXPECT_EQ(out(c.source), c.expected) << c.source;
  }
}

TEST(JinjaSafeText, KeepsWhatIsAClients) {
  EXPECT_EQ(out("{{ '<x>'|safe + c }}", /*clients=*/true), "<x>[a&lt;b&gt; &amp; &#34;c&#34;]");
  EXPECT_EQ(out("{{ ('<%s>'|safe) % c }}", /*clients=*/true), "[<a&lt;b&gt; &amp; &#34;c&#34;>]");
  EXPECT_EQ(out("{{ c|safe + '<' }}", /*clients=*/true), "[a<b> & \"c\"]&lt;");
}

}  // namespace
}  // namespace sluice::jinja::safe_text_test
