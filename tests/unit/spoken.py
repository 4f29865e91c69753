"""What the code can say, read from the code itself: the values that an argument of a call can have, wherever it stands.

Follows names through assignments, loops, parameters, returns and constants of other modules. What it cannot follow
raises Unreadable: nothing is left out in silence.
"""

import ast
import importlib
import typing
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import dijob
from pydantic import BaseModel

ROOT = Path(dijob.__file__).parent
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Unreadable(Exception):
    """An expression whose values cannot be told from the code."""


@dataclass(frozen=True)
class Instance:
    """Some object of a class: its fields have whatever the code makes such objects with."""

    cls: type


@dataclass(frozen=True)
class Scope:
    """A function in its module, and names of which one value is looked at."""

    module: ModuleType
    function: Function
    bound: Mapping[str, Any] = field(default_factory=dict)

    def fail(self, node: ast.AST) -> typing.NoReturn:
        raise Unreadable(f"{self.module.__name__}:{getattr(node, 'lineno', '?')}: {ast.unparse(node)}")


def calls(name: str, module: str = "") -> Iterator[tuple[Scope, ast.Call]]:
    """Every call of this name, in one module or in all of the operator."""
    for each, tree in _trees().items():
        if module in ("", each):
            functions = [node for node in _walked(tree) if isinstance(node, Function)]
            inside = {node: function for function in functions for node in _named_calls(name, function)}
            if outside := [node for node in _named_calls(name, tree) if node not in inside]:
                raise Unreadable(f"{each}:{outside[0].lineno}: in no function: {ast.unparse(outside[0])}")
            yield from ((Scope(importlib.import_module(each), function), node) for node, function in inside.items())


def argument(scope: Scope, call: ast.Call, order: list[str], name: str) -> Set[Any]:
    """The values that the argument `name` of this call can have; `order` are the names of those without one."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return values(keyword.value, scope)
    for at, node in enumerate(call.args[: order.index(name) + 1]):
        if isinstance(node, ast.Starred):
            return _element(node.value, order.index(name) - at, scope)
        if at == order.index(name):
            return values(node, scope)
    return scope.fail(call)


def fields_of(cls: type) -> list[str]:
    """In the order of positional arguments."""
    if is_dataclass(cls):
        return [each.name for each in fields(cls)]
    assert issubclass(cls, BaseModel)
    return list(cls.model_fields)


def values(node: ast.expr, scope: Scope) -> Set[Any]:
    """All that this expression can be."""
    match node:
        case ast.Constant():
            return {node.value}
        case ast.Name():
            return _named(node, scope)
        case ast.IfExp():
            return values(node.body, scope) | values(node.orelse, scope)
        case ast.Attribute():
            return {value for base in values(node.value, scope) for value in _attribute(base, node, scope)}
        case ast.Subscript():
            return {value for base in values(node.value, scope) for value in _contents(base, node, scope)}
        case _:
            return scope.fail(node)


@cache
def _trees() -> dict[str, ast.Module]:
    """The operator's modules by their names."""
    parts = ((path, ("dijob", *path.relative_to(ROOT).with_suffix("").parts)) for path in sorted(ROOT.rglob("*.py")))
    return {".".join(name).removesuffix(".__init__"): ast.parse(path.read_text()) for path, name in parts}


@cache
def _walked(tree: ast.AST) -> list[ast.AST]:
    """All that is in it: each function is looked through for many names."""
    return list(ast.walk(tree))


def _named_calls(name: str, tree: ast.AST) -> Iterator[ast.Call]:
    nodes = (node for node in _walked(tree) if isinstance(node, ast.Call))
    return (node for node in nodes if name in (_part(node.func, "attr"), _part(node.func, "id")))


def _part(node: ast.expr, name: str) -> Any:
    return getattr(node, name, "")


def _named(node: ast.Name, scope: Scope) -> Set[Any]:
    if node.id in scope.bound:
        return {scope.bound[node.id]}
    local = [value for found in _bindings(node.id, scope) for value in found]
    if local:
        return set(local)
    if not hasattr(scope.module, node.id):
        scope.fail(node)
    value = getattr(scope.module, node.id)
    return {tuple(value.values())} if isinstance(value, dict) else {value}


def _bindings(name: str, scope: Scope) -> Iterator[Set[Any]]:
    """The values of a local name, from each place that gives it one."""
    for node in _walked(scope.function):
        match node:
            case ast.Assign(targets=[target], value=value):
                yield from _assigned(name, target, value, scope)
            case ast.AnnAssign(target=ast.Name(id=found), value=value) if found == name and value:
                yield values(value, scope)
            case ast.NamedExpr(target=ast.Name(id=found), value=value) if found == name:
                yield values(value, scope)
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                yield from _looped(name, target, value, scope)
            case ast.arg(arg=found) if found == name:
                yield _parameter(node, scope)


def _assigned(name: str, target: ast.expr, value: ast.expr, scope: Scope) -> Iterator[Set[Any]]:
    if isinstance(target, ast.Name) and target.id == name:
        yield values(value, scope)
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple | ast.IfExp | ast.Call):
        places = (at for at, part in enumerate(target.elts) if isinstance(part, ast.Name) and part.id == name)
        yield from (_element(value, at, scope) for at in places)


def _looped(name: str, target: ast.expr, over: ast.expr, scope: Scope) -> Iterator[Set[Any]]:
    first = target.elts[0] if isinstance(target, ast.Tuple) else target
    if name not in {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}:
        return
    if not (isinstance(first, ast.Name) and first.id == name):
        scope.fail(over)
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr == "items":
        over = over.func.value
    yield {value for node in _items(over, scope) for value in values(node, scope)}


def _items(node: ast.expr, scope: Scope) -> list[ast.expr]:
    """What a tuple, or the keys of a dict, is written out as."""
    if isinstance(node, ast.Tuple | ast.List):
        return node.elts
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key]
    if isinstance(node, ast.Name):
        for found in ast.walk(scope.function):
            match found:
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    if name == node.id and found.value:
                        return _items(found.value, scope)
    return scope.fail(node)


def _parameter(node: ast.arg, scope: Scope) -> Set[Any]:
    function = getattr(scope.module, scope.function.name, None) or scope.fail(node)
    if (cls := _own_class(typing.get_type_hints(function).get(node.arg))) is not None:
        return {Instance(cls)}
    order = [each.arg for each in scope.function.args.args]
    found = [argument(at, call, order, node.arg) for at, call in calls(scope.function.name, scope.module.__name__)]
    return set[Any]().union(*found) if found else scope.fail(node)


def _attribute(base: Any, node: ast.Attribute, scope: Scope) -> Set[Any]:
    if not isinstance(base, Instance):
        return {getattr(base, node.attr)} if hasattr(base, node.attr) else scope.fail(node)
    hint = typing.get_type_hints(base.cls).get(node.attr)
    if (cls := _own_class(hint)) is not None:
        return {Instance(cls)}
    made = list(calls(base.cls.__name__)) if hint is str else []
    found = [argument(at, call, fields_of(base.cls), node.attr) for at, call in made]
    return set[Any]().union(*found) if found else scope.fail(node)


def _own_class(hint: Any) -> type | None:
    """The class of the operator's own that a hint is about; enums are values."""
    for each in (hint, *typing.get_args(hint)):
        if isinstance(each, type) and each.__module__.startswith("dijob.") and not issubclass(each, Enum):
            return each
    return None


def _contents(base: Any, node: ast.expr, scope: Scope) -> Set[Any]:
    return set(base) if isinstance(base, tuple) else scope.fail(node)


def _element(node: ast.expr, at: int, scope: Scope) -> Set[Any]:
    """The values of one element of a tuple: written out, given by a function, or named."""
    match node:
        case ast.Tuple():
            return values(node.elts[at], scope)
        case ast.IfExp():
            return _element(node.body, at, scope) | _element(node.orelse, at, scope)
        case ast.Call():
            return {value for there, given in _returns(node, scope) for value in _element(given, at, there)}
        case ast.Name():
            for found in ast.walk(scope.function):
                match found:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == node.id:
                        return _element(value, at, scope)
    return scope.fail(node)


def _returns(node: ast.Call, scope: Scope) -> list[tuple[Scope, ast.expr]]:
    """What the called function of the operator returns, wherever it returns something."""
    path = ast.unparse(node.func).split(".")
    called: Any = getattr(scope.module, path[0], None)
    for part in path[1:]:
        called = getattr(called, part, None)
    for function in ast.walk(_trees().get(getattr(called, "__module__", ""), ast.Module([], []))):
        if isinstance(function, Function) and function.name == called.__name__:
            there = Scope(importlib.import_module(called.__module__), function)
            given = [each.value for each in ast.walk(function) if isinstance(each, ast.Return) and each.value]
            return [(there, each) for each in given if not (isinstance(each, ast.Constant) and each.value is None)]
    return scope.fail(node)
