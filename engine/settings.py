"""YAML and `--set a.b=c` into frozen dataclasses. Every mistake is one line that names the key."""

import dataclasses
import difflib
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

T = TypeVar("T")


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice, of which YAML would drop the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"{key} stands twice, the second time {node.start_mark}")
        return super().construct_mapping(node, deep)


def read(of: type[T], path: Path, settings: Sequence[str]) -> T:
    """The file, with `a.b=c` over it; raises ValueError."""
    if not path.is_file():
        raise ValueError(f"{path}: there is no such config file")
    try:
        values = _Loader(path.read_text()).get_single_data() or {}
    except (yaml.YAMLError, UnicodeDecodeError) as failure:
        raise ValueError(f"{path}: {' '.join(str(failure).split())}") from failure
    if not isinstance(values, dict):
        raise ValueError(f"{path} should hold settings such as 'train: {{lr: 1e-4}}'")
    for setting in settings:
        _put(values, setting)
    return _build(of, values, "")


def plain(config: Any) -> Any:
    """As YAML and JSON hold it, with the keys that `load` reads."""
    if dataclasses.is_dataclass(config):
        return {f.name.rstrip("_"): plain(getattr(config, f.name)) for f in dataclasses.fields(config)}
    if isinstance(config, Mapping):
        return {key: plain(value) for key, value in config.items()}
    return [plain(value) for value in config] if isinstance(config, tuple) else config


def flat(values: Mapping[str, Any], whole: Collection[str] = (), where: str = "") -> dict[str, Any]:
    """a.b -> its value. `whole`: settings that are values themselves, as all empty ones."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{where}{name}"
        inner = isinstance(value, Mapping) and value and key not in whole
        found |= flat(value, whole, f"{key}.") if inner else {key: value}
    return found


def _put(values: dict[str, Any], setting: str) -> None:
    key, equals, text = setting.partition("=")
    if not equals:
        raise ValueError(f"--set {setting}: write it as key=value")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as failure:
        raise ValueError(f"--set {setting}: {' '.join(str(failure).split())}") from failure
    *path, last = key.strip().split(".")
    inner = values
    for part in path:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise ValueError(f"--set {setting}: {part} is a value and holds no settings")
    inner[last] = value


def _build(of: type[T], values: Any, where: str, default: Any = None) -> T:
    """`default`: what holds where `values` say nothing; none: the defaults of the class."""
    if not isinstance(values, dict):
        raise ValueError(f"{where} = {values!r} should be settings, such as {where}.{_names(of)[0]}")
    known = {name.rstrip("_"): name for name in _names(of)}
    kinds = get_type_hints(of)
    defaults = {f.name: getattr(default, f.name, f.default) for f in dataclasses.fields(of)}  # type: ignore[arg-type]
    given = {}
    for key, value in values.items():
        path = f"{where}.{key}" if where else str(key)
        if key not in known:
            raise ValueError(f"{path}: there is no such setting{nearest(str(key), known, where)}")
        given[known[key]] = _value(kinds[known[key]], value, path, defaults.get(known[key]))
    try:
        return of(**given) if default is None else dataclasses.replace(default, **given)
    except ValueError as failure:
        raise ValueError(f"{where.rpartition('.')[0]}.{failure}" if "." in where else str(failure)) from failure


def _names(of: type) -> list[str]:
    return [f.name for f in dataclasses.fields(of)]


def nearest(key: str, known: Iterable[str], where: str) -> str:
    """What could have been meant, or else all there is."""
    names = sorted(known)
    near = difflib.get_close_matches(key, names, 1) or [name for name in names if name.startswith(key[:3])]
    prefix = f"{where}." if where else ""
    return f"; did you mean {prefix}{near[0]}?" if near else f"; there are {', '.join(prefix + name for name in names)}"


def _value(kind: Any, value: Any, path: str, default: Any = None) -> Any:
    """`value` as `kind`, where nothing is lost: 1 may be 1.0, "a" may be ["a"]."""
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _build(kind, value, path, default)  # type: ignore[arg-type]
    if origin is tuple:
        listed = value if isinstance(value, list) else [value]
        return tuple(_value(arguments[0], item, path) for item in listed)
    if origin is Literal:
        if value in arguments and type(value) in {type(argument) for argument in arguments}:
            return value
        raise ValueError(f"{path} = {value!r} should be one of {', '.join(map(str, arguments))}")
    if origin in (Union, types.UnionType):
        for one in arguments:
            try:
                return _value(one, value, path)
            except ValueError:
                continue
    elif kind is type(None) and value is None:
        return None
    elif kind is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value)  # YAML takes 1e-4, without a dot, for text
        except ValueError:
            pass
    elif origin in (Mapping, dict) or getattr(origin, "__name__", "") == "Mapping":
        if isinstance(value, dict):
            return {key: _value(arguments[1], inner, f"{path}.{key}") for key, inner in value.items()}
    elif kind is Any or (
        isinstance(kind, type) and isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
    ):
        return value
    raise ValueError(f"{path} = {value!r} should be {_spoken(kind)}")


def _spoken(kind: Any) -> str:
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return " or ".join(map(str, arguments))
    if arguments and get_origin(kind) in (Union, types.UnionType):
        return " or ".join(_spoken(one) for one in arguments)
    spoken = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
    return spoken.get(kind, "settings")
