#include "grammar/schema/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "files/json.h"
#include "grammar/automata/parse_sets.h"
#include "grammar/grammar.h"
#include "grammar/schema/decimals.h"

namespace sluice::json_schema_test {
namespace {

using testing::HasSubstr;

class Schema {
 public:
  explicit Schema(std::string_view text, bool compact = false) {
    auto made = compile({.text = std::string(text), .compact = compact});
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (made.ok()) network_ = std::move(*made);
  }
  bool accepts(std::string_view text) const {
    ParseSets sets(network_);
    SetId set = sets.start();
    for (const char byte : text) {
      set = sets.step(set, static_cast<std::uint8_t>(byte));
      if (set == kNoSet) return false;
    }
    return sets.set(set).complete;
  }

 private:
  Network network_;
};

std::string refusal(std::string_view text) {
  const auto made = compile({.text = std::string(text)});
  EXPECT_FALSE(made.ok()) << text;
  return made.ok() ? "" : made.status().message();
}

TEST(JsonSchemaTest, WhiteSpace) {
  const Schema schema(R"({"type":"array","items":{"type":"object","properties":{"a":true}}})");
  for (const char* text : {"[]", "[ ]", "[\n]", "[{\"a\":1}, {\"a\": 2}]", "[\n  {\n\t\"a\": [\n1 ]\n}\n]"})
    EXPECT_TRUE(schema.accepts(text)) << text;
  for (const char* text : {" []", "[] ", "[  ]", "[ \n]", "[\n\n]", "[{\"a\" :1}]", "[{} ,{}]"})
    EXPECT_FALSE(schema.accepts(text)) << text;
  const Schema compact(R"({"type":"array"})", true);
  EXPECT_TRUE(compact.accepts("[1,{\"a\":2}]"));
  EXPECT_FALSE(compact.accepts("[1, 2]"));
}

TEST(JsonSchemaTest, KeysInOrder) {
  const Schema schema(
      R"({"properties":{"b":{"type":"integer"},"a":{}},"required":["a"],"additionalProperties":{"type":"boolean"},"type":"object"})");
  EXPECT_TRUE(schema.accepts(R"({"b":1,"a":2,"c":true,"\"":false})"));
  EXPECT_TRUE(schema.accepts(R"({"a":2})"));
  EXPECT_FALSE(schema.accepts(R"({"a":2,"b":1})"));
  EXPECT_FALSE(schema.accepts(R"({"b":1})"));
  EXPECT_FALSE(schema.accepts(R"({"a":1,"c":1})"));
  EXPECT_FALSE(schema.accepts(R"({"a":1,"\u0061":true})"));
}

TEST(JsonSchemaTest, Strings) {
  const Schema any(R"({"type":"string"})"), some(R"({"type":"string","minLength":1,"maxLength":2})");
  for (const char* text : {R"("")", R"("\u00e9\/\ud83d\ude00é😀")", "\"\x7F\""}) EXPECT_TRUE(any.accepts(text)) << text;
  for (const char* text : {R"("\ud83d")", R"("\ude00\ud83d")", "\"\n\"", "\"\xC3\"", R"("\x41")"})
    EXPECT_FALSE(any.accepts(text)) << text;
  for (const char* text : {R"("é")", R"("\n\\")", R"("\u001f\"")", R"("😀a")"}) EXPECT_TRUE(some.accepts(text)) << text;
  for (const char* text : {R"("")", R"("abc")", R"("\u0061")", R"("\u000a")"}) EXPECT_FALSE(some.accepts(text)) << text;
}

TEST(JsonSchemaTest, Combinations) {
  const Schema both(
      R"({"allOf":[{"properties":{"a":{"minimum":3}}},{"properties":{"a":{"maximum":5,"type":"integer"}},"required":["a"]}],"type":"object"})");
  EXPECT_TRUE(both.accepts(R"({"a":4})"));
  EXPECT_FALSE(both.accepts(R"({"a":6})"));
  EXPECT_FALSE(both.accepts(R"({"a":4.5})"));
  const Schema one(R"({"oneOf":[{"type":"integer"},{"type":"number","minimum":2}]})");
  EXPECT_TRUE(one.accepts("1") && one.accepts("2.5"));
  EXPECT_FALSE(one.accepts("2") || one.accepts("1.5"));
  const Schema no(R"({"not":{"type":"object","required":["a"]},"type":"object"})");
  EXPECT_TRUE(no.accepts(R"({"b":1})"));
  EXPECT_FALSE(no.accepts(R"({"a":1})"));
  const Schema when(
      R"({"type":"object","properties":{"k":{"enum":["x","y"]}},"required":["k"],"if":{"properties":{"k":{"const":"x"}}},"then":{"required":["v"]}})");
  EXPECT_TRUE(when.accepts(R"({"k":"x","v":1})") && when.accepts(R"({"k":"y"})"));
  EXPECT_FALSE(when.accepts(R"({"k":"x"})"));
  const Schema tree(R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"},"maxItems":2}}})");
  EXPECT_TRUE(tree.accepts("[[],[[],[]]]"));
  EXPECT_FALSE(tree.accepts("[[],[],[]]"));
  const Schema some(R"({"type":"array","contains":{"const":1},"maxContains":2,"items":{"enum":[1,2]}})");
  EXPECT_TRUE(some.accepts("[2,1,2,1]"));
  EXPECT_FALSE(some.accepts("[2,2]") || some.accepts("[1,1,1]"));
}

TEST(JsonSchemaTest, RefusalsNameTheKeyword) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"properties":{"a/b":{"unevaluatedItems":false}}})", "/properties/a~1b/unevaluatedItems: "},
      {R"({"$dynamicRef":"#a"})", "/$dynamicRef: "},
      {R"({"properties":{"a":true},"anyOf":[{"properties":{"b":true}}],"unevaluatedProperties":false})",
       "/unevaluatedProperties: is supported where"},
      {R"({"type":"array","uniqueItems":true})", "/uniqueItems: "},
      {R"({"anyOf":[{"type":"strnig"}]})", "/anyOf/0/type: expected the name of a type"},
      {R"x({"pattern":"(?=a)"})x", "/pattern: at character 3: look-around"},
      {R"({"$ref":"other.json"})", "/$ref: expected a reference within the schema"},
      {R"({"$ref":"#"})", "refers to itself"},
      {R"({"minProperties":2})", "/minProperties: "},
      {R"({"type":"object","required":["a"],"properties":{"a":false}})", "some text meets"},
      {R"({"format":7})", "/format: expected a string"},
      {R"({"not":{"additionalProperties":{"type":"null"}},"type":"object"})",
       "/not/additionalProperties: cannot be negated"},
      {R"({"multipleOf":0})", "/multipleOf: "},
      {R"({"maxLength":1000000})", "/maxLength: "},
      {R"({"type":"array","items":{"type":"string"},"uniqueItems":true})", "at most 8 values"},
      {R"({"minimum":"3"})", "/minimum: expected a number, found \"3\""},
      {R"x({"pattern":"\\bword\\b"})x", "is not supported"},
      {R"({"$ref":"#there"})", "an anchor that is not there"},
      {R"([])", "expected a schema"},
      {R"({"oneOf":[{"type":"string","format":"date"},{"type":"string","format":"time"}]})", "cannot be negated"},
  };
  for (const auto& [schema, words] : cases) EXPECT_THAT(refusal(schema), HasSubstr(words)) << schema;
}

std::vector<std::string> remarks(std::string_view text) {
  const auto made = compile({.text = std::string(text)});
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? made->remarks() : std::vector<std::string>();
}

TEST(JsonSchemaTest, UnknownKeywordsAndFormatsAreRemarked) {
  using testing::ElementsAre;
  EXPECT_THAT(remarks(R"({"type":"object","x-order":1,"title":"a","properties":{"a":{"$ref":"#/$defs/b"},
                         "c":{"$ref":"#/$defs/b"}},"$defs":{"b":{"type":"integer","format":"int32"}}})"),
              ElementsAre("/x-order", "/$defs/b/format (int32)"));
  EXPECT_THAT(remarks(R"({"type":"string","format":"date","$comment":"x","example":"y"})"), ElementsAre("/example"));
  const Schema no(R"({"not":{"type":"string","format":"odd","x-a":1}})");
  EXPECT_TRUE(no.accepts("1"));
  EXPECT_FALSE(no.accepts(R"("a")"));
}

TEST(JsonSchemaTest, OlderDrafts) {
  const Schema pair(R"({"items":[{"type":"integer"},{"type":"string"}],"additionalItems":false,"type":"array"})");
  EXPECT_TRUE(pair.accepts(R"([1,"a"])") && pair.accepts("[1]"));
  EXPECT_FALSE(pair.accepts(R"(["a"])") || pair.accepts(R"([1,"a",2])"));
  const Schema more(R"({"items":[{"type":"integer"}],"additionalItems":{"type":"null"},"type":"array","minItems":2})");
  EXPECT_TRUE(more.accepts("[1,null,null]"));
  EXPECT_FALSE(more.accepts("[1,2]"));
  const Schema above(R"({"type":"integer","minimum":0,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false})");
  EXPECT_TRUE(above.accepts("1") && above.accepts("9"));
  EXPECT_FALSE(above.accepts("0") || above.accepts("10"));
  const Schema needs(
      R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"additionalProperties":false,
          "dependencies":{"a":["b"],"b":{"required":["c"]}}})");
  EXPECT_TRUE(needs.accepts(R"({"a":1,"b":1,"c":1})") && needs.accepts(R"({"c":1})"));
  EXPECT_FALSE(needs.accepts(R"({"a":1})") || needs.accepts(R"({"a":1,"b":1})"));
  const Schema alone(
      R"({"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"type":"integer"}},
          "$ref":"#/definitions/a","minimum":5})");
  EXPECT_TRUE(alone.accepts("1"));
  const Schema beside(R"({"definitions":{"a":{"type":"integer"}},"$ref":"#/definitions/a","minimum":5})");
  EXPECT_FALSE(beside.accepts("1"));
}

TEST(JsonSchemaTest, ReferencesByName) {
  const Schema tree(R"({"$id":"https://a.org/b/tree.json","type":"array","items":{"$ref":"leaf.json#/$defs/x"},
    "$defs":{"leaf":{"$id":"leaf.json","$defs":{"x":{"$ref":"#y"},"y":{"$anchor":"y","type":"integer"}}}}})");
  EXPECT_TRUE(tree.accepts("[1]"));
  EXPECT_FALSE(tree.accepts("[[]]"));
  const Schema node(R"({"$id":"T0","type":"object","properties":{"n":{"$ref":"T0"}},"additionalProperties":false})");
  EXPECT_TRUE(node.accepts(R"({"n":{"n":{}}})"));
  EXPECT_FALSE(node.accepts(R"({"n":1})"));
  const Schema old(R"x({"$schema":"http://json-schema.org/draft-04/schema#","id":"http://x/y#","type":"object",
    "definitions":{"n":{"id":"#num","type":"number"}},"properties":{"id":{"$ref":"#num"}},"required":["id"]})x");
  EXPECT_TRUE(old.accepts(R"({"id":1.5})"));
  EXPECT_FALSE(old.accepts(R"({"id":"a"})"));
}

TEST(JsonSchemaTest, UniqueItemsOfFewValues) {
  const Schema set(R"({"type":"array","items":{"enum":["a",1,null]},"uniqueItems":true,"minItems":1})");
  EXPECT_TRUE(set.accepts(R"([1,"a",null])") && set.accepts("[null]"));
  EXPECT_FALSE(set.accepts("[]") || set.accepts("[1,1]") || set.accepts(R"(["a",null,"a"])"));
  const Schema places(
      R"({"type":"array","prefixItems":[{"type":"boolean"}],"items":{"type":"integer","minimum":0,"maximum":2},
                          "uniqueItems":true,"maxItems":3})");
  EXPECT_TRUE(places.accepts("[true,0,2]") && places.accepts("[]"));
  EXPECT_FALSE(places.accepts("[true,0,0]") || places.accepts("[0]") || places.accepts("[true,0,1,2]"));
}

TEST(JsonSchemaTest, UnevaluatedIsWhatNothingNames) {
  const Schema closed(R"({"type":"object","allOf":[{"$ref":"#/$defs/a"}],"properties":{"b":{"type":"integer"}},
    "unevaluatedProperties":false,"$defs":{"a":{"properties":{"a":{"type":"integer"}},"required":["a"]}}})");
  EXPECT_TRUE(closed.accepts(R"({"b":1,"a":1})") || closed.accepts(R"({"a":1,"b":1})"));
  EXPECT_FALSE(closed.accepts(R"({"a":1,"c":1})"));
}

TEST(JsonSchemaTest, PatternsOfOtherLanguages) {
  const Schema heads(R"x({"type":"string","pattern":"^(?=.*[0-9])(?!.*\\s)[a-z0-9 ]{2,4}$"})x");
  EXPECT_TRUE(heads.accepts(R"("a1")"));
  EXPECT_FALSE(heads.accepts(R"("ab")") || heads.accepts(R"("a 1")") || heads.accepts(R"("abcd1")"));
  const Schema cases(R"x({"type":"string","pattern":"(?i)\\Aab[^c]\\Z"})x");
  EXPECT_TRUE(cases.accepts(R"("aBd")"));
  EXPECT_FALSE(cases.accepts(R"("abC")") || cases.accepts(R"("abdd")"));
}

TEST(JsonSchemaTest, BoundsThatNothingReaches) {
  const Schema schema(R"({"type":"number","minimum":-1.7976931348623157e308,"maximum":1.7976931348623157e308})");
  EXPECT_TRUE(schema.accepts("123456"));
  EXPECT_TRUE(Schema(R"({"type":"string","maxLength":2147483647})").accepts(R"("a")"));
}

TEST(DecimalsTest, Comparisons) {
  const std::pair<const char*, double> numbers[] = {{"0", 0},         {"-0", 0},        {"1", 1},       {"-1", -1},
                                                    {"9", 9},         {"10", 10},       {"12.5", 12.5}, {"12.50", 12.5},
                                                    {"12.49", 12.49}, {"-12.5", -12.5}, {"100", 100},   {"0.05", 0.05},
                                                    {"0.5", 0.5},     {"-3.25", -3.25}};
  for (const auto& [text, bound] : numbers) {
    const Decimal decimal = *decimal_of(boost::json::value(bound));
    const Dfa less = *decimals_where(Comparison::kLess, decimal), most = *decimals_where(Comparison::kAtMost, decimal),
              equal = *decimals_where(Comparison::kEqual, decimal);
    for (const auto& [other, value] : numbers) {
      EXPECT_EQ(less.matches(other), value < bound) << other << " " << text;
      EXPECT_EQ(most.matches(other), value <= bound) << other << " " << text;
      EXPECT_EQ(equal.matches(other), value == bound) << other << " " << text;
    }
  }
  EXPECT_EQ(decimal_text(*decimal_of(boost::json::value(1e-3))), "0.001");
  EXPECT_EQ(decimal_text(*decimal_of(boost::json::value(-120))), "-120");
  EXPECT_FALSE(decimal_of(boost::json::value(1e300)).ok());
  EXPECT_FALSE(decimals().matches("0.1234567890123456"));
  EXPECT_FALSE(decimals().matches("01") || decimals().matches("1.") || decimals().matches(".5") ||
               decimals().matches("-"));
}

TEST(DecimalsTest, Multiples) {
  const Dfa seven = *multiples_of(*decimal_of(boost::json::value(7))),
            cents = *multiples_of(*decimal_of(boost::json::value(0.05))),
            hundreds = *multiples_of(*decimal_of(boost::json::value(100)));
  EXPECT_TRUE(seven.matches("49") && seven.matches("-7") && seven.matches("0") && seven.matches("14.00"));
  EXPECT_FALSE(seven.matches("48") || seven.matches("0.7"));
  EXPECT_TRUE(cents.matches("1.25") && cents.matches("1.2") && cents.matches("3") && cents.matches("0.050"));
  EXPECT_FALSE(cents.matches("1.26") || cents.matches("0.051"));
  EXPECT_TRUE(hundreds.matches("300"));
  EXPECT_FALSE(hundreds.matches("350"));
}

}  // namespace
}  // namespace sluice::json_schema_test
