"""What exports have in common: none gets its name before it was checked, and how ONNX files are
made and run."""

import importlib
import os
import shutil
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from genan.errors import GenanError, SettingError
from genan.files import write_atomically

#: Operators of this version run on every onnxruntime since 1.12 (2022).
OPSET = 17
OLDEST_OPSET = 13

Check = Callable[[Path], None]
"""Raises where the export at a path is not what it should be."""


def place_folder(out: Path, contents: Mapping[str, bytes], check: Check) -> Path:
    """Write the files ``contents`` into the folder ``out`` once ``check`` lets them pass; other
    files in it stay."""
    if out.exists() and not out.is_dir():
        raise SettingError(f"{out} is a file, and a NumPy export is a folder; give another place.")
    unchecked = _unchecked(out)
    try:
        unchecked.mkdir(parents=True)
        for name, content in contents.items():
            write_atomically(unchecked / name, content)
        check(unchecked)
        if out.exists():
            for name in contents:
                (unchecked / name).replace(out / name)
        else:
            unchecked.rename(out)
    finally:
        shutil.rmtree(unchecked, ignore_errors=True)
    return out


def place_file(path: Path, content: bytes, check: Check) -> Path:
    """Write the file ``path`` once ``check`` lets it pass."""
    if path.is_dir():
        raise SettingError(f"{path} is a folder, and an ONNX export is a file; give another place.")
    path.parent.mkdir(parents=True, exist_ok=True)
    unchecked = _unchecked(path)
    try:
        write_atomically(unchecked, content)
        check(unchecked)
        unchecked.replace(path)
    finally:
        unchecked.unlink(missing_ok=True)
    return path


def run_module(path: Path) -> types.ModuleType:
    """The Python file at ``path`` as a module that is known to nobody else."""
    module = types.ModuleType(f"exported_{path.stem}")
    exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), module.__dict__)
    return module


class Graph:
    """An ONNX graph while it is built; ``error`` is raised where ONNX cannot be had."""

    def __init__(self, opset: int, *, error: type[GenanError]) -> None:
        self._onnx = _package("onnx", error)
        self._opset = opset
        newest = self._onnx.defs.onnx_opset_version()
        if not OLDEST_OPSET <= opset <= newest:
            raise SettingError(f"opset must be {OLDEST_OPSET} to {newest}, not {opset}.")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def node(
        self, operator: str, *inputs: str | np.ndarray, name: str | None = None, **attributes: Any
    ) -> str:
        """Add one operation; inputs are names of values or constant arrays. Returns its output's
        name."""
        names = []
        for value in inputs:
            if isinstance(value, np.ndarray):
                self._constants.append(
                    self._onnx.numpy_helper.from_array(value, f"constant_{len(self._constants)}")
                )
                names.append(self._constants[-1].name)
            else:
                names.append(value)
        name = name or f"value_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, names, [name], **attributes))
        return name

    def tensor(self, name: str, shape: Sequence[int | str], words: str) -> Any:
        """An input or output of float32; an axis with a name is free."""
        return self._onnx.helper.make_tensor_value_info(
            name, self._onnx.TensorProto.FLOAT, shape, doc_string=words
        )

    def model(
        self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], metadata: dict[str, str]
    ) -> bytes:
        """The finished file; the same graph gives the same bytes."""
        helper = self._onnx.helper
        operators = [helper.make_opsetid("", self._opset)]
        model = helper.make_model(
            helper.make_graph(self._nodes, name, inputs, outputs, self._constants),
            producer_name="genan",
            opset_imports=operators,
            ir_version=helper.find_min_ir_version_for(operators),
        )
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model)
        content: bytes = model.SerializeToString(deterministic=True)
        return content


def open_session(path: Path | str, *, error: type[GenanError]) -> Any:
    """A session of onnxruntime with the file at ``path``, on one core of the CPU."""
    onnxruntime = _package("onnxruntime", error)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            os.fspath(path), options, providers=["CPUExecutionProvider"]
        )
    except Exception as fault:  # onnxruntime's errors have no base class of their own
        reason = " ".join(str(fault).split())
        raise error(
            f"onnxruntime {onnxruntime.__version__} cannot run the export ({reason}); try a lower opset."
        ) from None


def _unchecked(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.unchecked")


def _package(name: str, error: type[GenanError]) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise error(
            f"ONNX exports need the package {name}, which is not installed; get it with: pip install 'genan[onnx]'."
        ) from None
