"""Files that are whole or absent: artifacts under seal, exports that were checked, checkpoints.

Nothing in them is code. An artifact is a folder of two files that belong together: arrays
(safetensors) and the contract that says what they are for (JSON). The contract carries a checksum
of the arrays and one of itself, its seal, so a damaged file, a mixed-up pair or an edit by hand is
refused instead of driving an arm.
"""

import hashlib
import json
import os
import platform
import re
import runpy
import shutil
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from glob import escape
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as tensor_bytes

from genan import sealed, signature, words
from genan.errors import GenanError, SettingError, import_extra, listing, refuse
from genan.sealed import check_weights, parse_contract, seal
from genan.signature import SIGNATURE

Tree = TypeVar("Tree")
Json = dict[str, Any]
Arrays = Mapping[str, np.ndarray]
Place = Path | str  # Of a file or folder.
Check = Callable[[Path], None]  # Raises where the export at a path is not what it should be.

CHECKPOINT = "checkpoint.safetensors"
OPSET, OLDEST_OPSET = 17, 13  # Operators of version 17 run on every onnxruntime since 1.12 (2022).


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` under a temporary name, make sure it is on the disk, and rename it."""
    with _temporary(path, "tmp") as temporary:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


@contextmanager
def _temporary(path: Path, kind: str) -> Iterator[Path]:
    """A place next to ``path`` that is gone afterwards, whatever was put there; gone is, too, what
    a process of this computer has left there that was killed."""
    ours, end = f".{path.name}.{platform.node()}-", f".{kind}"
    for left in path.parent.glob(f"{escape(ours)}*{end}"):
        try:
            os.kill(int(left.name[len(ours) : -len(end)]), 0)
        except ProcessLookupError:
            _remove(left)
        except (ValueError, PermissionError):  # another's
            continue
    place = path.with_name(f"{ours}{os.getpid()}{end}")
    try:
        yield place
    finally:
        _remove(place)


def _remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.unlink(missing_ok=True)


@dataclass(frozen=True)
class ArtifactFormat:
    """One kind of artifact: its files, its version, and how to speak of it."""

    format: str  # Name of the format, as in the contract file.
    versions: tuple[int, ...]  # Those that are read; the last is written, unless another is asked.
    weights: str  # Name of the file with the arrays.
    contract: str
    """Name of the file with the contract; it is written last, so it says that all is there."""
    error: type[GenanError]
    noun: str  # What it is: "the actuators".
    none: str  # How a message begins where there is none: "There are no actuators".
    origin: str  # Where one comes from: "the --out of 'genan fit'".
    again: str  # How to make another one: "fit again".
    unfinished: str  # What to say where there is a checkpoint in its place.
    finished: str  # How a refusal to replace one goes on after the folder: "holds a policy; ...".
    others: tuple[tuple[str, str], ...] = ()
    """Contract files of other formats that may be given by mistake, and what they belong to."""
    more: tuple[str, ...] = ()  # Other files that are read with it, where there are such.
    reader: str = "this genan"  # Who reads it, for messages.
    trusted: Callable[[Path], bool] = lambda folder: False
    """Whether the artifact in a folder needs no signature, because it came as the code did."""

    def write(self, folder: Place, arrays: Arrays, **entries: Any) -> Path:
        """Write both files into ``folder``, replacing those there, the contract last; ``entries``
        as of ``text``."""
        folder, weights = Path(folder), tensor_bytes(dict(arrays))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SIGNATURE).unlink(missing_ok=True)
        write_atomically(folder / self.weights, weights)
        write_atomically(folder / self.contract, self.text(weights, **entries).encode())
        return folder

    def text(self, weights: bytes, contract: Json, record: Json, version: int | None = None) -> str:
        """The contract file that belongs to an array file with the bytes ``weights``; ``version``:
        an older one than the newest, for content that old readers can read."""
        settings: Json = {
            "format": self.format,
            "version": self.versions[-1] if version is None else version,
            "contract": contract,
            "record": record,
            "weights_sha256": hashlib.sha256(weights).hexdigest(),
        }
        return json.dumps({**settings, "seal": seal(settings)}, indent=1) + "\n"

    def contents(self, folder: Path, *more: str) -> dict[str, bytes]:
        """The artifact's two files, and those of ``more`` that are there, by name."""
        paths = (folder / name for name in (self.weights, self.contract, *more))
        return {path.name: path.read_bytes() for path in paths if path.exists()}

    def signed(self, path: Path) -> bytes:
        """The content of an artifact's file, which is refused where a signature is required."""
        content, keys = path.read_bytes(), signature.accepted()
        if keys and not self.trusted(path.parent):
            signature.check(path, content, keys, self.error)
        return content

    def read(self, folder: Place) -> tuple[Json, dict[str, np.ndarray]]:
        """What the contract file says, and the arrays; all of it is checked."""
        settings, path = self.read_contract(Path(folder)), Path(folder) / self.weights
        weights = sealed.read_file(path, self)
        check_weights(weights, settings, path, self)
        try:
            return settings, parse_tensors(weights)
        except SafetensorError as error:
            raise sealed.refusal(path, f"cannot be read ({error})", self) from None

    def read_contract(self, folder: Path) -> Json:
        """Everything in the contract file, checked against its signature and its own seal."""
        path = folder / self.contract
        if not folder.is_dir():
            raise self.error(f"{self.none} in {folder}: no such folder; give {self.origin}.")
        if not path.exists():
            end = f". {self.unfinished}" if any(folder.glob("checkpoint*")) else "."
            for name, what in self.others:
                if (folder / name).exists():
                    end = f" but {name}, so it holds {what}; give {self.origin}."
            raise self.error(f"{self.none} in {folder}: it has no {self.contract}{end}")
        return parse_contract(self.signed(path), path, self)

    def export_numpy(
        self, source: Path, out: Path, runtime: types.ModuleType, check: Check, **facts: Any
    ) -> Path:
        """Write the folder ``out`` once ``check`` accepts it: the artifact's two files byte by
        byte, ``runtime`` as one file that needs NumPy alone, and how to use it (``facts``: for
        that). A folder that is there keeps its other files."""
        contents, own = self.contents(source, SIGNATURE), Path(str(runtime.__file__))
        contents[own.name] = _standalone(own)
        contents["README.txt"] = render(own.with_name("numpy_readme.txt"), **facts).encode()
        return place_folder(out, contents, check)

    def load_export(self, folder: Path, runtime: types.ModuleType) -> Any:
        """What the runtime in an exported folder loads from it, in place of ``runtime``."""
        exported = runpy.run_path(str(folder / Path(str(runtime.__file__)).name))
        try:
            return exported["load"](folder)
        except exported["KIND"].error as error:
            raise self.error(str(error)) from None

    def clear(self, out: Path, *, overwrite: bool, more: Sequence[str] = ()) -> None:
        """Refuse a file, or a folder with a finished artifact; with ``overwrite``, forget it, its
        checkpoint and the files called ``more``: what says "finished" goes first."""
        taken = not overwrite and (out / self.contract).exists()
        refuse(
            (out.exists() and not out.is_dir(), f"{out} is a file; give a folder for {self.noun}."),
            (taken, f"{out} {self.finished.format(out=out)}"),
        )
        names = (self.contract, SIGNATURE, self.weights, *self.more, *more, CHECKPOINT)
        for name in names if overwrite else ():
            (out / name).unlink(missing_ok=True)

    check_arrays = sealed.check_arrays  # with (arrays, shapes, where=...)


def fits(value: Any, kind: Any) -> bool:
    """Whether ``value``, out of JSON with its lists as tuples, is what the annotation ``kind``
    says; numbers must be finite."""
    inner: Any = get_args(kind)
    if get_origin(kind) is tuple and isinstance(value, tuple):
        inner = inner[:1] * len(value) if ... in inner else inner
        return len(value) == len(inner) and all(map(fits, value, inner))
    if isinstance(kind, types.UnionType):
        return any(fits(value, one) for one in inner)
    if kind in (float, int):
        number = isinstance(value, int | kind) and not isinstance(value, bool)
        return number and abs(value) < 1e300
    if is_dataclass(kind):
        return all(fits(getattr(value, one.name), one.type) for one in fields(kind))
    return kind is Any or isinstance(value, get_origin(kind) or kind)


def check_types(made: Any) -> None:
    """Refuse a dataclass out of JSON, with a ``TypeError``, whose fields are not of their types."""
    wrong = [f.name for f in fields(made) if not fits(getattr(made, f.name), f.type)]
    if wrong:
        raise TypeError(f"{listing(wrong)} of a wrong kind")


def place_folder(out: Path, contents: Mapping[str, bytes], check: Check) -> Path:
    """Write the files ``contents`` into ``out`` once ``check`` accepts them; other files stay."""
    if out.exists() and not out.is_dir():
        raise SettingError(f"{out} is a file, and a NumPy export is a folder; give another place.")
    with _temporary(out, "unchecked") as unchecked:
        unchecked.mkdir(parents=True)
        for name, content in contents.items():
            write_atomically(unchecked / name, content)
        check(unchecked)
        if not out.exists():
            return unchecked.rename(out)
        (out / SIGNATURE).unlink(missing_ok=True)
        for name in contents:
            (unchecked / name).replace(out / name)
    return out


def place_file(path: Path, content: bytes, check: Check) -> Path:
    """Write the file ``path`` once ``check`` accepts it."""
    if path.is_dir():
        raise SettingError(f"{path} is a folder, and an ONNX export is a file; give another place.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with _temporary(path, "unchecked") as unchecked:
        write_atomically(unchecked, content)
        check(unchecked)
        return unchecked.replace(path)


def render(template: Path, *, html: bool = False, filters: Any = (), **context: Any) -> str:
    """The text of a Jinja ``template``, escaped if it is HTML, with ``context`` and ``filters``."""
    environment = _environment(template.parent, html=html)
    environment.filters.update(filters)
    environment.globals.update(context)
    return environment.get_template(template.name).render()


def sentences(template: Path, macro: str, *facts: Any, **context: Any) -> tuple[str, ...]:
    """The sentences, a line each, that a macro of a Jinja ``template`` says about ``facts``."""
    text = getattr(_compiled(template).make_module(context), macro)(*facts)
    return tuple(filter(None, map(str.strip, text.splitlines())))


@cache
def _compiled(template: Path) -> Any:
    return _environment(template.parent, html=False).get_template(template.name)


def _environment(folder: Path, *, html: bool) -> Any:
    """With the filters of ``genan.words``, ``listing``, ``repr`` and ``share`` (a percentage), and
    ``pairs(names, units)``, which lists names with their units."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder), autoescape=html, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=not html,
        extensions=["jinja2.ext.do"],
    )  # fmt: skip
    share = lambda part: f"{100.0 * part:.3g} %"
    environment.filters.update(words.FILTERS, listing=listing, repr=repr, share=share)
    environment.globals["pairs"] = lambda *both: ", ".join(map("{} [{}]".format, *both))
    return environment


def _standalone(module: Path) -> bytes:
    """The text of a module that imports ``genan.sealed``, with what it needs of it in its place."""
    both = module, Path(sealed.__file__)
    own, text = (path.read_text(encoding="utf-8") for path in both)
    body = text[text.index("\n\ndef ") :]
    before, after = re.split(r"(?m)^from genan\.sealed import .*\n", own)
    return f"{before}import hashlib\nimport json\n{body}{after}".encode()


class OnnxGraph:
    """An ONNX graph while it is built; ``error`` is raised where the package is missing."""

    def __init__(self, opset: int, *, error: type[GenanError]) -> None:
        self._onnx, self._opset = import_extra("onnx", "ONNX exports", "onnx", error), opset
        newest = self._onnx.defs.onnx_opset_version()
        if not OLDEST_OPSET <= opset <= newest:
            raise SettingError(f"opset must be {OLDEST_OPSET} to {newest}, not {opset}.")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def node(self, operator: str, *inputs: str | np.ndarray, name: str = "", **more: Any) -> str:
        """Add one operation on named values or constant arrays, with ``more`` attributes; returns
        its output's name."""
        names, from_array = [], self._onnx.numpy_helper.from_array
        for value in inputs:
            if isinstance(value, np.ndarray):
                self._constants.append(from_array(value, f"constant_{len(self._constants)}"))
                value = self._constants[-1].name
            names.append(value)
        name = name or f"value_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, names, [name], **more))
        return name

    def tensor(self, name: str, shape: Sequence[int | str], words: str) -> Any:
        """An input or output of float32; an axis with a name is free."""
        kind = self._onnx.TensorProto.FLOAT
        return self._onnx.helper.make_tensor_value_info(name, kind, shape, doc_string=words)

    def model(self, name: str, inputs: Any, outputs: Any, metadata: dict[str, str]) -> bytes:
        """The finished file, of lists of tensors; the same graph gives the same bytes."""
        helper = self._onnx.helper
        graph = helper.make_graph(self._nodes, name, inputs, outputs, self._constants)
        opsets = [helper.make_opsetid("", self._opset)]
        versions = {"opset_imports": opsets, "ir_version": helper.find_min_ir_version_for(opsets)}
        model = helper.make_model(graph, producer_name="genan", **versions)
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model)
        return model.SerializeToString(deterministic=True)


def open_session(path: Place, *, error: type[GenanError]) -> Any:
    """An onnxruntime session of the file at ``path``, on one core of the CPU."""
    runtime = import_extra("onnxruntime", "ONNX exports", "onnx", error)
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    try:
        # without the fallback, which prints what is wrong instead of raising it
        own = {"providers": ["CPUExecutionProvider"], "enable_fallback": 0}
        return runtime.InferenceSession(os.fspath(path), options, **own)
    except Exception as fault:  # onnxruntime's errors have no base class of their own
        reason = " ".join(str(fault).split())
        cannot = f"onnxruntime {runtime.__version__} cannot run the export ({reason})"
        raise error(f"{cannot}; try a lower opset.") from None


def save_checkpoint(folder: Path, state: Any, *, identity: Json, extra: Any) -> None:
    """Write unfinished work in one file, so that continuing gives the same result: ``state``, a
    pytree of arrays, ``identity``, which work it is, and what else belongs to it, for JSON."""
    metadata = {"identity": json.dumps(identity, sort_keys=True), "beside": json.dumps(extra)}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / CHECKPOINT, tensor_bytes(_named(state), metadata=metadata))


def load_checkpoint(folder: Path, like: Tree, identity: Json, work: str) -> tuple[Tree, Any] | None:
    """The state in ``folder``, in the structure of ``like``, and what belongs to it, or None; that
    of work with another ``identity`` is refused. ``work``: what it is, "fit" or "training"."""
    import jax
    import jax.numpy as jnp

    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        theirs, extra = json.loads(metadata["identity"]), json.loads(metadata["beside"])
    except (SafetensorError, KeyError, ValueError) as error:
        again = f"remove it, or give --overwrite, to start the {work} again"
        raise GenanError(f"{path} cannot be read ({error}); {again}.") from None
    there, here = flattened(theirs), flattened(identity)
    differing = [key for key in sorted({*there, *here}) if there.get(key) != here.get(key)]
    words = [f"{k} is {there.get(k)!r} there and {here.get(k)!r} here" for k in differing[:3]]
    if differing:
        raise SettingError(
            f"{folder} holds an unfinished {work} of another kind ({'; '.join(words)}); repeat "
            "its command to continue, give another --out, or --overwrite to start again."
        )
    expected = _named(like)
    if any(name not in arrays or arrays[name].shape != a.shape for name, a in expected.items()):
        other = f"{path} is of another version of genan"
        raise GenanError(f"{other}; give --overwrite to start the {work} again.")
    leaves = [jnp.asarray(arrays[name]) for name in expected]
    return jax.tree.unflatten(jax.tree.structure(like), leaves), extra


def _named(state: Any) -> dict[str, np.ndarray]:
    """Every array of the state by its path."""
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(leaf, order="C") for path, leaf in leaves}


def flattened(settings: Json, prefix: str = "") -> Json:
    """Nested settings as dotted names."""
    flat: Json = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        flat |= flattened(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return flat
