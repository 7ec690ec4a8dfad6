"""python -m engine.config: writes docs/configuration.md from the dataclasses, and the comments beside their fields."""

import ast
import dataclasses
import inspect
import io
import tokenize
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from engine.config.common import FIXED_SIZES, Config
from engine.config.finetuning import FinetuneConfig
from engine.config.pretraining import PretrainConfig
from engine.model.sizes import SIZES, Sizes
from engine.settings import plain

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
_HEAD = """# Configuration

<!-- written by `python -m engine.config` from the dataclasses: change the comments beside their fields instead -->

A run is told by a YAML file and by `--set` over it; what neither says has its default here.

```
deepspeed engine/pretrain.py --config configs/pretrain/w2v_cmsc_rlm.yaml --set data.path=DATA --set run.dir=RUN \\
    --set train.lr=1e-4 --set data.leads=[I,II,V2]
```

```yaml
train: {system: w2v_cmsc_rlm, lr: 1.0e-4}
data: {path: [DATA, s3://bucket/set], leads: [I, II, V2]}
```

A setting that is misspelt, of the wrong type or without effect is an error, and `RUN/config.yaml` keeps all of them.
A sample is a pair in pre-training and a segment in fine-tuning.
"""


def main() -> None:
    PAGE.write_text(page())
    print(f"written: {PAGE}")


def page() -> str:
    lines = [_HEAD]
    for title, of in (
        ("Pre-training: `engine/pretrain.py`", PretrainConfig()),
        ("Fine-tuning: `engine/finetune.py`", FinetuneConfig()),
    ):
        lines += [f"## {title}\n", *_tables(of)]
    return "\n".join([*lines, *_sizes()]) + "\n"


def _tables(config: Config) -> Iterator[str]:
    """One for each group of settings."""
    for group in dataclasses.fields(config):
        yield from (f"### {group.name}\n", "| setting | type | default | |", "|---|---|---|---|")
        yield from _rows(config, group, "")
        yield ""


def _rows(holder: Any, field: "dataclasses.Field[Any]", prefix: str) -> Iterator[str]:
    """Of a setting, or of a group of them."""
    name, value = f"{prefix}{field.name.rstrip('_')}", getattr(holder, field.name)
    if dataclasses.is_dataclass(value):
        for inner in dataclasses.fields(value):
            yield from _rows(value, inner, f"{name}.")
        return
    of: Any = type(holder)
    kind, meaning = get_type_hints(of)[field.name], meanings(of)[field.name]
    yield _row(f"{name}.*" if isinstance(value, Mapping) else name, kind, value, meaning)


def _row(name: str, kind: Any, default: Any, meaning: str) -> str:
    return f"| `{name}` | {_spoken(kind)} | {_shown(default)} | {meaning} |"


def _shown(value: Any) -> str:
    if value in ("", (), {}):
        return "-"
    if value is None:
        return "none"
    value = plain(value)
    shown = f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)
    return f"`{shown.lower() if isinstance(value, bool) else shown}`"


def _spoken(kind: Any) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return f"list: {_spoken(arguments[0])}"
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in arguments)
    if getattr(origin, "__name__", "") == "Mapping":
        return "settings"
    if arguments:  # a union; that a setting may be left out its default says
        return " or ".join(_spoken(one) for one in arguments if one is not type(None))
    return {int: "whole number", float: "number", bool: "true or false", str: "text"}[kind]


def _sizes() -> Iterator[str]:
    yield "## Sizes\n"
    yield "`model.size` names one, `model.sizes.*` changes it: `--set model.sizes.layers=4`.\n"
    yield f"| `model.sizes.` | {' | '.join(SIZES)} | |\n|---|{'---|' * len(SIZES)}---|"
    for name, meaning in meanings(Sizes).items():
        if name not in FIXED_SIZES:
            yield f"| `{name}` | {' | '.join(str(getattr(size, name)) for size in SIZES.values())} | {meaning} |"


@cache
def meanings(of: type) -> dict[str, str]:
    """Of each field, its own class's comment before those of the classes it is built on; none at all is a bug."""
    found: dict[str, str] = {}
    for one in reversed(of.__mro__):
        if dataclasses.is_dataclass(one):
            found |= {name: said for name, said in _comments(one).items() if said or name not in found}
    for name in (field.name for field in dataclasses.fields(of)):
        # A group of settings says in its own fields what it is.
        assert found[name] or dataclasses.is_dataclass(get_type_hints(of)[name]), f"{of.__name__}.{name}: no comment"
    return {field.name: found[field.name] for field in dataclasses.fields(of)}


def _comments(of: type) -> dict[str, str]:
    """Field -> the comment lines above it, and that behind it."""
    source = inspect.getsource(of)
    by_line = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    lines = source.splitlines()
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            above = node.lineno - 1
            while lines[above - 1].lstrip().startswith("#"):
                above -= 1
            said = [by_line[line] for line in range(above + 1, node.end_lineno + 1) if line in by_line]  # type: ignore[operator]
            found[node.target.id] = " ".join(said)
    return found


if __name__ == "__main__":
    main()
