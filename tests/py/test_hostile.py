# SPDX-License-Identifier: Apache-2.0
"""Every public function, each argument in turn hostile: it works, or raises a Mast3rError.

The functions are found by ``__all__`` and by ``dir``; one whose arguments the table below does
not know fails the test, so that none is left out.
"""

# ruff: noqa: E501
from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import shutil
import time
import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, noise
from PIL import Image

import mast3r_runtime as m3r
import mast3r_runtime.tensor as mt
from mast3r_runtime import collection, errors, scene, store, viewer
from mast3r_runtime._scene.dense import DepthMap
from mast3r_runtime.backends._cpu import CPUEngine
from mast3r_runtime.distributed import Failure, Progress, Report, Workers

# Not called with hostile values, each with where it is tried in its place, or why not.
ELSEWHERE = {
    "download": "tests/py/test_fetch_hostile.py",
    "limit": "tests/py/test_limits.py",
    "CancelToken.__init__": "no arguments", "CancelToken.cancel": "no arguments",
    "main": "tests/py/test_cli.py: a command line", "benchmark_main": "a command line", "download_main": "a command line",
    "info_main": "a command line",
    "check_metal": "no arguments, and long on a GPU",
    "Runtime.benchmark": "takes the time that its argument says",
    "serve": "it opens a port: tests/py/test_viewer.py",
    "Scene.to_pycolmap": "its solver's objects: below, where pycolmap is installed",
    "Workers.map": "of the standard library", "Workers.submit": "calls what it is given, in another process",
    "Workers.kill": "no arguments", "Workers.pids": "no arguments", "Workers.shutdown": "takes switches alone",
    "Executor.calibrate": "no arguments",
    "Viewable.page": "a protocol", "Viewable.__init__": "a protocol",
    "HostArray.numpy": "a protocol",
    "_again": "what a pickle calls: tests/py/test_rebuild.py",
    "GPUTensor.__init__": "made by the library alone", "Index.__init__": "made by the library alone",
    "Tensor.__init__": "made by the library alone", "Commands.__init__": "made by the library alone",
    "Pool.__init__": "made by the library alone", "Commands.wait": "no arguments",
}  # fmt: skip
TORCH = "to_torch"  # needs torch: tests/py/test_dlpack.py
ENDS = ("close", "release", "commit")  # they end what the others are called on; they have no arguments


class Nasty:
    """An object of no use, with a length."""

    def __len__(self) -> int:
        return 3

    def __repr__(self) -> str:
        return "nasty"


HOSTILE: tuple[Any, ...] = (
    None, -1, 2**31, -(2**70), 1.5, float("nan"), float("inf"), 1j, "", "a\0b", "\udce9", "x" * 5000, b"\xff" * 9,
    "../../../x", [], [[]], {"a": 1}, (1,), object(), Nasty(), np.zeros(3), np.zeros((0, 3)), np.array("x"),
    np.full((4, 4), np.nan), np.array([object()], dtype=object), int, iter(()), Path("/nonexistent/none"),
    "/nonexistent/none",
)  # fmt: skip


def modules() -> list[types.ModuleType]:
    """Every module of the package whose name says that it is public."""
    found: list[types.ModuleType] = [m3r]
    for info in pkgutil.walk_packages(m3r.__path__, "mast3r_runtime."):
        own = info.name.split(".")[1:]
        if not any(part.startswith("_") or part == "libmast3r_runtime" for part in own):
            found.append(importlib.import_module(info.name))
    return [
        *found,
        *(
            importlib.import_module(f"mast3r_runtime.{name}")
            for name in ("_output.drawing", "backends._cpu", "backends._mps")
        ),
    ]


def public() -> dict[str, Callable[..., Any]]:
    """Public functions by name, methods as CLASS.METHOD, eager tensors' as tensor.NAME."""
    found: dict[str, Callable[..., Any]] = {}
    for module in modules():
        for name in getattr(module, "__all__", [n for n in dir(module) if not n.startswith("_")]):
            value = getattr(module, name)
            if not isinstance(value, type):
                if isinstance(value, types.FunctionType) and value.__module__.startswith("mast3r_runtime"):
                    found[f"tensor.{name}" if module is mt else name] = value
                continue
            if not value.__module__.startswith("mast3r_runtime") or issubclass(value, (Exception, str)):
                continue
            for method in dir(value):
                member = inspect.getattr_static(value, method)
                if not method.startswith("_") and isinstance(
                    member, (types.FunctionType, classmethod, staticmethod)
                ):
                    base = getattr(m3r.Engine, method, None) if issubclass(value, m3r.Engine) else None
                    if value is m3r.Engine or getattr(value, method) is not base:
                        found[f"{value.__name__}.{method}"] = getattr(value, method)
            if value.__init__ is not object.__init__ and not issubclass(value, tuple):
                found[f"{value.__name__}.__init__"] = value
    return found


def made_scene(folder: Path) -> scene.Scene:
    """Two pictures with depth and poses, and three points."""
    way = m3r.Transform(48, 64, 48, 64, 0, 0, 48, 64)
    lens = scene.Lens("PINHOLE", 64, 48, (60.0, 60.0, 31.5, 23.5))
    ones = np.ones((48, 64), np.float32)
    depth = DepthMap(ones, ones, ones > 0, np.zeros((48, 64, 3), np.uint8), way)
    pictures = {
        name: scene.Picture(
            name, folder / name, 64, 48, "placed", "", 0, np.eye(4), lens, np.eye(6), 3, 0.1, depth
        )
        for name in ("a.png", "b.png")
    }
    model = scene.Model(
        np.arange(2), np.stack([np.eye(4)] * 2), (lens, lens), np.array([[0, 0, 1.0], [0.1, 0, 1], [0, 0.1, 1]]),
        np.zeros((3, 3), np.uint8), np.array([0, 1, 2]), np.array([0, 1, 0]), np.full((3, 2), 30.0), "incremental",
    )  # fmt: skip
    component = scene.Component(("a.png", "b.png"), "incremental", "", model)
    return scene.Scene(pictures, (component,), scene.Scale(1.0, "network", 0.1, 2), {})


class Table:
    """Right values: of arguments by function or by name, and objects by class."""

    def __init__(self, folder: Path, micro: Path, head: Path, codebook: Path) -> None:
        rng = np.random.default_rng(0)
        self.folder = folder
        # Copies: some calls write over what they are given, and other tests have the same files.
        micro, head, codebook = (Path(shutil.copy(path, folder)) for path in (micro, head, codebook))
        picture = folder / "in" / "a.png"
        picture.parent.mkdir()
        for name in ("a.png", "b.png"):
            Image.fromarray(noise(rng, 48, 64)).save(picture.with_name(name))
        other = picture.with_name("b.png")
        (folder / "pairs.txt").write_text("a.png b.png\n")
        (folder / "features.safetensors").write_bytes(b"")
        self.engine = engine = CPUEngine("auto", 64, "fp32", 2)
        engine.load(micro)
        engine.load_retrieval(head)
        gpu = engine.infer_gpu(picture, picture)
        host = gpu.numpy()
        found = [engine.encode_retrieval(picture), engine.encode_retrieval(other)]
        features = engine.encode(picture)
        features.save(folder / "features.safetensors")
        matches = engine.match(host, top_k=9)
        config = m3r.MASt3RRuntimeConfig(model=m3r.ModelConfig("mast3r_tiny", resolution=224))
        config.to_yaml(folder / "config.yaml")
        runtime = m3r.get_runtime(config)
        bundled = Path(m3r.__file__).parent / "models" / "mast3r_tiny"
        runtime.load(bundled)
        pixels, grey = m3r.read_image(picture), Image.new("RGB", (9, 9))
        symmetric = engine.infer_symmetric(picture, picture)
        self.context = context = mt.Context("cpu")
        x = context.tensor(np.ones((2, 3), np.float32))
        made, kept = made_scene(picture.parent), store.Store(folder / "store")
        made.write(folder / "scene")
        cloud = viewer.Cloud("c", np.zeros((3, 3)), np.zeros((3, 3), np.uint8), np.ones(3), np.zeros(3, int))
        camera = viewer.Camera("a", (64, 48), np.eye(4), np.eye(3))
        line = viewer.Matches(0, 0, np.zeros((1, 4)))
        page = viewer.Page("t", [cloud], [camera], [line])
        two = np.random.default_rng(1).uniform(0, 60, (2, 20, 2))
        known = np.array([[60.0, 0, 31.5], [0, 60, 23.5], [0, 0, 1]])
        pose = m3r.geometry.relative_pose(*two, known, known)
        m3r.export.write_npz(folder / "result.npz", host, matches)
        m3r.export.write_points(
            folder / "points.ply", np.eye(3, dtype=np.float32), np.zeros((3, 3), np.uint8)
        )
        status = next(s for s in m3r.status(folder / "cache") if s.files)
        self.objects: dict[str, Any] = {
            "Engine": engine, "CPUEngine": engine, "MPSEngine": engine, "RetrievalMethods": engine, "Features": features,
            "GPUInferenceResult": gpu, "InferenceResult": host, "SymmetricResult": symmetric, "ViewResult": symmetric.view_11,
            "MatchResult": matches, "Overlap": matches.overlap or m3r.results.Overlap("NO", "", 0.0, 0.0, 0.0),
            "Transform": host.transform_1, "RetrievalResult": found[0], "Index": engine.open_index(codebook),
            "MASt3RRuntimeConfig": config, "ModelConfig": config.model, "RuntimeConfig": config.runtime,
            "MatchingConfig": config.matching, "ModelSpec": m3r.MODEL_SPECS["mast3r_vit_large"],
            "CheckpointFile": m3r.MODEL_SPECS["mast3r_vit_large"].files[0], "ModelStatus": status,
            "FileStatus": status.files[0], "Runtime": runtime, "PairPose": pose,
            "GPUTensor": m3r.GPUTensor.from_numpy(np.zeros((2, 3), np.float32)),
            "Retrieved": collection.Retrieved(
                np.ones((2, 2), np.float32), [m3r.Pair(0, 1)], "global", found, [0, 1], pair_scores=np.ones(1, np.float32)
            ),
            "Scene": made, "Picture": made.pictures["a.png"], "Component": made.components[0], "Points": made.points,
            "Model": made.components[0].model, "Lens": made.pictures["a.png"].lens, "Scale": made.scale,
            "Options": scene.Options(), "Located": scene.Located(np.eye(4), np.eye(3), 40, 50, "a.png"),
            "Store": kept, "Checked": store.check(kept), "Cloud": cloud, "Camera": camera, "Matches": line, "Page": page,
            "Failure": Failure(("a", "b"), "e", "m", "h", 1),
            "Progress": Progress("pairs", 1, 2, 0, 1, 2, 1, 1.0, 1.0, None),
            "Report": Report("r", np.zeros((1, 2), np.int32), np.zeros(1, np.int32), np.zeros(1, np.int8), 1, 2, (), 1.0),
            "Workers": None, "Context": context, "Commands": None, "Pool": context.pool,
            "PoolStats": context.pool.stats(), "Stats": context.stats(), "Graph": mt.Graph(), "Executor": mt.Executor(1),
            "ExecutorStats": mt.ExecutorStats(1, 0, {}, {}),
            "Tensor": context.tensor(np.ones(1, np.float32)),
        }  # fmt: skip
        self.by_name: dict[str, Any] = {
            "engine": engine, "config": config, "result": host, "features_1": features, "features_2": features,
            "matches": matches, "matches_1": None, "pictures": found, "results": found,
            **dict.fromkeys(("img", "img1", "img2", "image", "image_1", "image_2", "source", "picture_1"), picture),
            **dict.fromkeys(("pixels", "image1", "image2"), pixels), "images": [picture, picture],
            "desc_1": host.desc_1, "desc_2": host.desc_2, "path": folder / "new.npz", "folder": picture.parent,
            "model": micro, "model_path": micro, "retrieval_path": head, "codebook": codebook, "n": 4,
            "graph": "complete", "variant": "mast3r_vit_large", "pairs": [(0, 1)], "names": ["a.png", "b.png"],
            "scores": np.eye(2), "similarity": np.eye(4), "count": 2, "out": np.empty(host.conf_1.shape, np.float32),
            "array": np.zeros((2, 3), np.float32), "values": np.zeros((4, 5)), "low": 0.0, "high": 1.0,
            "depth": np.ones((4, 5)), "confidence": np.ones((4, 5)), "conf": np.ones((4, 5)), "points": np.eye(3),
            "colours": np.zeros((3, 3), np.uint8), "points_1": np.zeros((2, 2)), "points_2": np.zeros((2, 2)),
            "picture": grey, "directory": folder / "dir", "role": "retrieval", "given": None,
            "rows": [[("a", grey)]], "cells": [[("a", grey)]], "name": "a", "view": 1, "intrinsics": known, "k": known,
            "xy": np.zeros((2, 2)), "arrays": {}, "handle": 0, "target": folder / "out.safetensors", "text": "x", "data": {},
            "transform": host.transform_1, "wanted": "points", "what": "conf", "kind": "conf", "title": "x",
            "sheets": [[("", grey)]], "keep": 0.5, "percentile": 50.0, "threshold": 0.5, "field": "conf", "output": "conf",
            "points2d": np.zeros((2, 2)), "xy_1": two[0], "xy_2": two[1], "reach": 2, "intrinsics_1": known,
            "intrinsics_2": known, "store": kept, "i": 0, "j": 1, "component": 0, "point": 0, "root": folder / "store",
            "key": "0" * 32, "page": page, "scene_or_result": page, "tflops": 1.0, "gb_per_s": 1.0, "shape": (2, 3),
            "inputs": {}, "thresholds": {"matmul": 10}, "op": "Gelu", "context": context,
        }  # fmt: skip
        (folder / "written").mkdir()
        pairs_of = {
            "images": [picture, other],
            "pairs": [(0, 1)],
            "store": folder / "pairs",
            "model": micro,
            "resolution": 64,
        }
        with engine.open_index(codebook) as index:
            index.add([found[0]])
            index.write(folder / "part.safetensors")
        self.by_function: dict[str, dict[str, Any]] = {
            **{
                n: {"matches": matches}  # few: those of noise with itself are searched for a second
                for n in ("GPUInferenceResult.cameras", "InferenceResult.cameras", "Engine.relative_pose")
            },
            "Retrieved.only": {"numbers": [0]}, "Index.write": {"path": folder / "saved.safetensors"}, "Index.merge": {"path": folder / "part.safetensors"},
            "Engine.__init__": {"num_threads": 2, "backend": "cpu"}, "Engine.load": {"path": micro},
            "Engine.load_retrieval": {"path": head}, "Engine.infer_views": {"pictures": [picture, other]}, "Engine.infer_batch": {"pairs": [(picture, other)]},
            "Engine.match": {"desc_1": host.desc_1, "desc_2": host.desc_2}, "Runtime.load": {"path": bundled},
            "GPUTensor.copy_to": {"out": np.empty((2, 3), np.float32)},
            "GPUInferenceResult.at_original": {"name": "depth_1"}, "InferenceResult.at_original": {"name": "depth_1"},
            "MASt3RRuntimeConfig.from_dict": {"values": {}}, "convert": {"source": micro, "target": folder / "converted.safetensors", "progress": False},
            "estimate_cost": {"model": micro}, "estimate_memory": {"model": micro},
            "matches": {"image_1": pixels, "image_2": pixels}, "Executor.set_thresholds": {"thresholds": {"MatMul": 9}},
            "Features.load": {"path": folder / "features.safetensors"},
            "MASt3RRuntimeConfig.from_yaml": {"path": folder / "config.yaml"},
            "MASt3RRuntimeConfig.to_yaml": {"path": folder / "new.yaml"}, "Features.save": {"path": folder / "f.safetensors"},
            "read_pairs": {"path": folder / "pairs.txt"}, "exif_focal": {"path": picture}, "file_hash": {"path": picture},
            "write_html": {"path": folder / "new.html"}, "write_png": {"path": folder / "new.png"},
            "write_points": {"path": folder / "new.ply", "points": np.eye(3, dtype=np.float32)},
            "result_page": {"path": folder / "result.npz"}, "points_page": {"path": folder / "points.ply"},
            "pair_page": {"image_1": pixels, "image_2": pixels}, "Scene.load": {"folder": folder / "scene"},
            "Scene.write": {"folder": folder / "again", "formats": ["colmap"]}, "run_pairs": pairs_of,
            "reconstruct": {"images": [picture, other], "limit": 1 << 30}, "Model.row": {"picture": 0},
            "Model.moved": {"scale": 1.0, "rotation": np.eye(3), "translation": np.zeros(3)},
            "Lens.moved": {"shift": 0.5}, "Lens.pixels": {"points": np.ones((2, 3))},
            "Store.write": {"kind": "pairs", "data": b"x"}, "Store.write_json": {"kind": "pairs", "value": {"a": 1}},
            "Store.write_arrays": {"kind": "pairs", "arrays": {"a": np.ones(2)}}, "dependence": {"sigma": 5.0},
            **{f"Store.{n}": {"kind": "pairs"} for n in ("exists", "keys", "path", "read", "read_arrays", "read_json", "read_whole", "remove")},
            "coloured_points": {"image_1": pixels, "image_2": pixels}, "network_pixels": {"image": pixels},
            "write_result": {"image_1": pixels, "image_2": pixels, "directory": folder / "written"},
            "from_linear": {"colours": np.zeros((3, 3), np.uint8)}, 
            "Context.tensor": {"values": np.ones(3)}, "Context.zeros": {"shape": (2, 3)}, "Context.empty": {"shape": (2, 3)},
            "Graph.add": {"name": "y", "op": "Gelu"}, "Executor.run": {"graph": mt.Graph().add("y", "Gelu", "x").output("y"), "inputs": {"x": np.ones(3)}},
        }  # fmt: skip
        self.tensor = x
        self.many = m3r.Engine("auto", 28, "fp32", 2, "cpu")
        self.many.load(ROOT / "internal" / "model" / "da3" / "testdata" / "tiny.safetensors")

    def close(self) -> None:
        for name in ("Index", "Executor", "Context", "Engine"):
            self.objects[name].close()
        self.many.close()
        self.objects["Runtime"].release()

    def arguments(self, name: str, wanted: list[inspect.Parameter]) -> tuple[dict[str, Any], set[str]]:
        """The right arguments of a call, and the names of those that the table lacks."""
        kind, _, method = name.partition(".")
        given = dict(self.by_function.get(name, {}))
        needed = {p.name for p in wanted if p.default is p.empty} - set(given)
        if kind == "tensor":
            return given | dict.fromkeys(needed, self.tensor), set()
        own = self.objects.get(kind) if method == "__init__" else None
        if is_dataclass(own):
            given |= {f.name: getattr(own, f.name) for f in fields(own) if f.name in needed}
        else:
            given |= {n: self.by_name[n] for n in needed if n in self.by_name}
        return given, needed - set(given)

    def owner(self, name: str, function: Callable[..., Any]) -> tuple[Any, ...]:
        """The object that a method is called on."""
        kind, _, method = name.partition(".")
        if not method or kind == "tensor" or method == "__init__" or inspect.ismethod(function):
            return ()
        return (self.many if method == "infer_views" else self.objects[kind],)


def parameters_of(name: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    kind, _, method = name.partition(".")
    found = list(inspect.signature(function).parameters.values())
    if method and kind != "tensor" and method != "__init__" and not inspect.ismethod(function):
        found = found[1:]
    named = [p for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if name == "reconstruct":  # its other arguments are these
        named += [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=None)
            for f in fields(scene.Options)
        ]
    return named


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, micro: Path, head: Path, codebook: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("hostile")
        patch.chdir(folder)
        patch.setenv("MAST3R_CACHE_DIR", str(folder / "cache"))
        patch.setenv("MAST3R_OFFLINE", "1")
        right = Table(folder, micro, head, codebook)
        yield right
        right.close()


def called() -> dict[str, Callable[..., Any]]:
    return {
        name: function
        for name, function in sorted(public().items())
        if name not in ELSEWHERE and name.rpartition(".")[2] not in (TORCH, *ENDS)
    }


def test_the_table_has_every_public_name(table: Table) -> None:
    """Each public function is called below, with right values for all that it needs, or is tried elsewhere."""
    for name, function in called().items():
        wanted = parameters_of(name, function)
        _, missing = table.arguments(name, wanted)
        assert not missing, f"{name}: the table has no {missing}"
        if wanted:
            assert all(o is not None for o in table.owner(name, function)), f"{name}: nothing to call it on"
    gone = sorted(set(ELSEWHERE) - set(public()))
    assert not gone, f"names that are gone: {gone}"
    for name, function in public().items():
        if name.rpartition(".")[2] in ENDS:
            assert not parameters_of(name, function), name
    assert len(called()) > 300


def test_the_right_values_are_right(table: Table) -> None:
    """What the table says works, works: else the hostile value is not what is refused."""
    wrong = []
    for name, function in called().items():
        if name.startswith("tensor.") or name in ("reconstruct", "Scene.localize"):
            continue  # tensors of one shape fit few of them; noise is no scene
        given, _ = table.arguments(name, parameters_of(name, function))
        try:
            finish(function(*table.owner(name, function), **given))
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {error!s:.200}")
    assert not wrong, "\n".join(wrong)


def briefly(wrong: list[str]) -> list[str]:
    """Two of each argument."""
    seen: dict[str, int] = {}
    out = []
    for line in wrong:
        key = line.partition("=")[0]
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= 2:
            out.append(line)
    return out


def finish(got: Any) -> None:
    if isinstance(got, types.GeneratorType):
        list(itertools.islice(got, 100))
    elif isinstance(got, (m3r.Engine, m3r.Index, mt.Context, mt.Executor)):
        got.close()
    elif isinstance(got, Workers):
        got.shutdown()


@pytest.mark.parametrize(
    "group", sorted({n.partition(".")[0] if "." in n else "functions" for n in called()})
)
def test_every_argument_of_every_function(table: Table, group: str) -> None:
    names = [n for n in called() if n.startswith(f"{group}.") or (group == "functions" and "." not in n)]
    wrong: list[str] = []
    count = 0
    for name in names:
        function = called()[name]
        wanted = parameters_of(name, function)
        right, _ = table.arguments(name, wanted)
        for p in wanted:
            began = time.monotonic()
            for number, value in enumerate(HOSTILE):
                if number > 11 and time.monotonic() > began + 1:
                    break  # a call that works long before it refuses, or takes anything
                count += 1
                try:
                    with m3r.limit(timeout=2):  # some arguments ask for more work than anybody waits for
                        finish(function(*table.owner(name, function), **right | {p.name: value}))
                except (errors.Mast3rError, NotImplementedError):
                    pass
                except Exception as error:
                    wrong.append(f"{name}({p.name}={value!r:.40}): {type(error).__name__}: {error!s:.80}")
    print(f"{count} calls of {len(names)} functions")
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(briefly(wrong))


def test_the_callers_errors_pass(table: Table) -> None:
    """An exception of the caller's own function is his, whatever its type."""

    class Mine:
        def __array__(self, *_: object, **__: object) -> np.ndarray:
            raise LookupError("mine")

    with pytest.raises(LookupError, match="^'?mine"):
        table.engine.match(Mine(), table.by_name["desc_2"])
    with pytest.raises(ValueError, match="^mine$") as caught:
        m3r.convert(
            table.by_name["model"],
            table.by_name["target"],
            progress=lambda *_: (_ for _ in ()).throw(ValueError("mine")),
        )
    assert not isinstance(caught.value, errors.Mast3rError)
