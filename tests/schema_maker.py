"""Random JSON Schemas, as people write them and as they should not."""
import random

NAMES = ["name", "id", "a", "b", "tags", "size", "é", 'q"t', "x/y", "kind", "nested", "na"]
PATTERNS = ["^[a-z]+$", "^\\d{2,4}$", "b+", "^(foo|bar)", "[A-Z][a-z]*", "^x-", "^.{0,3}$", "\\w\\.\\w", "^[^@]+@[^@]+$"]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "ipv6", "email", "hostname", "duration", "uri"]
VALUES = [None, True, False, 0, 1, -3, 2.5, "", "a", "foo", "é\n", "x\"y\\", [], {}, [1, "a"], {"a": 1}, 1e-3, 12345678901]


class SchemaMaker:
    """Everything follows from the seed. `hard` adds what combines schemas with negation and conditions."""

    def __init__(self, seed, hard=True):
        self.random = random.Random(seed)
        self.hard = hard

    def schema(self, depth=0):
        r = self.random
        kinds = [self.string, self.number, self.integer, self.enum, self.simple]
        if depth < 3:
            kinds += [self.object, self.object, self.array, self.any_of]
            if self.hard:
                kinds += [self.combined, self.condition]
        if depth == 0:
            kinds = kinds[5:] + kinds[:2]
        return r.choice(kinds)(depth)

    def simple(self, depth):
        return self.random.choice([{"type": "null"}, {"type": "boolean"}, {"const": self.random.choice(VALUES)}, True, {},
                                   {"type": ["string", "null"]}, {"type": ["integer", "boolean"]}])

    def enum(self, depth):
        return {"enum": self.random.sample(VALUES, self.random.randint(1, 5))}

    def string(self, depth):
        r = self.random
        out = {"type": "string"}
        what = r.randint(0, 5)
        if what in (0, 4):
            out["minLength"] = r.randint(0, 6)
        if what in (1, 4):
            out["maxLength"] = out.get("minLength", 0) + r.randint(0, 20)
        if what in (2, 5):
            out["pattern"] = r.choice(PATTERNS)
        if what == 3:
            out["format"] = r.choice(FORMATS)
        if what == 5 and self.hard:
            out["maxLength"] = r.randint(5, 12)
        return out

    def number(self, depth, kind="number"):
        r = self.random
        out = {"type": kind}
        low = r.choice([-100, -7, 0, 1, 5, 123, 0.5, -2.25]) if kind == "number" else r.randint(-120, 500)
        if r.random() < 0.4:
            out[r.choice(["minimum", "exclusiveMinimum"])] = low
        if r.random() < 0.4:
            out[r.choice(["maximum", "exclusiveMaximum"])] = low + r.choice([2, 10, 77, 1000])
        if kind == "integer" and r.random() < 0.2:
            out["multipleOf"] = r.choice([1, 2, 3, 7, 10, 25])
        return out

    def integer(self, depth):
        return self.number(depth, "integer")

    def object(self, depth):
        r = self.random
        names = r.sample(NAMES, r.randint(0, 5))
        out = {"type": "object", "properties": {name: self.schema(depth + 1) for name in names}}
        out["required"] = [name for name in names if r.random() < 0.5]
        what = r.randint(0, 6)
        if what < 3:
            out["additionalProperties"] = False
        elif what == 3:
            out["additionalProperties"] = self.schema(depth + 2)
        elif what == 4 and self.hard:
            out["patternProperties"] = {r.choice(PATTERNS): self.schema(depth + 2)}
            out["additionalProperties"] = r.choice([False, True])
        elif what == 5 and self.hard:
            out["propertyNames"] = {"pattern": "^[a-z]{1,6}$"}
            out["maxProperties"] = r.randint(len(out["required"]), 6)
        if self.hard and names and r.random() < 0.15:
            out["dependentRequired"] = {r.choice(names): [r.choice(NAMES)]}
        return out

    def array(self, depth):
        r = self.random
        out = {"type": "array", "items": self.schema(depth + 1)}
        if r.random() < 0.4:
            out["minItems"] = r.randint(0, 3)
        if r.random() < 0.5:
            out["maxItems"] = out.get("minItems", 0) + r.randint(0, 4)
        if r.random() < 0.2:
            out["prefixItems"] = [self.schema(depth + 1) for _ in range(r.randint(1, 2))]
        if self.hard and r.random() < 0.15:
            out["contains"] = self.simple(depth)
        return out

    def any_of(self, depth):
        return {"anyOf": [self.schema(depth + 1) for _ in range(self.random.randint(1, 3))]}

    def combined(self, depth):
        r = self.random
        schemas = [self.schema(depth + 1) for _ in range(2)]
        return r.choice([{"oneOf": schemas}, {"allOf": schemas}, {"not": schemas[0]}, dict(self.string(depth), **{"not": {"enum": ["foo", "a"]}}),
                         {"allOf": [{"type": "object"}, self.object(depth), self.object(depth)]}])

    def condition(self, depth):
        name = self.random.choice(NAMES)
        return {"type": "object", "properties": {name: {"enum": ["a", "b", 1]}}, "if": {"properties": {name: {"const": "a"}}, "required": [name]},
                "then": {"required": ["size"], "properties": {"size": {"type": "integer"}}}, "else": {"properties": {"tags": {"type": "boolean"}}},
                "additionalProperties": True}
