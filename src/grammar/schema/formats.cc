// Used by schema_scalars.cc.
#include "grammar/schema/formats.h"

#include <string>

namespace sluice {
namespace {

std::string ipv6() {
  static const std::string hex = "[0-9a-fA-F]{1,4}";
  std::string out = "((" + hex + ":){7}" + hex + "|::|(" + hex + ":){1,7}:";
  for (int before = 1; before <= 6; ++before) {
    out += "|(" + hex + ":){1," + std::to_string(before) + "}(:" + hex + "){1," + std::to_string(7 - before) + "}";
  }
  return out + "|:(:" + hex + "){1,7})";
}

// Returns the formats that JSON Schema does not know and pydantic writes: its classes read nothing else. Networks are
// single addresses, as others must have no bits after the prefix.
std::optional<std::string> python_format(std::string_view name, const std::string& ipv4) {
  if (name.size() == 5 && name.starts_with("uuid") && name[4] >= '1' && name[4] <= '8') {
    return "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-" + std::string(name.substr(4)) +
           "[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}";
  }
  if (name == "ipvanyaddress") return "(" + ipv4 + "|" + ipv6() + ")";
  if (name == "ipv4network") return ipv4 + "(/32)?";
  if (name == "ipv6network") return ipv6() + "(/128)?";
  if (name == "ipvanynetwork") return "(" + ipv4 + "(/32)?|" + ipv6() + "(/128)?)";
  if (name == "ipv4interface" || name == "ipvanyinterface") return ipv4 + "(/([12]?[0-9]|3[0-2]))?";
  if (name == "ipv6interface") return ipv6() + "(/([1-9]?[0-9]|1[01][0-9]|12[0-8]))?";
  if (name == "base64") return "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?";
  if (name == "base64url") return "([A-Za-z0-9_\\-]{4})*([A-Za-z0-9_\\-]{2}==|[A-Za-z0-9_\\-]{3}=)?";
  if (name == "json-pointer") return "(/([^~/]|~[01])*)*";
  if (name == "regex") {  // letters, digits, classes of them, repeated or not: every language reads these
    return "\\^?(([A-Za-z0-9 _@\\-]|\\\\[dwsDWS.]|\\.|\\[\\^?[A-Za-z0-9_]{1,20}\\])([*+?]|\\{[1-9]\\})?)*\\$?";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> format_pattern(std::string_view name) {
  // Days that every year has, and the 29th of February of leap years. There is no year 0, as many readers know none.
  static const std::string kLeap = "(0[48]|[2468][048]|[13579][26])";
  static const std::string kYear = "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)";
  static const std::string date = "(" + kYear +
                                  "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-"
                                  "(0[1-9]|1[0-9]|2[0-8]))|([0-9]{2}" +
                                  kLeap + "|" + kLeap + "00)-02-29)";
  static const std::string time =
      "(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+\\-]([01][0-9]|2[0-3]):[0-5][0-9]))";
  static const std::string label = "[a-zA-Z0-9]{1,20}(-[a-zA-Z0-9]{1,10}){0,3}";
  static const std::string octet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  static const std::string ipv4 = octet + "(\\." + octet + "){3}";
  static const std::string hex = "[0-9a-fA-F]{1,4}";
  if (name == "date") return date;
  if (name == "time") return time;
  if (name == "date-time") return date + "T" + time;
  if (name == "duration") {  // less than 10^9 days, and 2^32 seconds, as readers have
    return "P([0-9]{1,7}W|([0-9]{1,6}Y([0-9]{1,7}M([0-9]{1,8}D)?)?|[0-9]{1,7}M([0-9]{1,8}D)?|[0-9]{1,8}D)"
           "(T([0-9]{1,6}H([0-9]{1,7}M([0-9]{1,7}S)?)?|[0-9]{1,7}M([0-9]{1,7}S)?|[0-9]{1,7}S))?"
           "|T([0-9]{1,6}H([0-9]{1,7}M([0-9]{1,7}S)?)?|[0-9]{1,7}M([0-9]{1,7}S)?|[0-9]{1,7}S))";
  }
  // A host's last label begins with a letter: else readers take the host for an address.
  static const std::string top = "[a-zA-Z]{2,20}";
  if (name == "email" || name == "idn-email") {
    return "[a-zA-Z0-9_+\\-]{1,30}(\\.[a-zA-Z0-9_+\\-]{1,15}){0,2}@(" + label + "\\.){1,3}" + top;
  }
  if (name == "hostname" || name == "idn-hostname") return label + "(\\." + label + "){0,3}";
  if (name == "ipv4") return ipv4;
  if (name == "ipv6") return ipv6();
  if (name == "uuid") return "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";
  static const std::string rest =
      "(/([A-Za-z0-9._~!$&'()*+,;=:@/\\-]|%[0-9A-Fa-f]{2})*)?(\\?([A-Za-z0-9._~!$&'()*+,;=:@/?\\-]|%[0-9A-Fa-f]{2})*)"
      "?(#([A-Za-z0-9._~!$&'()*+,;=:@/?\\-]|%[0-9A-Fa-f]{2})*)?";
  static const std::string uri = "https?://(" + label + "\\.){0,3}" + top + "(:[1-9][0-9]{0,3})?" + rest;
  if (name == "uri" || name == "iri" || name == "uri-template") return uri;
  if (name == "uri-reference" || name == "iri-reference") return "(" + uri + "|(/[A-Za-z0-9._~-]+)+)";
  return python_format(name, ipv4);
}

}  // namespace sluice
