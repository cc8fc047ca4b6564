"""A class of pydantic for each kind of field."""

import collections
import dataclasses
import datetime
import decimal
import enum
import ipaddress
import pathlib
import re
import typing
import uuid
from typing import Annotated, Any, Literal, Optional, Union

import pydantic
from pydantic import Field
from typing_extensions import TypedDict


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(pydantic.BaseModel):
    x: int
    y: float


class Tree(pydantic.BaseModel):
    left: Optional["Tree"] = None
    value: int = Field(alias="v")


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=0, le=9)


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    name: str = Field(max_length=5)


class Pair(typing.NamedTuple):
    a: int
    b: bool


class Typed(TypedDict, total=False):
    a: int


@dataclasses.dataclass
class Plain:
    a: int = 3


class Computed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    a: int

    @pydantic.computed_field
    @property
    def twice(self) -> int:
        return 2 * self.a


FIELDS = {
    "str": str, "int": int, "float": float, "bool": bool, "none": None, "any": Any,
    "bytes": bytes, "path": pathlib.Path, "secret": pydantic.SecretStr, "secret bytes": pydantic.SecretBytes,
    "pattern of a string": Annotated[str, Field(pattern=r"^[A-Z]{2}-\d{3}$")],
    "length": Annotated[str, Field(min_length=2, max_length=4)],
    "bounded int": pydantic.conint(gt=3, le=40, multiple_of=3), "bounded float": pydantic.confloat(ge=-1, lt=2.5),
    "positive": pydantic.PositiveInt, "decimal": decimal.Decimal,
    "decimal of digits": Annotated[decimal.Decimal, Field(max_digits=5, decimal_places=2)],
    "base64": pydantic.Base64Bytes, "base64 text": pydantic.Base64Str, "base64 of URLs": pydantic.Base64UrlBytes,
    "uuid": uuid.UUID, **{f"uuid{v}": getattr(pydantic, f"UUID{v}") for v in (1, 3, 4, 5)},
    "datetime": datetime.datetime, "date": datetime.date, "time": datetime.time, "timedelta": datetime.timedelta,
    "aware": pydantic.AwareDatetime,
    "ipv4": ipaddress.IPv4Address, "ipv6": ipaddress.IPv6Address, "any address": pydantic.IPvAnyAddress,
    "ipv4 network": ipaddress.IPv4Network, "ipv6 network": ipaddress.IPv6Network, "ipv4 interface": ipaddress.IPv4Interface,
    "any interface": pydantic.IPvAnyInterface, "any network": pydantic.IPvAnyNetwork,
    "url": pydantic.AnyUrl, "http url": pydantic.HttpUrl, "dsn": pydantic.PostgresDsn,
    "literal": Literal["a", 1, None], "enum": Colour, "int enum": Level,
    "optional": Optional[int], "union": Union[int, str, list[int]],
    "discriminated": Annotated[Union[Cat, Dog], Field(discriminator="kind")],
    "list": list[int], "bounded list": Annotated[list[int], Field(min_length=1, max_length=3)],
    "tuple": tuple[int, str], "many": tuple[int, ...], "deque": collections.deque[int],
    "set": set[int], "frozenset": frozenset[str], "set of an enum": set[Colour], "set of booleans": frozenset[bool],
    "dict": dict[str, int], "dict of ints": dict[int, float], "dict of an enum": dict[Colour, int], "dict of models": dict[str, Point],
    "model": Point, "recursive": Tree, "named tuple": Pair, "typed dict": Typed, "dataclass": Plain,
    "json": pydantic.Json, "regular expression": re.Pattern, "bytes count": pydantic.ByteSize,
    "default": Annotated[int, Field(default=3, examples=[1], deprecated=True, json_schema_extra={"x-a": 1})],
}
KINDS = {name: pydantic.create_model("M", field=(kind, ...)) for name, kind in FIELDS.items()}
KINDS |= {"root": pydantic.RootModel[list[Point]], "computed": Computed}
REFUSED = {"set", "frozenset"}  # uniqueItems over too many values
# Valid by the schema, which says less than the class: of base64 the text may be no UTF-8, a scheme is not named, a string
# of JSON is not bound, a count of bytes may be negative.
UNREAD = {"base64 text", "decimal", "decimal of digits", "dict of ints", "dsn", "json", "bytes count"}
