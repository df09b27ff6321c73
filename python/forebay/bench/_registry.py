"""Benchmarks by name, and their parameters as their signatures say."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

from forebay.bench._values import BenchError, convert, type_name

__all__ = ["BenchError", "Benchmark", "Parameter", "all_benchmarks", "benchable", "find", "load"]

# Modules of a user's packages that register benchmarks when they are imported.
ENTRY_POINTS = "forebay.bench"

# Modules that register the benchmarks of this package.
BUILT_IN = ("forebay.bench.checkpoints", "forebay.bench.files")

# What a run gives to a function that names it in its signature. All else is a parameter of the
# benchmark itself.
GIVEN = frozenset(
    {
        "dataset_path",
        "work_dir",
        "seed",
        "interface",
        "drop_cache",
        "fsync",
        "rank",
        "local_rank",
        "world_size",
        "iteration",
    }
)

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Parameter:
    """One parameter of a benchmark, from its signature."""

    name: str
    annotation: Any
    # `inspect.Parameter.empty` where a value must be given.
    default: Any
    help: str
    # Parameter of the function that this is a field of, and its dataclass.
    part_of: tuple[str, type] | None = None

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return self.default is inspect.Parameter.empty

    def described(self) -> dict[str, Any]:
        """As `forebay bench list` takes it."""
        shown = None if self.required else self.default
        if isinstance(shown, os.PathLike):
            shown = os.fspath(shown)
        found = {
            "name": self.name,
            "type": type_name(self.annotation),
            "default": shown,
            "required": self.required,
            "help": self.help,
        }
        if typing.get_origin(self.annotation) is Literal:
            found["choices"] = list(typing.get_args(self.annotation))
        return found


@dataclass(frozen=True)
class Benchmark:
    """A function that is run as a benchmark."""

    name: str
    function: Callable[..., Any]
    category: str
    help: str
    # "torch" where the ranks meet through `torch.distributed`, else "python".
    engine: str
    # "fsspec" for the twin of a native benchmark.
    interface: str | None
    parameters: tuple[Parameter, ...]
    given: tuple[tuple[str, Any], ...] = field(repr=False)

    def described(self) -> dict[str, Any]:
        """As `forebay bench list` takes it."""
        return {
            "name": self.name,
            "category": self.category,
            "help": self.help,
            "engine": self.engine,
            "interface": self.interface,
            "params": [parameter.described() for parameter in self.parameters],
        }

    def values(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Every parameter with its value: those of `params` by name, else the defaults.

        Raises:
            BenchError: a name is not known, a value does not fit or is missing.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in params:
            if name not in known:
                has = ", ".join(known) or "none"
                raise BenchError(f"`{self.name}` has no parameter `{name}`: it has {has}")
        found: dict[str, Any] = {}
        for name, parameter in known.items():
            if name in params:
                found[name] = convert(name, params[name], parameter.annotation)
            elif parameter.required:
                raise BenchError(f"`{self.name}` needs a value for `{name}`")
            else:
                found[name] = parameter.default
        return found

    def arguments(self, params: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments for the function: its parameters, and of the run what it asks for.

        Raises:
            BenchError: as `values`.
        """
        found = self.values(params)
        wholes: dict[str, tuple[type, dict[str, Any]]] = {}
        for parameter in self.parameters:
            if parameter.part_of is not None:
                whole, made_of = parameter.part_of
                fields = wholes.setdefault(whole, (made_of, {}))[1]
                fields[parameter.name] = found.pop(parameter.name)
        found |= {whole: made_of(**fields) for whole, (made_of, fields) in wholes.items()}
        for name, annotation in self.given:
            value = run[name]
            found[name] = value if annotation is None else convert(name, value, annotation)
        return found


_registry: dict[tuple[str, str | None], Benchmark] = {}


@overload
def benchable(function: F) -> F: ...
@overload
def benchable(
    *,
    name: str | None = None,
    category: str = "User",
    engine: Literal["python", "torch"] = "python",
    interface: str | None = None,
) -> Callable[[F], F]: ...
def benchable(
    function: F | None = None,
    *,
    name: str | None = None,
    category: str = "User",
    engine: Literal["python", "torch"] = "python",
    interface: str | None = None,
) -> F | Callable[[F], F]:
    """Register a function as a benchmark; the function itself stays as it is.

    Its parameters become the benchmark's: names, defaults and types are those of the signature
    (`int`, `float`, `bool`, `str`, `Path`, `Literal`, or `list` of these), and the text of an
    `Annotated[int, "bytes of each file"]` is their help. A parameter named `dataset_path`, `work_dir`,
    `seed`, `interface`, `drop_cache`, `fsync`, `rank`, `local_rank`, `world_size` or `iteration` is
    given by the run. A parameter whose type is a dataclass stands for its fields.

    Each iteration is one call, timed as a whole. A generator has three parts: what stands before its
    first `yield` is set-up, and what stands after its second is verification or clean-up; only
    the part between the two is timed. A benchmark fails by an exception, or by returning False.

    Args:
        name: the benchmark's name; that of the function if not given.
        category: where `forebay bench list` shows it.
        engine: `"torch"` for ranks that meet in `torch.distributed`.
        interface: `"fsspec"` for the twin of a native benchmark of the same name.

    Raises:
        BenchError: the name is taken, or the signature cannot be read.
    """

    def register(function: F) -> F:
        made = _benchmark(function, name or function.__name__, category, engine, interface)
        key = (made.name, made.interface)
        other = _registry.get(key)
        if other is not None and _place(other.function) != _place(function):
            where = " and ".join(f"`{_place(one)}`" for one in (other.function, function))
            raise BenchError(f"two benchmarks are named `{made.name}`: {where}")
        _registry[key] = made
        return function

    return register if function is None else register(function)


def _place(function: Callable[..., Any]) -> str:
    code = inspect.unwrap(function).__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def _benchmark(
    function: Callable[..., Any], name: str, category: str, engine: str, interface: str | None
) -> Benchmark:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise BenchError(f"cannot read the signature of `{name}`: {error}") from error
    parameters: list[Parameter] = []
    given: list[tuple[str, Any]] = []
    for one in inspect.signature(function).parameters.values():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.POSITIONAL_ONLY):
            raise BenchError(f"`{name}` must name its parameters: `{one}` has no name of its own")
        annotation, words = _annotation(hints.get(one.name), one.default)
        if one.name in GIVEN:
            # Without a type in the signature it stays what the run has: paths are of `Path`.
            given.append((one.name, annotation if one.name in hints else None))
        elif dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
            parameters.extend(_fields(one.name, annotation))
        else:
            parameters.append(Parameter(one.name, annotation, one.default, words))
    lines = (inspect.getdoc(function) or "").splitlines()
    return Benchmark(
        name=name,
        function=function,
        category=category,
        help=lines[0] if lines else "",
        engine=engine,
        interface=interface,
        parameters=tuple(parameters),
        given=tuple(given),
    )


def _fields(whole: str, made_of: type) -> Iterator[Parameter]:
    """The fields of a dataclass, each as a parameter."""
    hints = typing.get_type_hints(made_of, include_extras=True)
    for one in dataclasses.fields(made_of):
        default = inspect.Parameter.empty if one.default is dataclasses.MISSING else one.default
        annotation, words = _annotation(hints[one.name], default)
        yield Parameter(one.name, annotation, default, words, (whole, made_of))


def _annotation(hint: Any, default: Any) -> tuple[Any, str]:
    """The type of a parameter, and its help. Without a type, that of the default is meant."""
    words = ""
    if hasattr(hint, "__metadata__"):
        words = next((one for one in hint.__metadata__ if isinstance(one, str)), "")
        hint = hint.__origin__
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        others = [one for one in typing.get_args(hint) if one is not type(None)]
        hint = others[0] if len(others) == 1 else str
    if hint is None:
        unknown = default is inspect.Parameter.empty or default is None
        hint = str if unknown else type(default)
    return hint, words


def load(modules: Sequence[str | os.PathLike[str]] = ()) -> None:
    """Import the built-in benchmarks, those of entry points, and files that a user names.

    Raises:
        BenchError: a file is not there or cannot be imported.
    """
    for built_in in BUILT_IN:
        importlib.import_module(built_in)

    for module in modules:
        _import_file(Path(module))
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except Exception as error:
            raise BenchError(
                f"cannot import `{entry.value}` of an installed package: {error!r}"
            ) from error


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise BenchError(f"there is no module `{path}`")
    # A name that no other module has, and the same for the same file.
    name = f"forebay_bench_{path.resolve().as_posix().strip('/').replace('/', '_').removesuffix('.py')}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BenchError(f"`{path}` is no Python module: its name must end in `.py`")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # What lies beside it can be imported, as if it were run.
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except BenchError:
        raise
    except Exception as error:
        raise BenchError(f"cannot import `{path}`: {error!r}") from error


def all_benchmarks() -> list[Benchmark]:
    """Every benchmark that was registered, by name."""
    return [_registry[key] for key in sorted(_registry, key=lambda key: (key[0], key[1] or ""))]


def find(name: str, interface: str | None) -> Benchmark:
    """The benchmark of a name, in the form for this interface where there is one.

    Raises:
        BenchError: there is none.
    """
    for wanted in (interface, None):
        found = _registry.get((name, wanted))
        if found is not None:
            return found
    twins = [made.interface for (named, _), made in _registry.items() if named == name]
    if twins:
        raise BenchError(f"`{name}` is run in Python only with `--interface {twins[0]}`")
    names = ", ".join(sorted({made.name for made in _registry.values()}))
    raise BenchError(f"there is no benchmark `{name}` in Python: there are {names}")
