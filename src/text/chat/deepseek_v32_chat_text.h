// The fixed texts of DeepSeek-V3.2's chat protocol, byte for byte.
// Used by deepseek_v32_chat.cc.
#pragma once

#include <string_view>

namespace sluice::deepseek_v32_text {

inline constexpr std::string_view kBos = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEos = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kUser = "<｜User｜>";
inline constexpr std::string_view kAssistant = "<｜Assistant｜>";
inline constexpr std::string_view kThinkOpen = "<think>";
inline constexpr std::string_view kThinkClose = "</think>";

inline constexpr std::string_view kOpenResults = "\n\n<function_results>";
inline constexpr std::string_view kOpenResult = "\n<result>";
inline constexpr std::string_view kCloseResult = "</result>";
inline constexpr std::string_view kCloseResults = "\n</function_results>";

inline constexpr std::string_view kDeveloperContent = "\n\n# The user's message is: ";

inline constexpr std::string_view kResponseFormat =
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

// The texts before and after the schemas, one JSON object a line.
inline constexpr std::string_view kToolsBeforeSchemas =
    R"(

## Tools
You have access to a set of tools you can use to answer the user's question.
You can invoke functions by writing a "<｜DSML｜function_calls>" block like the following as part of your reply to the user:
<｜DSML｜function_calls>
<｜DSML｜invoke name="$FUNCTION_NAME">
<｜DSML｜parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜parameter>
...
</｜DSML｜invoke>
<｜DSML｜invoke name="$FUNCTION_NAME2">
...
</｜DSML｜invoke>
</｜DSML｜function_calls>
String and scalar parameters should be specified as is without any escaping or quotes, while lists and objects should use JSON format. The "string" attribute should be set to "true" for string type parameters and "false" for other types (numbers, booleans, arrays, objects).
If the thinking_mode is enabled, then after function results you should strongly consider outputting a thinking block. Here is an example:
<｜DSML｜function_calls>
...
</｜DSML｜function_calls>
<function_results>
...
</function_results>
<think>...thinking about results</think>
Here are the functions available in JSONSchema format:
<functions>
)";
inline constexpr std::string_view kToolsAfterSchemas = "\n</functions>\n";

}  // namespace sluice::deepseek_v32_text
