# SPDX-License-Identifier: Apache-2.0
"""A few steps of training on the CPU, resumed, written, read and evaluated."""

import argparse
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import evaluate
import mean
import test_meshes
import train
from mast3r_torch import evaluation, scenes, weights
from mast3r_torch.source import scene_mix

CONFIG = str(Path(train.__file__).parent / "configs/smoke.toml")


def arguments(tmp_path: Path, **more) -> argparse.Namespace:
    values = dict(work=tmp_path / "work", out=tmp_path / "out", photos=None, held_out=None, pictures=None,
                  meshes=None, photographs=None, init=None, part=math.inf, every=1, save_every=2,
                  eval_pairs=0, device="cpu")  # fmt: skip
    return argparse.Namespace(**{**values, **more})


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Four steps, then a new process's worth of two more."""
    tmp_path = tmp_path_factory.mktemp("run")
    torch.set_num_threads(2)
    first = train.load_config(CONFIG, ["max_steps=4", 'kind="muon"'])
    train.run(first, arguments(tmp_path))
    train.run(train.load_config(CONFIG, ["max_steps=6", 'kind="muon"']), arguments(tmp_path))
    return tmp_path


def test_training_resumes_and_learns(trained):
    rows = [json.loads(line) for line in (trained / "out/log.jsonl").read_text().splitlines()]
    assert [r["step"] for r in rows] == [1, 2, 3, 4, 5, 6]
    assert all(math.isfinite(v) for r in rows for v in r.values())
    assert rows[-1]["points"] < rows[0]["points"]
    state = torch.load(trained / "work/checkpoint.pt", weights_only=True)
    assert state["step"] == 6 and state["elapsed"] > 0


def test_a_run_that_is_told_to_stop_saves_its_last_step(tmp_path):
    """Two processes: both leave the loop at the same step; nothing since the last save is lost."""
    work, out = tmp_path / "work", tmp_path / "out"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [train.__file__, CONFIG, "--set", "max_steps=1000000", "--work", str(work), "--out", str(out)]
    command += ["--every", "1", "--save-every", "1000000", "--eval-pairs", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            if '"step": 2,' in line:
                run.terminate()
                break
        run.stdout.read()
    last = json.loads((out / "log.jsonl").read_text().splitlines()[-1])["step"]
    state = torch.load(work / "checkpoint.pt", weights_only=True)
    meta = weights.merge_parts(out, tmp_path / "model.safetensors")
    assert state["step"] == last == int(meta["training_steps"]) >= 2


def test_result_is_a_model_file(trained):
    meta = weights.merge_parts(trained / "out", trained / "model.safetensors")
    net, read = weights.load(trained / "model.safetensors")
    assert meta == read and read["license"] == "Apache-2.0" and read["training_steps"] == "6"
    average = torch.load(trained / "work/checkpoint.pt", weights_only=True)["ema"]
    for p, q in zip(net.parameters(), average, strict=True):
        assert torch.equal(p, q.half().float())


def test_training_starts_from_a_model(trained, tmp_path):
    parent = trained / "parent.safetensors"
    weights.merge_parts(trained / "out", parent)
    train.run(train.load_config(CONFIG, ["max_steps=1", "lr=0.0"]), arguments(tmp_path, init=parent))
    meta = weights.merge_parts(tmp_path / "out", tmp_path / "child.safetensors")
    assert meta["training_init"] == "smoke, 6 steps" and meta["training_steps"] == "1"
    old, new = (weights.read(path)[0] for path in (parent, tmp_path / "child.safetensors"))
    assert all(torch.equal(old[name], new[name]) for name in old)


def test_mean_of_models(trained, tmp_path):
    one, two, out = trained / "one.safetensors", tmp_path / "two.safetensors", tmp_path / "mean.safetensors"
    meta = weights.merge_parts(trained / "out", one)
    tensors = weights.read(one)[0]
    weights.save({k: t.float() + 1 for k, t in tensors.items()}, two, {**meta, "training_run": "other"})
    assert mean.mean([one, two], out)["training_run"] == "mean of smoke and other"
    for name, t in weights.read(out)[0].items():
        torch.testing.assert_close(t, (tensors[name].float() + 0.5).half(), atol=2e-3, rtol=2e-3)
    weights.save(tensors, two, {**meta, "enc_depth": "3"})
    with pytest.raises(ValueError, match="want those of"):
        mean.mean([one, two], out)


def test_low_precision_weights_follow_the_masters(tmp_path):
    """What a GPU does: bfloat16 weights and gradients, float32 masters."""
    config = train.load_config(CONFIG, [])
    full, half = (train.Trainer(config, train.World("cpu"), tmp_path, []) for _ in range(2))
    half.graphed = True
    half._split_precision()
    batch = full.source.next((64, 48, 4), torch.tensor(0.5))
    grads = []
    for trainer in (full, half):
        trainer.source.rng.generator.manual_seed(5)
        trainer.temperature.fill_(0.1)
        trainer._learn(batch)
        grads.append(torch.cat([trainer.masters[name].grad.flatten() for name in full.masters]))
    assert torch.nn.functional.cosine_similarity(*grads, dim=0) > 0.99
    kinds = {name: p.dtype for name, p in half.net.named_parameters()}
    assert kinds["enc_blocks.0.attn.qkv.weight"] == torch.bfloat16
    assert kinds["enc_norm.weight"] == torch.float32
    assert kinds["downstream_head1.head_local_features.fc2.weight"] == torch.float32
    with torch.no_grad():
        for p in half.masters.values():
            p.add_(0.123)
    half._publish()
    for name, p in half.net.named_parameters():
        assert torch.equal(p, half.masters[name].to(p.dtype))


def test_evaluation_runs_on_the_result(trained, capsys, monkeypatch):
    weights.merge_parts(trained / "out", trained / "model.safetensors")
    pictures = trained / "pictures"
    pictures.mkdir()
    rng = np.random.default_rng(0)
    for name in ("china.jpg", "flower.jpg", "motorcycle_left.png"):
        Image.fromarray(rng.integers(0, 255, (90, 120, 3), np.uint8)).save(pictures / name)
    monkeypatch.setattr(evaluation, "SETS", {"near": evaluation.SETS["near"]})
    monkeypatch.setattr(evaluate.photographs, "SECTIONS", {"two": ("two",)})  # the real ones need OpenCV
    monkeypatch.setattr(evaluate.photographs, "pairs_module", lambda: None)
    monkeypatch.setattr(evaluate.photographs, "measure", lambda run, *_: {"zoom x3": {"raw_p3": 0.5}})
    monkeypatch.setattr(
        evaluation, "Textures", lambda rng, count, size, photos: scenes.Textures(rng, 16, 32, photos)
    )
    command = ["evaluate.py", str(trained / "model.safetensors"), "--pictures", str(pictures), "--pairs", "1"]
    monkeypatch.setattr("sys.argv", [*command, "--json", str(trained / "figures.json")])
    evaluate.main()
    out = capsys.readouterr()
    assert "synthetic near 256x192        mutual" not in out.out and "MISSED" in out.out
    assert "motorcycle 256x176: left out" in out.err and "not measured" in out.out
    figures = json.loads((trained / "figures.json").read_text())
    assert set(figures) == {
        "synthetic near 256x192", "no overlap 256x176", "identity 256x176", "512: zoom x3",
    }  # fmt: skip
    assert "512: zoom x3             raw_p3         0.500 >= 0.90  MISSED" in out.out
    assert 0 <= figures["synthetic near 256x192"]["same_pixel"] <= 1


def test_the_file_says_what_the_pairs_were_made_of():
    """With and without meshes and photographs, whatever the configuration is called."""
    config = train.load_config(CONFIG, ["photographs=0.3", "picture_size=64"])
    config = replace(config, scenes={"furniture": {"meshes": 0.5}})
    box = test_meshes.pack(test_meshes.cube(), test_meshes.cube())
    device, photo = torch.device("cpu"), torch.rand(3, 40, 60)
    with_all = train.Source(config, 0, device, [], 0, box, [photo])
    assert "2 CC0 meshes" in train.data_used(with_all) and "whole pictures" in train.data_used(with_all)
    plain = replace(config, scenes={}, photographs=0.0)
    said = train.data_used(train.Source(plain, 0, device, [], 0, box))
    assert "meshes" not in said and "whole" not in said and "procedural" in said


def test_no_overlap_pairs_have_no_matches():
    config = train.load_config(CONFIG, ["no_overlap=0.5"])
    source = train.Source(config, 0, torch.device("cpu"), [], 0)
    images, points, match, both, pose = source.next((64, 48, 4), torch.tensor(1.0))
    assert pose.shape == (4, 12)
    assert both.tolist() == [True, True, False, False]
    assert (match[2:] == -1).all() and (match[:2] >= 0).any()
    assert torch.equal(images[2:, 1], images[:2, 1]) and points.shape == (4, 2, 48, 64, 3)


def test_all_kinds_of_scenes_train(tmp_path):
    """Every share and every term of the third run at once."""
    third = train.load_config(str(Path(CONFIG).parent / "third.toml"), [])
    config = train.load_config(CONFIG, ["max_steps=2", "overlap=0.003", "hard=0.1"])
    shown, loss = third.scenes | {"facades": 3}, third.loss | {"samples": 64, "found": 16}
    config = replace(config, cameras=third.cameras, scenes=shown, loss=loss)
    train.run(config, arguments(tmp_path))
    rows = [json.loads(line) for line in (tmp_path / "out/log.jsonl").read_text().splitlines()]
    assert len(rows) == 2 and all(math.isfinite(v) for r in rows for v in r.values())
    assert all(r["rays"] > 0 and r["pose"] > 0 for r in rows)


def test_schedule():
    config = train.load_config(CONFIG, ["warmup=10", "lr=1.0", "lr_end=0.01"])
    assert train.schedule(config, 0, 0.0) == pytest.approx(0.1)
    assert train.schedule(config, 50, 0.0) == pytest.approx(1.0)
    assert train.schedule(config, 50, 0.5) == pytest.approx(0.505)
    assert train.schedule(config, 50, 1.0) == pytest.approx(0.01)


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="unknown settings"):
        train.load_config(CONFIG, ["learning_rate=1"])
    with pytest.raises(ValueError, match="shapes"):
        train.load_config(CONFIG, ["shape_weights=[0.5, 0.5]"])


@pytest.mark.parametrize("path", sorted(Path(CONFIG).parent.glob("*.toml")), ids=lambda p: p.stem)
def test_every_configuration_means_something(path):
    """A misspelt setting would be found only on the machine with the GPUs."""
    config = train.load_config(str(path), [])
    assert config.name == path.stem
    mix = scenes.CameraMix(reach=1.0, **config.cameras)
    assert mix.stereo + mix.orbit + mix.forward + mix.turn < 1
    shown = scene_mix(config.scenes)
    assert shown.outdoor + shown.table < 1 and shown.facades < config.textures
    assert all(w % 16 == 0 and h % 16 == 0 and b > 0 for w, h, b in config.shapes)
    train.LossWeights(**config.loss)
    train.Dims.from_dict(config.model)
