# SPDX-License-Identifier: Apache-2.0
"""The PyTorch network against the golden outputs of the reference."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from mast3r_torch import weights
from mast3r_torch.model import Dims, Mast3r, init_weights, upsample

TOLERANCE = 1e-5  # golden.md: what a float32 implementation stays below


def rel(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def outputs(view, suffix: str) -> dict[str, torch.Tensor]:
    points = "pts3d" if suffix == "1" else "pts3d_in_other_view"
    return {
        f"pred{suffix}.{points}": view.pts3d,
        f"pred{suffix}.conf": view.conf,
        f"pred{suffix}.desc": view.desc,
        f"pred{suffix}.desc_conf": view.desc_conf,
    }


@pytest.mark.parametrize("case", ["landscape", "portrait", "square", "batch"])
def test_micro(shared, case):
    net, _ = weights.load(shared / "golden/mast3r_micro/unified.safetensors")
    want = load_file(shared / f"golden/mast3r_micro/{case}.safetensors")
    with torch.no_grad():
        view1, view2 = net(want["in.img1"], want["in.img2"])
    for name, got in {**outputs(view1, "1"), **outputs(view2, "2")}.items():
        assert rel(got, want[name]) < TOLERANCE, name


def test_mini_with_real_head_dimensions(shared, tmp_path):
    golden = shared / "golden"
    subprocess.run([sys.executable, golden / "synth.py", "weights", "mast3r_mini", tmp_path], check=True)
    (file,) = tmp_path.rglob("*.safetensors")
    net, _ = weights.load(file)
    want = load_file(golden / "fullsize/mast3r_mini_96x64.safetensors")
    import numpy as np
    from PIL import Image

    images = [
        torch.from_numpy(
            np.array(Image.open(golden / f"fullsize/96x64_view{i}.png").convert("RGB"), np.float32)
        )
        for i in (1, 2)
    ]
    images = [(x / 255 - 0.5)[None].permute(0, 3, 1, 2) / 0.5 for x in images]
    with torch.no_grad():
        view1, view2 = net(*images)
    for name, got in {**outputs(view1, "1"), **outputs(view2, "2")}.items():
        assert rel(got[:, ::3, ::3], want[name]) < TOLERANCE, name


def spec_weights(net: Mast3r) -> dict[str, torch.Tensor]:
    """The weight formula of network.md 21, vectorised."""
    import numpy as np

    def draw(name: str, count: int) -> np.ndarray:
        with np.errstate(over="ignore"):
            seed = np.uint64(0xCBF29CE484222325)
            for byte in name.encode():
                seed = (seed ^ np.uint64(byte)) * np.uint64(0x100000001B3)
            z = seed + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
        return (z >> np.uint64(40)).astype(np.float64) / 2**23 - 1

    state = {}
    for name, t in net.state_dict().items():
        r = draw(name, t.numel())
        if name.endswith(".weight") and t.ndim == 1:
            r = 1 + 0.1 * r
        elif name.endswith(".weight"):
            transposed = "act_postprocess.0.1" in name or "act_postprocess.1.1" in name
            fan = t.shape[0] if transposed else t[0].numel()
            r = r * (3 / fan) ** 0.5 * (0.1 if name.endswith("dpt.head.4.weight") else 1)
        else:
            r = 0.05 * r
        state[name] = torch.from_numpy(r.astype(np.float32)).reshape(t.shape)
    state["image1"] = torch.from_numpy(draw("image1", 3 * 48 * 80).astype(np.float32)).reshape(1, 3, 48, 80)
    state["image2"] = torch.from_numpy(draw("image2", 3 * 64 * 48).astype(np.float32)).reshape(1, 3, 64, 48)
    return state


def test_tiny_with_views_of_unequal_size(shared):
    dims = Dims(
        enc_dim=128, enc_depth=2, enc_heads=2, dec_dim=128, dec_depth=12, dec_heads=2,
        dpt_feature_dim=256, dpt_last_dim=128, dpt_layer_dims=(96, 192, 384, 768), local_hidden=1024,
    )  # fmt: skip
    net = Mast3r(dims).eval()
    state = spec_weights(net)
    images = state.pop("image1"), state.pop("image2")
    net.load_state_dict(state)
    want = load_file(shared / "golden/tiny/mast3r_tiny.safetensors")
    with torch.no_grad():
        views = net(*images)
    for i, view in enumerate(views, 1):
        for name in ("pts3d", "conf", "desc", "desc_conf"):
            got = getattr(view, name)[0]
            assert rel(got, want[f"{name}{i}"].reshape(got.shape)) < TOLERANCE, f"{name}{i}"


def test_gradient_of_upsampling():
    """The backward pass is two products instead of PyTorch's own."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, 7, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: upsample(x, (9, 14)), (x,))
    assert torch.equal(upsample(x, (9, 14)), upsample(x.detach(), (9, 14)))


def test_file_round_trip(tmp_path):
    dims = Dims(enc_dim=32, enc_depth=1, enc_heads=2, dec_dim=32, dec_depth=4, dec_heads=2, local_hidden=16,
                dpt_feature_dim=8, dpt_last_dim=4, dpt_layer_dims=(4, 4, 8, 8))  # fmt: skip
    torch.manual_seed(0)
    net = Mast3r(dims)
    init_weights(net)
    meta = weights.dims_metadata(dims) | {"variant": "test"}
    weights.save_parts(net.state_dict(), tmp_path, meta)
    merged = weights.merge_parts(tmp_path, tmp_path / "unified.safetensors", {"note": "joined"})
    assert merged["variant"] == "test" and merged["note"] == "joined" and "parts" not in merged
    again, meta2 = weights.load(tmp_path / "unified.safetensors")
    assert again.dims == dims and meta2["dpt_hooks"] == "0,2,3,4"
    for name, t in net.state_dict().items():
        assert torch.equal(t.half().float(), again.state_dict()[name]), name


def test_lost_part_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "PART_BYTES", 1 << 20)
    dims = Dims(enc_depth=1, dec_depth=4, local_hidden=8)
    net = Mast3r(dims)
    paths = weights.save_parts(net.state_dict(), tmp_path, weights.dims_metadata(dims))
    assert len(paths) > 1
    paths[0].unlink()
    with pytest.raises(ValueError, match="parts"):
        weights.merge_parts(tmp_path, tmp_path / "out.safetensors")


def test_wrong_input_is_an_error():
    net = Mast3r(Dims(enc_depth=1, dec_depth=4, local_hidden=8))
    with pytest.raises(ValueError, match="multiples of 16"):
        net.encode(torch.zeros(1, 3, 40, 48))
    with pytest.raises(ValueError, match="unknown dimensions"):
        Dims.from_dict({"enc_width": 1})
    with pytest.raises(ValueError, match="heads"):
        Dims(enc_dim=30, enc_heads=4)
