"""Schemas as generators in other languages write them, each with the keywords and formats that must be named as ignored;
None: it is refused. Small, in the style of the generator, and not copied from one."""

D4, D7 = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"
D2020 = "https://json-schema.org/draft/2020-12/schema"
SET = {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True}


def closed(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def text(**more):
    return {"type": "string", **more}


def whole(**more):
    return {"type": "integer", **more}


FORMS = {
    "schemars, unsigned": (closed(id=whole(format="uint32", minimum=0)), ["/properties/id/format (uint32)"]),
    "schemars, float": (closed(x={"type": "number", "format": "double"}), ["/properties/x/format (double)"]),
    "schemars 0.8": ({"$schema": D7, "title": "R", **closed(a={"anyOf": [{"$ref": "#/definitions/S"}, {"type": "null"}]}),
                      "definitions": {"S": {"oneOf": [text(enum=["x"]), closed(Y=whole(format="int64"))]}}},
                     ["/definitions/S/oneOf/1/properties/Y/format (int64)"]),
    "schemars, bounds of u64": (closed(n=whole(minimum=0, maximum=18446744073709551615)), []),
    "schemars, default in allOf": ({**closed(a={"default": {"k": 1}, "allOf": [{"$ref": "#/definitions/K"}]}),
                                    "definitions": {"K": closed(k=whole())}}, []),
    "schemars, set of an enum": (closed(tags=SET), []),
    "serde, tagged": ({"oneOf": [closed(t=text(const="a"), x=whole()), closed(t=text(const="b"), y=text(maxLength=9))]}, []),
    "OpenAPI 3.0, nullable": (closed(note=text(nullable=True, maxLength=9)), ["/properties/note/nullable"]),
    "OpenAPI, example": (closed(order=whole(example=3, **{"x-order": 1})), ["/properties/order/example", "/properties/order/x-order"]),
    "OpenAPI, xml": ({**closed(a=whole(xml={"name": "A"})), "externalDocs": {"url": "http://x"}},
                     ["/externalDocs", "/properties/a/xml"]),
    "OpenAPI, password": (closed(p=text(format="password", writeOnly=True, maxLength=9)), ["/properties/p/format (password)"]),
    "OpenAPI, binary and byte": (closed(a=text(format="binary", maxLength=9), b=text(format="byte", maxLength=9)),
                                 ["/properties/a/format (binary)", "/properties/b/format (byte)"]),
    "OpenAPI 3.0, exclusive": (closed(n=whole(minimum=0, exclusiveMinimum=True)), []),
    "OpenAPI, discriminator": ({"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}],
                                "discriminator": {"propertyName": "k", "mapping": {"a": "#/$defs/A"}},
                                "$defs": {"A": closed(k={"enum": ["a"]}), "B": closed(k={"enum": ["b"]}, n=whole())}}, []),
    "OpenAPI 3.1, media": (closed(f=text(contentEncoding="base64", contentMediaType="image/png", maxLength=8)), []),
    "kubernetes, int or string": (closed(port={"anyOf": [whole(), text(maxLength=5)], "x-kubernetes-int-or-string": True}),
                                  ["/properties/port/x-kubernetes-int-or-string"]),
    "kubernetes, format": (closed(n=whole(format="int32"), q=text(format="quantity", maxLength=6)),
                           ["/properties/n/format (int32)", "/properties/q/format (quantity)"]),
    "kubernetes, list type": (closed(a={"type": "array", "items": whole(), "x-kubernetes-list-type": "atomic", "maxItems": 3}),
                              ["/properties/a/x-kubernetes-list-type"]),
    "kubernetes, name": (closed(name=text(pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", maxLength=63)), []),
    "kubernetes, labels": (closed(m={"type": "object", "additionalProperties": text(maxLength=4), "maxProperties": 3}), []),
    "protobuf, int64": (closed(n={"anyOf": [whole(minimum=-2**63, maximum=2**63 - 1), text(pattern="^-?[0-9]{1,18}$")]}), []),
    "protobuf, float": (closed(x={"anyOf": [{"type": "number", "minimum": -3.4028234663852886e38, "maximum": 3.4028234663852886e38},
                                            text(enum=["NaN", "Infinity"])]}), []),
    "protobuf, enum": (closed(e={"oneOf": [text(enum=["A", "B"], title="name"), whole(minimum=0, maximum=1)]}), []),
    "zod 3": ({"$ref": "#/definitions/M", "definitions": {"M": closed(email=text(format="email"), n=whole(exclusiveMinimum=0))},
               "$schema": D7}, []),
    "zod 3, tuple": (closed(p={"type": "array", "minItems": 2, "maxItems": 2, "items": [whole(), text(maxLength=4)]}), []),
    "zod 4": ({"$schema": D2020, **closed(n=whole(minimum=-9007199254740991, maximum=9007199254740991),
                                          r={"type": "object", "propertyNames": text(pattern="^[a-z]{1,3}$"),
                                             "additionalProperties": whole(), "maxProperties": 2})}, []),
    "zod, strict intersection": ({"allOf": [{"type": "object", "properties": {"a": whole()}, "required": ["a"]},
                                            {"type": "object", "properties": {"b": whole()}, "required": ["b"]}],
                                  "unevaluatedProperties": False}, []),
    "zod, cuid": (closed(c=text(format="cuid", pattern="^[cC][^\\s-]{8,}$", maxLength=12)), ["/properties/c/format (cuid)"]),
    "TypeBox, recursive": ({"$id": "T0", "type": "object", "properties": {"n": {"type": "array", "items": {"$ref": "T0"}, "maxItems": 1}},
                            "required": ["n"], "additionalProperties": False}, []),
    "TypeBox, kind": (closed(a=whole(**{"typeOf": "x"})), ["/properties/a/typeOf"]),
    "TypeScript, const": (closed(k={"const": "v", "type": "string"}, u={"type": ["integer", "null"]}), []),
    "TypeScript, order": ({**closed(a=whole(), b=whole()), "propertyOrder": ["b", "a"]}, ["/propertyOrder"]),
    "VS Code": (closed(e={"enum": ["x"], "enumDescriptions": ["X"], "markdownDescription": "**x**"}),
                ["/properties/e/enumDescriptions", "/properties/e/markdownDescription"]),
    "NJsonSchema": ({"$schema": D4, **closed(id=text(format="guid", maxLength=8), kind={"x-enumNames": ["A", "B"], "enum": [0, 1], "type": "integer"},
                                            n={"oneOf": [{"type": "null"}, {"$ref": "#/definitions/N"}]}),
                     "definitions": {"N": closed(x={"type": "number", "format": "decimal"})}},
                    ["/definitions/N/properties/x/format (decimal)", "/properties/id/format (guid)", "/properties/kind/x-enumNames"]),
    "System.Text.Json": (closed(s={"type": ["string", "null"], "maxLength": 4}, r={"type": ["integer", "null"], "default": None}), []),
    "C#, no limit": (closed(s=text(maxLength=2147483647), a={"type": "array", "items": whole(), "maxItems": 2147483647}), []),
    "C#, case": (closed(s=text(pattern="(?i)^ab[c-e]$")), []),
    "victools": ({"$schema": D2020, "$defs": {"P": closed(x=whole())}, "$ref": "#/$defs/P", "description": "p"}, []),
    "Jackson": ({"type": "object", "id": "urn:jsonschema:com:P", "additionalProperties": False,
                 "properties": {"a": {"type": "boolean", "required": True}, "b": {"type": "null", "required": False}}}, ["/id"]),
    "invopop": ({"$schema": D2020, "$id": "https://x.org/p", "$ref": "#/$defs/P",
                 "$defs": {"P": {**closed(t=text(format="date-time"), m={"type": "object", "patternProperties": {"^[0-9]{1,3}$": whole()},
                                                                         "additionalProperties": False, "maxProperties": 2})}}}, []),
    "draft 4": ({"$schema": D4, "id": "http://x.org/s#", **closed(a={"$ref": "#n"}),
                 "definitions": {"n": {"id": "#n", "type": "integer", "maximum": 9, "exclusiveMaximum": True}}}, []),
    "draft 4, rest": (closed(a={"type": "array", "items": [whole()], "additionalItems": text(maxLength=3), "maxItems": 3}), []),
    "draft 7, dependencies": ({"$schema": D7, "type": "object", "properties": {"a": whole(), "b": whole()}, "additionalProperties": False,
                               "dependencies": {"a": ["b"]}}, []),
    "draft 7, ids": ({"$schema": D7, "$id": "http://x.org/s.json", "type": "object", "required": ["a"],
                      "properties": {"a": {"$id": "#/properties/a", "type": "integer"}}, "additionalProperties": False}, []),
    "draft 7, beside $ref": ({"$schema": D7, **closed(a={"$ref": "#/definitions/n", "minimum": 5, "description": "x"}),
                              "definitions": {"n": whole()}}, ["/properties/a/minimum"]),
    "2019-09, ids": ({"$id": "https://x.org/root.json", **closed(a={"$ref": "item.json"}),
                      "$defs": {"i": {"$id": "item.json", **closed(v={"$ref": "#v"}), "$defs": {"v": {"$anchor": "v", "type": "integer"}}}}}, []),
    "ajv, errors": ({**closed(p=text(pattern="^(?=.*[0-9])(?=.*[a-z])[a-z0-9]{2,8}$")), "errorMessage": {"p": "no"}}, ["/errorMessage"]),
    "Gemini, ordering": ({**closed(a=whole(), b=text(maxLength=3)), "propertyOrdering": ["b", "a"]}, ["/propertyOrdering"]),
    "msgspec": ({"$ref": "#/$defs/P", "$defs": {"P": {"title": "P", **closed(t=text(format="time"), d=text(format="duration"),
                                                                             s={"type": "array", "items": {"type": "boolean"}, "uniqueItems": True})}}}, []),
    "react-jsonschema-form": (closed(c=text(format="color", maxLength=7), e={"type": "array", "items": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
                                                                             "uniqueItems": True}),
                              ["/properties/c/format (color)", "/properties/e/items/enumNames"]),
    "a set of any texts": (closed(s={"type": "array", "items": text(), "uniqueItems": True}), None),
    "a word's boundary": (closed(s=text(pattern="\\bword\\b")), None),
    "a dynamic reference": ({"$dynamicAnchor": "n", "type": "object", "properties": {"a": {"$dynamicRef": "#n"}}}, None),
    "another document": (closed(a={"$ref": "https://x.org/other.json"}), None),
    "keys that are counted": ({"type": "object", "minProperties": 2, "additionalProperties": whole()}, None),
}
