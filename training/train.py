# SPDX-License-Identifier: Apache-2.0
"""Trains the small default model on procedural scenes. See README.md.

    torchrun --nproc-per-node 8 train.py configs/main.toml --work /tmp/run --out OUT

Resumes from WORK/checkpoint.pt when it is there. Runs end by the clock
(run.seconds, over all resumed parts), so the learning rate falls to its end
on a machine of any speed. OUT gets the averaged weights in parts and a log.
SIGTERM ends a part early: all is saved as it is at that step.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import tomllib
import torch
import torch.distributed as dist
from torch import Tensor, nn

from mast3r_torch import evaluation, losses, weights
from mast3r_torch.growth import grow
from mast3r_torch.losses import LossWeights, objective
from mast3r_torch.model import DecoderBlock, Dims, EncoderBlock, Mast3r, init_weights
from mast3r_torch.optim import Optimiser
from mast3r_torch.scenes import Meshes, load_meshes, load_photos
from mast3r_torch.source import Batch, Source, flat_pairs

SYNC_EVERY = 20  # steps between agreements on the clock


def compile_parts() -> None:
    """Compiles the transformer's blocks and the loss of the points.

    The blocks once per shape of the tokens, not once per block. What is left
    are products and convolutions, which compiling does not make faster.
    """
    torch._dynamo.config.recompile_limit = 64
    losses.points_loss = torch.compile(losses.points_loss, dynamic=False, fullgraph=True)
    for kind in (EncoderBlock, DecoderBlock):
        kind.forward = torch.compile(kind.forward, dynamic=False, fullgraph=True)


@dataclass(frozen=True)
class Config:
    name: str = "run"
    variant: str = "mast3r_tiny"  # of the file: the name under which it is loaded
    seconds: float = 60.0  # of training, over all parts; preparations included
    max_steps: int = 1 << 30
    seed: int = 1
    # optimiser
    kind: str = "adamw"
    lr: float = 1e-3
    lr_end: float = 0.01  # of lr
    flat: float = 0.0  # share of the run with the full learning rate, before it falls
    warmup: int = 600  # steps
    weight_decay: float = 0.05
    clip: float = 1.0
    ema: float = 0.999
    # data
    shapes: tuple[tuple[int, int, int], ...] = ((256, 192, 64),)  # width, height, batch of one GPU
    shape_weights: tuple[float, ...] = (1.0,)
    textures: int = 240
    texture_size: int = 256
    refresh: int = 300  # steps between new atlases
    spp: int = 3
    reach: tuple[float, float] = (0.2, 1.0)  # of the second camera, grown over the first `grow` of the run
    grow: float = 0.3
    no_overlap: float = 0.04  # share of pairs of two different scenes
    cameras: dict = field(default_factory=dict)  # of CameraMix, beside `reach`
    scenes: dict = field(default_factory=dict)  # of SceneMix
    hard: float = 0.0  # share of views with each bad fault, see photometry
    vignette: float = 0.0  # share of views that are darker towards their corners
    photographs: float = 0.0  # share of the pairs that are one photograph, see pictures
    picture_size: int = 1024  # of these photographs, pixels a side
    overlap: float = 0.0  # pairs of which both views share less than this are taken as of different things
    temperature: tuple[float, float] = (0.1, 0.07)
    compile: bool = False  # on a GPU; pays from some minutes on
    model: dict = field(default_factory=dict)
    loss: dict = field(default_factory=dict)


def load_config(path: str, overrides: list[str]) -> Config:
    values = tomllib.loads(Path(path).read_text())
    for item in overrides:
        key, _, text = item.partition("=")
        values |= tomllib.loads(f"{key}={text}")
    known = {f.name for f in fields(Config)}
    if unknown := set(values) - known:
        raise ValueError(f"train: unknown settings {sorted(unknown)}")
    for key in ("shapes", "shape_weights", "reach", "temperature"):
        if key in values:
            values[key] = tuple(tuple(v) if isinstance(v, list) else v for v in values[key])
    config = replace(Config(), **values)
    if len(config.shapes) != len(config.shape_weights):
        raise ValueError(f"train: {len(config.shapes)} shapes, {len(config.shape_weights)} weights")
    return config


class World:
    """The processes of a run: one per GPU, or a single one."""

    def __init__(self, device: str):
        self.size, self.rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
        self.device = torch.device(device)
        if device == "cuda":
            # Modulo, for launchers that show each process its own GPU only.
            index = int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count()
            self.device = torch.device(device, index)
            torch.cuda.set_device(self.device)
        if self.size > 1:
            dist.init_process_group("nccl" if device == "cuda" else "gloo")

    def agree(self, value: float) -> float:
        """Rank 0's value, everywhere."""
        if self.size == 1:
            return value
        t = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.broadcast(t, 0)
        return t.item()


class StopSignal:
    """Whether SIGTERM came, from torchrun or from a machine that is taken back.

    It is only noted: processes leave the loop at the same step, where they agree on the clock.
    """

    def __init__(self) -> None:
        self.came = False
        self.before = signal.signal(signal.SIGTERM, self._note)

    def forget(self) -> None:
        signal.signal(signal.SIGTERM, self.before)

    def _note(self, *_: object) -> None:
        self.came = True


def schedule(config: Config, step: int, progress: float) -> float:
    ramp = min(1.0, (step + 1) / config.warmup)
    falling = max(0.0, min(progress, 1.0) - config.flat) / (1 - config.flat)
    cosine = 0.5 * (1 + math.cos(math.pi * falling))
    return config.lr * ramp * (config.lr_end + (1 - config.lr_end) * cosine)


class Trainer:
    """The state of a run. On a GPU, steps are CUDA graphs: a step is some two
    thousand small kernels, and launching them one by one takes longer than
    running them."""

    def __init__(
        self, config: Config, world: World, work: Path, photos: list[Tensor], init: Path | None = None,
        meshes: Meshes | None = None, whole: list[Tensor] | None = None,
    ):  # fmt: skip
        self.config, self.world, self.work = config, world, work
        self.graphed = world.device.type == "cuda"
        torch.manual_seed(config.seed)  # the same weights everywhere
        self.net = Mast3r(Dims.from_dict(config.model))
        init_weights(self.net)
        self.ancestor: dict[str, str] = {}
        if init:
            tensors, self.ancestor = weights.read(init)
            tensors = grow(tensors, weights.dims_from_metadata(self.ancestor), self.net.dims)
            self.net.load_state_dict(tensors, strict=True)
        self.net.to(world.device)
        if self.graphed:
            torch.backends.cuda.matmul.allow_tf32 = True
            torch.backends.cudnn.allow_tf32 = True
            torch.backends.cudnn.benchmark = True
            if config.compile:
                compile_parts()
        self._split_precision()
        # What changes from step to step, in device memory where graphs read it.
        self.controls = torch.zeros(4, device=world.device)
        self.lr, self.ema_weight, self.temperature, self.reach = self.controls.unbind()
        self.optimiser = Optimiser(self.masters, config.kind, config.weight_decay, self.lr)
        self.ema = [p.detach().clone() for p in self.masters.values()]
        self.loss_weights = LossWeights(**config.loss)
        self.step, self.elapsed = 0, 0.0
        self._resume()
        self.source = Source(config, world.rank, world.device, photos, self.step, meshes, whole)
        self.graphs: dict = {}
        self.batches: dict = {}
        if self.graphed:
            self._capture_all()

    def _split_precision(self) -> None:
        """Float32 masters, which the optimiser sees, and the network's own weights.

        On a GPU the network computes in bfloat16 but for its norms and the
        descriptor MLP. Its weights are stored so, or each would be converted
        at each use. All gradients live in one buffer, low precision first:
        one all-reduce and one norm a step.
        """

        def low(name: str) -> bool:
            return self.graphed and not re.search(r"norm|head_local_features", name)

        named = sorted(self.net.named_parameters(), key=lambda item: not low(item[0]))
        self.params = [p for _, p in named]
        self.masters = {n: nn.Parameter(p.detach().clone()) for n, p in named}
        device = self.world.device
        self.grads = torch.zeros(sum(p.numel() for p in self.params), device=device)
        self.grads_low = torch.zeros(
            sum(p.numel() for n, p in named if low(n)), dtype=torch.bfloat16, device=device
        )
        offset = 0
        for name, p in named:
            where = slice(offset, offset + p.numel())
            if low(name):
                p.data = p.data.bfloat16()
            p.grad = (self.grads_low if low(name) else self.grads)[where].view_as(p)
            self.masters[name].grad = self.grads[where].view_as(p)
            offset += p.numel()

    @torch.no_grad()
    def _publish(self) -> None:
        """The masters' values to the network."""
        torch._foreach_copy_(self.params, list(self.masters.values()))

    def _resume(self) -> None:
        path = self.work / "checkpoint.pt"
        if not path.exists():
            return
        saved = torch.load(path, map_location=self.world.device, weights_only=True)
        with torch.no_grad():
            for name, p in self.masters.items():
                p.copy_(saved["net"][name])
        self._publish()
        self.optimiser.load(saved["optimiser"])
        for mine, theirs in zip(self.ema, saved["ema"], strict=True):
            mine.copy_(theirs)
        self.step, self.elapsed = saved["step"], saved["elapsed"]

    def save(self) -> None:
        state = {"optimiser": self.optimiser.state(), "ema": self.ema}
        state["net"] = {n: p.detach() for n, p in self.masters.items()}
        state |= {"step": self.step, "elapsed": self.elapsed}
        temporary = self.work / "checkpoint.tmp"
        torch.save(state, temporary)
        temporary.replace(self.work / "checkpoint.pt")

    def averaged(self) -> dict[str, Tensor]:
        return dict(zip(self.masters, self.ema, strict=True))

    def _gradients(self, shape: tuple[int, int, int]) -> dict[str, Tensor]:
        """Leaves this process's gradient of one batch in `grads`.

        On a GPU the batch is the one drawn during the last step of this
        shape: the ray caster computes while the network moves memory.
        """
        if not self.graphed:
            return self._learn(self.source.next(shape, self.reach))
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            fresh = self.source.next(shape, self.reach)
        batch = self.batches[shape]
        parts = self._learn(batch)
        main.wait_stream(self.side)
        for old, new in zip(batch, fresh, strict=True):
            old.copy_(new)
        return parts

    def _learn(self, batch: Batch) -> dict[str, Tensor]:
        images = batch.images
        with torch.autocast(self.world.device.type, torch.bfloat16, enabled=self.graphed):
            raw1, raw2 = self.net.raw(images[:, 0], images[:, 1])
        flat = flat_pairs(self.config.photographs, len(images))
        loss, parts = objective(
            self.loss_weights, raw1, raw2, *batch[1:], self.source.rng, self.temperature, flat
        )
        self.grads.zero_()
        self.grads_low.zero_()
        loss.backward()
        self.grads[: self.grads_low.numel()].copy_(self.grads_low)
        return parts

    @torch.no_grad()
    def _update(self) -> Tensor:
        """A step along `grads`; returns their norm."""
        norm = self.grads.norm()
        # A step that is not finite becomes no step; the weights stay equal on all ranks.
        scale = torch.where(norm.isfinite(), (self.config.clip / (norm + 1e-6)).clamp_max(1.0), 0.0)
        self.grads.nan_to_num_(0.0, 0.0, 0.0).mul_(scale)
        self.optimiser.step()
        self._publish()
        gap = torch._foreach_sub(list(self.masters.values()), self.ema)
        torch._foreach_mul_(gap, self.ema_weight)
        torch._foreach_add_(self.ema, gap)
        return norm

    def _capture(self, work, generator: torch.Generator | None):
        """Runs `work` a few times, then records it. Returns the graph and its outputs."""
        stream = torch.cuda.Stream(priority=-1)  # goes before the drawing of the next batch
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                work()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        if generator:
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            outputs = work()
        return graph, outputs

    def _capture_all(self) -> None:
        self.controls.copy_(torch.tensor([0.0, 0.0, *self.config.temperature[:1], *self.config.reach[:1]]))
        self.side = torch.cuda.Stream()
        for shape in dict.fromkeys(self.config.shapes):
            self.batches[shape] = self.source.next(shape, self.reach)
            self.graphs[shape] = self._capture(lambda s=shape: self._gradients(s), self.source.rng.generator)
        # With no gradient and no learning rate the trial runs leave the weights alone.
        self.grads.zero_()
        self.graphs["update"] = self._capture(self._update, None)
        self._resume()

    def train_step(self, shape: tuple[int, int, int], progress: float) -> dict[str, Tensor]:
        """One step of all processes. The tensors returned are overwritten by the next."""
        config, world = self.config, self.world
        if self.step and self.step % config.refresh == 0:
            self.source.textures.refresh(self.source.rng)
        (t0, t1), (low, high) = config.temperature, config.reach
        decay = min(config.ema, (1 + self.step) / (10 + self.step))
        grown = min(1.0, progress / max(config.grow, 1e-6))
        controls = [
            schedule(config, self.step, progress),
            1 - decay,
            t0 * (t1 / t0) ** progress,
            low + (high - low) * grown,
        ]
        self.controls.copy_(torch.tensor(controls))
        if self.graphed:
            graph, parts = self.graphs[shape]
            graph.replay()
        else:
            parts = self._gradients(shape)
        if world.size > 1:
            dist.all_reduce(self.grads)
            self.grads /= world.size
        if self.graphed:
            graph, norm = self.graphs["update"]
            graph.replay()
        else:
            norm = self._update()
        self.step += 1
        return parts | {"norm": norm}


def commit_id() -> str:
    """Of the code. A machine without the repository is told in MAST3R_COMMIT."""
    if told := os.environ.get("MAST3R_COMMIT"):
        return told
    here = Path(__file__).parent
    run = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True)
    return run.stdout.strip() or "unknown"


def quick_figures(
    net: Mast3r, photos: list[Tensor], pictures: Path | None, device: str, pairs: int
) -> dict[str, float]:
    """A short evaluation with the weights at hand: the synthetic sets, and the motorcycle where it is."""

    def backend(a: Tensor, b: Tensor):
        with torch.no_grad():
            return tuple(type(v)(*(t[0] for t in v)) for v in net(a[None], b[None]))

    out = {}
    for name in evaluation.SETS:
        row = evaluation.measure_synthetic(
            backend, evaluation.synthetic(name, pairs, (256, 192), photos, device)
        )
        out |= {f"{name}.{k}": row[k] for k in ("all", "mutual", "mutual_share", "points1", "points2")}
    if pictures:
        for size in ((256, 176), (512, 352)):
            row = evaluation.motorcycle(backend, pictures, size, device)
            out |= {f"moto{size[0]}.{k}": row[k] for k in ("all", "mutual", "mutual_share", "inverse_depth")}
    return {k: round(v, 4) for k, v in out.items() if v == v}  # JSON has no NaN


def data_used(source: Source) -> str:
    """What the pairs were made of, for the file: a configuration's name does not tell."""
    said = ["procedural scenes", "textures partly from CC0 and public-domain pictures"]
    if source.scenes.furniture.any:
        said.append(f"{source.meshes.count} CC0 meshes")
    if source.pictures:
        said.append("pairs of whole pictures of these kinds")
    return "; ".join(said)


def write_result(trainer: Trainer, out: Path, figures: dict[str, float]) -> None:
    config = trainer.config
    meta = weights.dims_metadata(trainer.net.dims) | {
        "variant": config.variant,
        "weights": "trained",
        "license": "Apache-2.0",
        "training_run": config.name,
        "training_commit": commit_id(),
        "training_steps": str(trainer.step),
        "training_data": data_used(trainer.source),
        "figures": json.dumps(figures),
    }
    if trainer.ancestor:
        run, steps = (trainer.ancestor.get(f"training_{k}", "unknown") for k in ("run", "steps"))
        meta["training_init"] = f"{run}, {steps} steps"
    weights.save_parts(trainer.averaged(), out, meta)
    # A later run continues from these: the average lags behind while the learning rate is high.
    masters = {name: p.detach() for name, p in trainer.masters.items()}
    weights.save_parts(masters, out / "raw", meta | {"weights": "trained, not averaged"})


def run(config: Config, args: argparse.Namespace) -> dict[str, float]:
    world = World(args.device)
    begin = time.monotonic()
    for folder in (args.work, args.out, args.out / "raw"):
        folder.mkdir(parents=True, exist_ok=True)
    photos = load_photos(args.photos, world.device) if args.photos else []
    meshes = load_meshes(args.meshes, config.texture_size, world.device) if args.meshes else None
    whole = load_photos(args.photographs, world.device) if args.photographs else []
    trainer = Trainer(config, world, args.work, photos, args.init, meshes, whole)
    before, first = trainer.elapsed, trainer.step
    log = (args.out / "log.jsonl").open("a") if world.rank == 0 else None
    chooser = torch.Generator().manual_seed(config.seed + trainer.step)
    odds = torch.tensor(config.shape_weights)
    progress, window, stamp = before / config.seconds, time.monotonic(), trainer.step
    stop = StopSignal()
    while trainer.step < config.max_steps:
        if trainer.step % SYNC_EVERY == 0 or trainer.step == first:
            trainer.elapsed = world.agree(before + time.monotonic() - begin)
            progress = max(trainer.elapsed / config.seconds, trainer.step / config.max_steps)
            if progress >= 1 or trainer.elapsed - before > args.part or world.agree(stop.came):
                break
        shape = config.shapes[int(torch.multinomial(odds, 1, generator=chooser))]
        parts = trainer.train_step(shape, progress)
        if log and trainer.step % args.every == 0:
            row = {k: round(v.item(), 4) for k, v in parts.items()}
            rate = (time.monotonic() - window) / (trainer.step - stamp)
            window, stamp = time.monotonic(), trainer.step
            row |= {"step": trainer.step, "seconds": round(trainer.elapsed), "ms": round(1000 * rate, 1)}
            print(json.dumps(row), flush=True)
            log.write(json.dumps(row) + "\n")
            log.flush()
        if world.rank == 0 and args.save_every and trainer.step % args.save_every == 0:
            trainer.save()
            write_result(trainer, args.out, {})
    if log:
        log.close()
    figures = finish(trainer, args, progress >= 1 or trainer.step >= config.max_steps)
    stop.forget()
    if world.size > 1:
        dist.barrier()
        dist.destroy_process_group()
    return figures


def finish(trainer: Trainer, args: argparse.Namespace, done: bool) -> dict[str, float]:
    """Rank 0 saves, and evaluates and prints the table when the run is over."""
    if trainer.world.rank:
        return {}
    trainer.save()
    figures: dict[str, float] = {}
    write_result(trainer, args.out, figures)
    if done and args.eval_pairs:
        net = Mast3r(trainer.net.dims).to(trainer.world.device).eval()
        # The figures are those of the file: half-precision weights, float32 arithmetic.
        net.load_state_dict({k: v.half().float() for k, v in trainer.averaged().items()})
        held = load_photos(args.held_out, trainer.world.device) if args.held_out else []
        with torch.compiler.set_stance("force_eager"):  # single pairs are not worth compiling for
            figures = quick_figures(net, held, args.pictures, str(trainer.world.device), args.eval_pairs)
        write_result(trainer, args.out, figures)
    print(
        json.dumps({"run": trainer.config.name, "steps": trainer.step, "done": done, **figures}), flush=True
    )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting (TOML)"
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--out", type=Path, required=True, help="folder of the weights and the log")
    parser.add_argument(
        "--init",
        type=Path,
        help="model file to start from, as deep as the run's network or less, when there is no checkpoint",
    )
    parser.add_argument("--photos", type=Path, help="folder of pictures for textures")
    parser.add_argument(
        "--photographs", type=Path, help="folder of whole pictures for pairs of one photograph"
    )
    parser.add_argument("--meshes", type=Path, help="pack of meshes, see collect_meshes.py")
    parser.add_argument("--held-out", type=Path, help="folder of pictures for the evaluation's textures")
    parser.add_argument("--pictures", type=Path, help="folder with the motorcycle pair")
    parser.add_argument("--part", type=float, default=math.inf, help="seconds after which this part stops")
    parser.add_argument("--every", type=int, default=200, help="steps between log lines")
    parser.add_argument("--save-every", type=int, default=2000)
    parser.add_argument("--eval-pairs", type=int, default=32)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    run(load_config(args.config, args.set), args)


if __name__ == "__main__":
    main()
