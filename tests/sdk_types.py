"""Samples of the types that an SDK declares: one value for each member of a union of TypedDicts, with its required keys."""

import types
import typing

import typing_extensions


def is_typed_dict(kind):
    return typing_extensions.is_typeddict(kind)


def members(kind):
    """The TypedDicts of a union, unions within it included."""
    kind = getattr(kind, "__value__", kind)
    if typing.get_origin(kind) is typing.Annotated:
        return members(typing.get_args(kind)[0])
    if is_typed_dict(kind):
        return [kind]
    return [found for part in typing.get_args(kind) for found in members(part)]


def is_required(kind, hint):
    """By the resolved hint: where annotations are texts, __required_keys__ knows nothing."""
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return is_required(kind, typing.get_args(hint)[0])
    if origin in (typing.Required, typing_extensions.Required):
        return True
    return kind.__total__ and origin not in (typing.NotRequired, typing_extensions.NotRequired)


def sample(kind):
    """A value of this type."""
    kind = getattr(kind, "__value__", kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Annotated, typing.Required, typing.NotRequired, typing_extensions.Required,
                  typing_extensions.NotRequired):
        return sample(arguments[0])
    if origin is typing.Literal:
        return arguments[0]
    if origin in (typing.Union, types.UnionType):
        return sample(next((part for part in arguments if part is not type(None)), type(None)))
    if is_typed_dict(kind):
        return {key: sample(hint) for key, hint in typing_extensions.get_type_hints(kind, include_extras=True).items()
                if is_required(kind, hint)}
    if origin is dict or kind is dict or kind is object or kind is typing.Any:
        return {}
    if origin is not None:  # a list or another sequence
        return [] if not members(arguments[0]) else [sample(arguments[0])]
    return {str: "x", int: 1, float: 1.0, bool: True, type(None): None, bytes: "x"}.get(kind, "x")
