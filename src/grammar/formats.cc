#include "grammar/formats.h"

#include <string>

namespace sluice {

std::optional<std::string> format_pattern(std::string_view name) {
  // Days that every year has, and the 29th of February of leap years.
  static const std::string kLeap = "([02468][048]|[13579][26])";
  static const std::string date =
      "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8])"
      ")"
      "|([0-9]{2}(0[48]|[2468][048]|[13579][26])|" +
      kLeap + "00)-02-29)";
  static const std::string time =
      "(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+\\-]([01][0-9]|2[0-3]):[0-5][0-9]))";
  static const std::string label = "[a-zA-Z0-9]{1,20}(-[a-zA-Z0-9]{1,10}){0,3}";
  static const std::string octet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  static const std::string ipv4 = octet + "(\\." + octet + "){3}";
  static const std::string hex = "[0-9a-fA-F]{1,4}";
  if (name == "date") return date;
  if (name == "time") return time;
  if (name == "date-time") return date + "T" + time;
  if (name == "duration") {
    return "P([0-9]{1,9}W|([0-9]{1,9}Y([0-9]{1,9}M([0-9]{1,9}D)?)?|[0-9]{1,9}M([0-9]{1,9}D)?|[0-9]{1,9}D)"
           "(T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|[0-9]{1,9}S))?"
           "|T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|[0-9]{1,9}S))";
  }
  if (name == "email") {
    return "[a-zA-Z0-9_+\\-]{1,30}(\\.[a-zA-Z0-9_+\\-]{1,15}){0,2}@" + label + "(\\." + label + "){1,3}";
  }
  if (name == "hostname") return label + "(\\." + label + "){0,3}";
  if (name == "ipv4") return ipv4;
  if (name == "ipv6") {
    std::string out = "((" + hex + ":){7}" + hex + "|::|(" + hex + ":){1,7}:";
    for (int before = 1; before <= 6; ++before) {
      out += "|(" + hex + ":){1," + std::to_string(before) + "}(:" + hex + "){1," + std::to_string(7 - before) + "}";
    }
    return out + "|:(:" + hex + "){1,7})";
  }
  if (name == "uuid") return "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";
  if (name == "uri") {
    return "(https?|ftp)://" + label + "(\\." + label +
           "){0,4}(:[1-9][0-9]{0,3})?(/([A-Za-z0-9._~!$&'()*+,;=:@\\-]|%[0-9A-Fa-f]{2})*){0,20}"
           "(\\?([A-Za-z0-9._~!$&'()*+,;=:@/?\\-]|%[0-9A-Fa-f]{2})*)?(#([A-Za-z0-9._~!$&'()*+,;=:@/"
           "?\\-]|%[0-9A-Fa-f]{2})*)?";
  }
  return std::nullopt;
}

}  // namespace sluice
