#include "jinja/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "base/utf8.h"
#include "files/json.h"

namespace sluice::jinja::template_test {
namespace {

using ::testing::HasSubstr;

constexpr char kVariables[] = R"({
  "messages": [{"role": "user", "content": "Hé <b>", "n": 1}, {"role": "assistant", "content": null, "n": 2.5}],
  "d": {"b": 1, "a": [1, {"x": null}], "items": 3}, "s": " Hello ", "u": 18446744073709551615, "yes": true, "e": []})";

Result<std::string> render(std::string_view source, std::string_view variables = kVariables,
                           const Limits& limits = {}) {
  const auto parsed = Template::parse(source, "test");
  if (!parsed.ok()) return parsed.status();
  SLUICE_ASSIGN_OR_RETURN(MarkedText text, parsed->render(parse_json(variables, "variables")->get_object(), limits,
                                                          /*now=*/0));
  return std::move(text.bytes);
}

// The output, or "! message".
std::string out(std::string_view source) {
  const Result<std::string> text = render(source);
  return text.ok() ? *text : "! " + text.status().message();
}

struct Case {
  const char* source;
  const char* expected;
};

void expect_all(std::initializer_list<Case> cases) {
  for (const Case& c : cases) EXPECT_EQ(out(c.source), c.expected) << c.source;
}

TEST(JinjaTemplate, WhiteSpaceAroundTags) {
  expect_all({
      {"a\n", "a"},
      {"a\n\n", "a\n"},
      {"a\r\nb\rc", "a\nb\nc"},
      {"a\n  {%- if true %}\n  b\n  {%- endif %}\n c\n {% if true %} \n d\n {% endif %}\n", "a  b c\n \n d\n"},
      {"x {#- c -#}  y\n  {# comment #}\nz {%+ if true %} q {% endif +%}\n w", "xy\nz  q \n w"},
      {"{% raw %}{{ no }} {% endraw %} v\n  {%- raw -%}  a {%- endraw -%} b", "{{ no }}  vab"},
      {"   {%- if true %}x{% endif %}   \n{{- 'y' }}   {{ 'z' -}}   \nw", "xy   zw"},
      {"  {{ 1 }}\n{{ 2 }}\n", "  1\n2"},
  });
}

TEST(JinjaTemplate, Literals) {
  expect_all({
      {"{{ 'a' 'b' }}{{ \"\\u00e9\\n\\x41\\101\" }}{{ '\\d' }}", "abé\nAA\\d"},
      {"{{ 1_000 }} {{ 0x1F }} {{ 1.5e-3 }} {{ 1E3 }} {{ u + 1 }}", "1000 31 0.0015 1000.0 18446744073709551616"},
      {"{{ [1, 'a', none, True,] }}{{ (1,) }}{{ {'k': 1.0, 2: ()} }}", "[1, 'a', None, True](1,){'k': 1.0, 2: ()}"},
      {R"({{ ["it's", 'q"', "\t\u200b"] }})", R"(["it's", 'q"', '\t\u200b'])"},
      {"{{ d.a.0 }}{{ d['a'][1]['x'] }}{{ d['a'][-1] }}", "1None{'x': None}"},
  });
}

TEST(JinjaTemplate, Arithmetic) {
  expect_all({
      {"{{ 1/2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7.5 % -2 }} {{ 2**3 }} {{ 2**-1 }}", "0.5 -4 2 -0.5 8 0.5"},
      {"{{ -1 ** 2 }} {{ 2 ** 3 ** 2 }} {{ 2 * 3 % 4 }} {{ 3 + 1 - 2 }}", "1 64 2 2"},
      {"{{ 'ab' * 2 }}{{ [1] * 2 }}{{ [1] + [2] }}{{ 'a' ~ 1 ~ none ~ nothing }}", "abab[1, 1][1, 2]a1None"},
      {"{{ '%s-%d-%5.2f-%-3s|%04d %x %%' % ('a', 5, 3.14159, 'b', 42, 255) }}", "a-5- 3.14-b  |0042 ff %"},
      {"{{ 1 / 0 }}", "! test: line 1: division by zero"},
      {"{{ 'a' + 1 }}", "! test: line 1: can only concatenate str (not \"int\") to str"},
      {"{{ 10**10**10 }}", "! test: line 1: an integer becomes too large"},
  });
}

TEST(JinjaTemplate, Comparisons) {
  expect_all({
      {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }}", "True False True True False"},
      {"{{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ [1] == (1,) }} {{ 'b' in d }} {{ 1 not in [2] }}",
       "True True False True True"},
      {"{{ not nothing or 1 }} {{ 0 or none }} {{ 1 and 2 }}", "True None 2"},
      {"{{ 1 < 'a' }}", "! test: line 1: '<' not supported between instances of 'int' and 'str'"},
      {"{{ 'a' in none }}", "! test: line 1: argument of type 'NoneType' is not iterable"},
  });
}

TEST(JinjaTemplate, UndefinedValues) {
  expect_all({
      {"[{{ nothing }}{{ d.nope }}{{ [1][5] }}{{ 'a' if false }}]", "[]"},
      {"{{ nothing|length }}{{ nothing|list }}{{ nothing == nope }}{{ 1 in nothing }}{{ nothing is defined }}",
       "0[]TrueFalseFalse"},
      {"a\n{{ nothing.x }}", "! test: line 2: 'nothing' is undefined"},
      {"{{ d.nope.x }}", "! test: line 1: 'dict object' has no attribute 'nope'"},
      {"{{ nothing() }}", "! test: line 1: 'nothing' is undefined"},
      {"{{ nothing|tojson }}",
       "! test: line 1: Object of type Undefined is not JSON serializable ('nothing' is undefined)"},
  });
}

TEST(JinjaTemplate, Slices) {
  expect_all({
      {"{{ 'abc'[1:] }} {{ 'abc'[-1] }} {{ [1, 2, 3][::-1] }} {{ 'héllo'[1:4] }} {{ 'héllo'[::-2] }}",
       "bc c [3, 2, 1] éll olh"},
      {"{{ [1, 2, 3, 4][-3:-1] }} {{ 'abc'[-10:2] }} {{ (1, 2, 3)[:2] }} {{ '你好世界'[1:3] }}",
       "[2, 3] ab (1, 2) 好世"},
      {"{{ (1, 2, 3)[10**30:-(10**30):-(10**30)] }}", "(3,)"},
      {"{{ 'abc'[::0] }}", "! test: line 1: slice step cannot be zero"},
  });
}

TEST(JinjaTemplate, Loops) {
  expect_all({
      {"{% for m in messages %}{{ loop.index }}/{{ loop.length }}{{ m.role[0] }}{{ loop.first }}{{ loop.last }};"
       "{% endfor %}",
       "1/2uTrueFalse;2/2aFalseTrue;"},
      {"{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}"
       "{{ x }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{% endfor %}",
       "12a324a"},
      {"{% for x in e %}{{ x }}{% else %}none{% endfor %}", "none"},
      {"{% for m in messages if m.role == 'user' %}{{ loop.length }}{{ loop.last }}{% endfor %}", "1True"},
      {"{% set ns = namespace(f=false) %}{% for x in [1, 2] if not ns.f %}{{ x }}{% set ns.f = true %}{% endfor %}",
       "1"},
      {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "b=1;a=[1, {'x': None}];items=3;"},
      {"{% for c in 'aé' %}[{{ c }}]{% endfor %}{% for k in d %}{{ k }}{% endfor %}", "[a][é]baitems"},
      {"{% set x = 0 %}{% for i in [1, 2] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "01020"},
      {"{% for i in range(2) %}{% for j in 'ab' %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}", "121122"},
      {"{% for x in none %}{% endfor %}", "! test: line 1: 'NoneType' object is not iterable"},
      {"{% for a, b in [[1]] %}{% endfor %}", "! test: line 1: not enough values to unpack (expected 2, got 1)"},
  });
}

TEST(JinjaTemplate, AssignmentsAndScopes) {
  expect_all({
      {"{% set a, b = 1, 2 %}{{ a }}{{ b }}", "12"},
      {"{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "2"},
      {"{% set x %}abc{{ 1 }}{% endset %}{{ x }}{% set y | upper | replace('A', 'z') %}abc{% endset %}{{ y }}",
       "abc1zBC"},
      {"{% set ns = namespace(l=[]) %}{% for m in messages %}{% set ns.l = ns.l + [m.role] %}{% endfor %}{{ ns.l }}",
       "['user', 'assistant']"},
      {"{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}[{{ a }}]", "3[]"},
      {"{% filter upper %}a{{ 'é' }}{% endfilter %}", "AÉ"},
      {"{% generation %}{% set q = 1 %}G{% endgeneration %}[{{ q }}]", "G[]"},
      {"{% set d.x = 1 %}", "! test: line 1: cannot assign attribute on non-namespace object"},
      {"{% set ns = namespace() %}{% set ns.ns = ns %}{% set ns.l = [ns] %}ok", "ok"},
  });
}

TEST(JinjaTemplate, Macros) {
  expect_all({
      {"{% macro f(a, b=a) %}{{ a }}{{ b }}{{ kwargs }}{{ varargs }}{% endmacro %}{{ f(1, 2, 3, c=4) }}{{ f() }}"
       "{{ f(*[5, 6], **{'z': 1}) }}",
       "12{'c': 4}(3,){}()56{'z': 1}()"},
      {"{% macro m() %}<{{ caller(5) }}>{% endmacro %}{% call(x) m() %}{{ x }}{% endcall %}", "<5>"},
      {"{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}", "2"},
      {"{% for i in [1, 2] %}{% macro m() %}{{ i }}{{ loop.index }}{{ x }}{% endmacro %}{% set x = i %}{{ m() }}"
       "{% endfor %}",
       "111222"},
      {"{% macro a(x) %}[{{ x }}]{% endmacro %}{% macro b(f) %}{{ f(1) }}{% endmacro %}{{ b(a)|upper }}", "[1]"},
      {"{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(20)|length }}", "32"},
      {"{% macro a() %}x{% endmacro %}{{ a(1) }}", "! test: line 1: macro 'a' takes not more than 0 argument(s)"},
      {"{% macro a() %}x{% endmacro %}{{ a(z=1) }}", "! test: line 1: macro 'a' takes no keyword argument 'z'"},
  });
}

TEST(JinjaTemplate, TextFilters) {
  expect_all({
      {"{{ s|trim }}{{ 'xax'|trim('x') }}{{ 'hello World-foo'|title }}{{ 'HELLO w'|capitalize }}",
       "HelloaHello World-FooHello w"},
      {"{{ 'straße É'|upper }}{{ 'É'|lower }}{{ 'aXbX'|replace('X', 'y', 1) }}", "STRASSE ÉéaybX"},
      {"{{ 'a\n\nb'|indent }}|{{ 'a\n\nb'|indent(2, true, true) }}", "a\n\n    b|  a\n  \n  b"},
      {"{{ ['a', 1, none]|join('-') }}{{ messages|join(',', attribute='role') }}", "a-1-Noneuser,assistant"},
      {"{{ 'a<b>&\"'|e }}{{ '<'|safe }}{{ 5|string ~ 1 }}{{ 'foo bar baz qux'|truncate(9) }}",
       "a&lt;b&gt;&amp;&#34;<51foo..."},
      {"{{ '你好'|length }}{{ '😀a'|reverse }}{{ '你'|center(4) }}|", "2a😀 你  |"},
  });
}

TEST(JinjaTemplate, ToJson) {
  expect_all({
      {"{{ d|tojson }}", R"({"b": 1, "a": [1, {"x": null}], "items": 3})"},
      {"{{ [1, {'a': []}]|tojson(indent=2) }}", "[\n  1,\n  {\n    \"a\": []\n  }\n]"},
      {"{{ [1.0, 1e16, 0.1, u]|tojson }}", "[1.0, 1e+16, 0.1, 18446744073709551615]"},
      {"{{ \"<>&'é😀\"|tojson }}{{ 'é😀'|tojson(ensure_ascii=true) }}", "\"<>&'é😀\"\"\\u00e9\\ud83d\\ude00\""},
      {"{{ d|tojson(sort_keys=true, separators=(',', ':')) }}", R"({"a":[1,{"x":null}],"b":1,"items":3})"},
      {"{{ {1: 2, none: true}|tojson }}", R"({"1": 2, "null": true})"},
  });
}

TEST(JinjaTemplate, SequenceFilters) {
  expect_all({
      {"{{ messages|map(attribute='role')|list }}{{ ['a', 'b']|map('upper')|join }}", "['user', 'assistant']AB"},
      {"{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ [1, 2, 3]|reject('gt', 1)|list }}", "1[1]"},
      {"{{ messages|rejectattr('content')|map(attribute='n')|first }}", "2.5"},
      {"{{ [none, none]|sort }}{{ ('a' ~ 1)|map(attribute='x')|list|sort }}", "[None, None][Undefined, Undefined]"},
      {"{{ ['b', 'A', 'c']|sort }}{{ ['b', 'A']|sort(case_sensitive=true, reverse=true) }}",
       "['A', 'b', 'c']['b', 'A']"},
      {"{{ [1, 1, 2]|unique|list }}{{ [3, 1]|min }}{{ ['a', 'B']|max }}{{ [1, 2]|sum }}", "[1, 2]1B3"},
      {"{{ d|dictsort }}{{ d|items|list|length }}", "[('a', [1, {'x': None}]), ('b', 1), ('items', 3)]3"},
      {"{{ [1, 2, 3, 4, 5]|batch(2)|list }}{{ [1, 2, 3]|slice(2)|list }}", "[[1, 2], [3, 4], [5]][[1, 2], [3]]"},
      {"{{ nothing|default('d') }}{{ none|default('d') }}{{ ''|d('q', true) }}", "dNoneq"},
      {"{{ [1, 2]|last }}{{ 'abc'|last }}{{ [1, 2]|reverse|list }}{{ {'a': 1}|list }}", "2c[2, 1]['a']"},
      {"{% if [1]|select('gt', 5) %}T{% endif %}{% set g = [1]|map('string') %}{{ g|list }}{{ g|list }}", "T['1'][]"},
      {"{{ 2.5|round }} {{ 2.675|round(2) }} {{ '12a'|int(5) }} {{ '1e3'|int }} {{ '3.5'|float }} {{ -3|abs }}",
       "2.0 2.67 5 1000 3.5 3"},
  });
}

TEST(JinjaTemplate, Tests) {
  expect_all({
      {"{{ 5 is divisibleby 5 }}{{ 5 is not even }}{{ 'a' is in ['a'] }}{{ d is mapping }}{{ [] is sequence }}",
       "TrueTrueTrueTrueTrue"},
      {"{{ true is integer }}{{ true is number }}{{ 'a' is string }}{{ none is none }}{{ 1.0 is float }}",
       "FalseTrueTrueTrueTrue"},
      {"{{ 1 is sameas 1 }}{{ 'A' is upper }}{{ 1 is eq 1 }}{{ 'upper' is filter }}{{ e is iterable }}",
       "TrueTrueTrueTrueTrue"},
  });
}

TEST(JinjaTemplate, Methods) {
  expect_all({
      {"{{ 'a,b,,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a b c'.rsplit(' ', 1) }}",
       "['a', 'b', '', 'c']['a', 'b']['a b', 'c']"},
      {"{{ '<think>\nr\n</think>\n\nhi'.split('</think>')[-1].lstrip('\n') }}", "hi"},
      {"{{ 'abc'.startswith('a') }}{{ 'abc'.endswith(('b', 'c')) }}{{ 'éa'.find('a') }}{{ 'abab'.count('ab') }}",
       "TrueTrue12"},
      {"{{ d.get('a')[0] }}{{ d.get('zz') }}{{ d.get('zz', 5) }}{{ d.keys()|list }}{{ d['items'] }}",
       "1None5['b', 'a', 'items']3"},
      {"{{ 'a-b'.partition('-') }}{{ 'abc'.removeprefix('a') }}{{ '{} {x}'.format(1, x=3) }}", "('a', '-', 'b')bc1 3"},
      {"{{ 'they\\'re'.title() }}{{ 'a\nb\r\nc'.splitlines() }}", "They'Re['a', 'b', 'c']"},
      {"{{ e.append(1) }}", "! test: line 1: a template cannot change a list; make a new one"},
      {"{{ ''.__class__.__mro__ }}", "! test: line 1: 'str object' has no attribute '__class__'"},
  });
}

TEST(JinjaTemplate, Functions) {
  expect_all({
      {"{{ range(1, 10, 3)|list }}{{ range(5, 0, -2)|list }}{{ range(3)[1] }}", "[1, 4, 7][5, 3, 1]1"},
      {"{{ dict(a=1) }}{{ dict({'b': 1}, a=2) }}{{ namespace(a=1).a }}", "{'a': 1}{'b': 1, 'a': 2}1"},
      {"{{ strftime_now('%Y-%m') }}", "1970-01"},
      {"\n\n{{ raise_exception('roles must ' ~ 'alternate') }}", "! test: line 3: roles must alternate"},
  });
}

TEST(JinjaTemplate, SyntaxErrorsNameTheLine) {
  expect_all({
      {"\n{% if x %}", "! test: line 2: expected 'elif' or 'else' or 'endif', found the end of the template"},
      {"{{ 1 + }}", "! test: line 1: expected an expression, found '}}'"},
      {"{{ (1 }}", "! test: line 1: unexpected '}', expected ')'"},
      {"{{ a b }}", "! test: line 1: expected '}}', found 'b'"},
      {"{% unknown %}", "! test: line 1: unknown tag 'unknown'"},
      {"{% include 'x' %}", "! test: line 1: the tag 'include' is not supported: a chat template stands alone"},
      {"\n\n{# x", "! test: line 3: a comment is not closed; expected '#}'"},
      {"{{ 'x", "! test: line 1: a string is not closed"},
      {"{% break %}", "! test: line 1: 'break' outside of a loop"},
      {"{% for x in y %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
       "! test: line 1: 'break' outside of a loop"},
      {"\xff", "! test: expected UTF-8, found an invalid byte at offset 0"},
      {"{% if false %}{{ x|nosuch }}{% endif %}ok", "ok"},
      {"{{ 1|nosuch }}", "! test: line 1: no filter named 'nosuch'"},
      {"{{ 1 is nosuch }}", "! test: line 1: no test named 'nosuch'"},
  });
}

// Templates that would take forever, all memory or all stack end at a limit, soon.
TEST(JinjaTemplate, HostileTemplatesEndAtALimit) {
  const std::string doubling =
      "{% set ns = namespace(l=[1], k=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}"
      "{% set ns.k = [ns.k, ns.k] %}{% endfor %}";
  const std::string parentheses(100'000, '(');
  std::string sums = "1";
  for (int i = 0; i < 50'000; ++i) sums += "+1";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{% macro r() %}{{ r() }}{% endmacro %}{{ r() }}", "too deep"},
      {"{% macro r() %}{% for i in [1] %}{{ [r()|join, 1]|join }}{% endfor %}{% endmacro %}{{ r() }}", "too deep"},
      {"{% macro a() %}{% call a() %}{{ a() }}{% endcall %}{{ caller }}{% endmacro %}{{ a() }}", "too deep"},
      {"{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}", "steps"},
      {"{{ range(10**12) }}", "range() too big"},
      {"{{ 'a' * 10**12 }}", "more than 8388608 bytes"},
      {"{{ [0] * 10**9 }}", "more than 8388608 bytes"},
      {"{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "8388608"},
      {"{% for i in range(9999) %}{{ 'x' * 9999 }}{% endfor %}", "8388608"},
      {"{% set ns = namespace(l=[]) %}{% for i in range(999) %}{% set ns.l = ns.l + ['x' * 999999] %}{% endfor %}",
       "values take more than"},
      {"{% set ns = namespace(l=[]) %}{% for i in range(999) %}{% set ns.l = [ns.l] %}{% endfor %}", "nested deeper"},
      {doubling + "{{ ns.l == ns.k }}", "steps"},
      {doubling + "{{ ns.l|tojson }}", "8388608"},
      {doubling + "{{ ns.l }}", "8388608"},
      {"{% set ns = namespace(l=(1,)) %}{% for i in range(60) %}{% set ns.l = (ns.l, ns.l) %}{% endfor %}{{ {ns.l: 1} "
       "}}",
       "steps"},
      {"{{ ('a' * 999999)|replace('a', 'b' * 999999) }}", "8388608"},
      {"{{ (['a' * 999999] * 9999)|join }}", "8388608"},
      {"{{ ('a\n' * 99999)|indent(99999) }}", "8388608"},
      {"{{ 'a'.center(10**15) }}", "8388608"},
      {"{{ '%999999999d' % 1 }}", "too large"},
      {"{{ [[1]]|tojson(indent='x' * 8000000) }}", "8388608"},
      {"{{ ('a' * 8000000)|list }}", "8388608"},
      {"{{ ('a,' * 4000000).split(',') }}", "8388608"},
      {"{{ strftime_now('%999999Y') }}", "strftime_now"},
      {"{{ " + parentheses + "1" + std::string(100'000, ')') + " }}", "nested too deep"},
      {"{{ " + sums + " }}", "nested too deep"},
  };
  for (const auto& [source, message] : cases) {
    const Result<std::string> text = render(source);
    ASSERT_FALSE(text.ok()) << source.substr(0, 200);
    EXPECT_THAT(text.status().message(), HasSubstr(message)) << source.substr(0, 200);
  }
}

// Returns the least max_nodes with which a loop of `rounds` rounds is rendered.
std::int64_t nodes_of_loop(int rounds) {
  const std::string source = "{% for i in range(" + std::to_string(rounds) + ") %}{{ i + 1 }}{% endfor %}";
  std::int64_t too_few = 0;
  std::int64_t enough = Limits().max_nodes;
  while (enough - too_few > 1) {
    const std::int64_t middle = (too_few + enough) / 2;
    (render(source, kVariables, {.max_nodes = middle}).ok() ? enough : too_few) = middle;
  }
  return enough;
}

TEST(JinjaTemplate, LimitsAreCounted) {
  const std::int64_t hundred = nodes_of_loop(100);
  EXPECT_EQ(nodes_of_loop(100), hundred);
  EXPECT_GT(hundred, 300);
  EXPECT_LT(hundred, 1000);
  EXPECT_EQ(nodes_of_loop(300) - nodes_of_loop(200), nodes_of_loop(200) - hundred);
  EXPECT_TRUE(render("{{ 'x' * 8388608 }}").ok());
  EXPECT_TRUE(render("{{ 'x' * 8388607 }}y").ok());
  for (const char* more : {"{{ 'x' * 8388609 }}", "{{ 'x' * 8388608 }}y", "{{ 'x' * 8388608 }}{{ 1 }}"}) {
    EXPECT_THAT(render(more).status().message(), HasSubstr("8388608")) << more;
  }
  if (kSanitized) return;  // the rest takes gigabytes
  // Texts that are gone again have cost steps all the same.
  const auto texts = [](const std::string& count) {
    return render("{% set x = 'x' * 8000000 %}{% for i in range(" + count + ") %}{% set y = x ~ 'y' %}{% endfor %}");
  };
  EXPECT_TRUE(texts("20").ok());
  EXPECT_THAT(texts("80").status().message(), HasSubstr("10000000 steps"));
}

// Nothing but its variables is in reach of a template.
TEST(JinjaTemplate, NoFilesImportsOrObjectsOfTheProgram) {
  for (const char* source :
       {"{% include '/etc/passwd' %}", "{% import 'os' as os %}", "{% from 'os' import path %}", "{% extends 'base' %}",
        "{{ open('/etc/passwd') }}", "{{ ''.__class__.__mro__ }}", "{{ self.__init__ }}", "{{ cycler.__init__ }}"}) {
    EXPECT_FALSE(render(source).ok()) << source;
  }
}

// Random words of the language, mostly nonsense: never a crash, never more than the limits, always UTF-8.
TEST(JinjaTemplate, RandomTemplatesDoNoHarm) {
  const std::vector<std::string> words = {"{{ ",
                                          " }}",
                                          "{% ",
                                          " %}",
                                          "{%- ",
                                          " -%}",
                                          "{# ",
                                          " #}",
                                          "if ",
                                          "elif ",
                                          "else",
                                          "endif",
                                          "for x in ",
                                          "endfor",
                                          "set x = ",
                                          "set ns.a = ",
                                          "set x",
                                          "endset",
                                          "macro m(a, b=1)",
                                          "endmacro",
                                          "call m(1)",
                                          "endcall",
                                          "break",
                                          "continue",
                                          "filter upper",
                                          "endfilter",
                                          "with a = 1",
                                          "endwith",
                                          "generation",
                                          "endgeneration",
                                          "raw",
                                          "endraw",
                                          "messages",
                                          "d",
                                          "s",
                                          "e",
                                          "x",
                                          "ns",
                                          "loop",
                                          "nothing",
                                          "m",
                                          "caller()",
                                          "kwargs",
                                          "varargs",
                                          "1",
                                          "2.5",
                                          "10**18",
                                          "'é😀'",
                                          "none",
                                          "true",
                                          "[",
                                          "]",
                                          "(",
                                          ")",
                                          "{",
                                          "}",
                                          ", ",
                                          ": ",
                                          ".",
                                          "|",
                                          " ~ ",
                                          " + ",
                                          " - ",
                                          " * ",
                                          " / ",
                                          " // ",
                                          " % ",
                                          " ** ",
                                          " == ",
                                          " < ",
                                          " in ",
                                          " not ",
                                          " and ",
                                          " or ",
                                          " is ",
                                          "range(3)",
                                          "namespace(a=1)",
                                          "dict(a=1)",
                                          "m(1)",
                                          ".items()",
                                          ".split()",
                                          ".role",
                                          ".index",
                                          ".get('a')",
                                          ".upper()",
                                          "[0]",
                                          "[1:]",
                                          "[::-1]",
                                          "|list",
                                          "|tojson",
                                          "|join(',')",
                                          "|length",
                                          "|map('upper')",
                                          "|map(attribute='role')",
                                          "|select('odd')",
                                          "|first",
                                          "|last",
                                          "|sort",
                                          "|unique",
                                          "|reverse",
                                          "|default(1)",
                                          "|int",
                                          "|round(1)",
                                          "|batch(2)",
                                          "|dictsort",
                                          "|trim",
                                          "|indent(2)",
                                          "|groupby('a')",
                                          "|sum",
                                          "defined",
                                          "none",
                                          "string",
                                          "\n",
                                          " "};
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const Limits limits{.max_nodes = 20'000, .max_text_bytes = 1 << 16, .max_live_bytes = 1 << 20, .max_depth = 100};
  int rendered = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string source = i % 2 == 0 ? "{% set ns = namespace() %}" : "{{ ";
    const int length = static_cast<int>(random() % 12);
    for (int j = 0; j < length; ++j) source += words[random() % words.size()];
    if (i % 2 == 1) source += " }}";
    const Result<std::string> text = render(source, kVariables, limits);
    if (!text.ok()) continue;
    ++rendered;
    ASSERT_LE(text->size(), limits.max_text_bytes) << source;
    ASSERT_EQ(valid_utf8_prefix(*text), text->size()) << source;
  }
  EXPECT_GT(rendered, 100);
}

}  // namespace
}  // namespace sluice::jinja::template_test
