#include "grammar/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "files/json.h"
#include "grammar/decimals.h"
#include "grammar/grammar.h"
#include "grammar/parse_sets.h"

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
      {R"({"type":"array","uniqueItems":true})", "/uniqueItems: "},
      {R"({"anyOf":[{"type":"strnig"}]})", "/anyOf/0/type: expected the name of a type"},
      {R"x({"pattern":"(?=a)"})x", "/pattern: at character 3: look-around"},
      {R"({"$ref":"other.json"})", "/$ref: expected a reference within the schema"},
      {R"({"$ref":"#"})", "refers to itself"},
      {R"({"minProperties":2})", "/minProperties: "},
      {R"({"type":"object","required":["a"],"properties":{"a":false}})", "some text meets"},
      {R"({"format":"colour"})", "/format: expected one of"},
      {R"({"not":{"additionalProperties":{"type":"null"}},"type":"object"})",
       "/not/additionalProperties: cannot be negated"},
      {R"({"multipleOf":0})", "/multipleOf: "},
      {R"({"maxLength":1000000})", "/maxLength: "},
      {R"({"items":[{}]})", "prefixItems"},
      {R"({"minimum":"3"})", "/minimum: expected a number, found \"3\""},
      {R"({"nonsense":1})", "/nonsense: "},
      {R"([])", "expected a schema"},
      {R"({"oneOf":[{"type":"string","format":"date"},{"type":"string","format":"time"}]})", "cannot be negated"},
  };
  for (const auto& [schema, words] : cases) EXPECT_THAT(refusal(schema), HasSubstr(words)) << schema;
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
