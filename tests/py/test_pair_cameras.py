# SPDX-License-Identifier: Apache-2.0
"""Cameras of a pair: pose, conventions, given and estimated intrinsics (T12, T26, T27, T28)."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import mast3r_runtime as m3r
from mast3r_runtime import errors, geometry
from mast3r_runtime.backends._cpu import CPUEngine

K = np.array([[700.0, 0, 325], [0, 710, 236], [0, 0, 1]])


def turned(w: tuple[float, float, float]) -> np.ndarray:
    angle = np.linalg.norm(w)
    x, y, z = np.array(w) / angle
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * skew + (1 - np.cos(angle)) * skew @ skew


@pytest.fixture
def views(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """300 points, camera 2 moved and turned: exact pixels in both."""
    r, t = turned((0.05, -0.2, 0.1)), np.array([0.8, 0.1, -0.3])
    points = rng.uniform((-2, -1.4, 4), (2, 1.4, 8), (300, 3))  # in camera 1
    other = (points - t) @ r  # X1 = R X2 + t
    one, two = points @ K.T, other @ K.T
    return {
        "r": r, "t": t, "points": points, "other": other,
        "xy_1": one[:, :2] / one[:, 2:], "xy_2": two[:, :2] / two[:, 2:],
    }  # fmt: skip


def test_convention(views: dict[str, np.ndarray]) -> None:
    """T28: cam2 to cam1, X1 = R X2 + t on numbers, det R = +1, |t| = 1."""
    found = geometry.relative_pose(views["xy_1"], views["xy_2"], K, K, depth=views["points"][:, 2])
    assert found.pose is not None and found.reason == ""
    r, t = found.pose[:3, :3], found.pose[:3, 3]
    assert np.isclose(np.linalg.det(r), 1, atol=1e-12) and np.isclose(np.linalg.norm(t), 1)
    np.testing.assert_array_equal(found.pose[3], (0, 0, 0, 1))
    length = np.linalg.norm(views["t"])
    np.testing.assert_allclose(r, views["r"], atol=1e-6)
    np.testing.assert_allclose(t * length, views["t"], atol=1e-5)
    i = found.inliers
    assert len(i) == 300 and found.rms < 1e-6 and found.covariance.shape == (6, 6)
    np.testing.assert_allclose(found.points * length, views["points"][i], rtol=1e-3)
    assert found.scale == pytest.approx(length, rel=1e-4) and found.scale_source == "network"
    assert any("guess" in w for w in found.warnings)
    moved = views["other"] @ found.metric_pose[:3, :3].T + found.metric_pose[:3, 3]
    np.testing.assert_allclose(moved, views["points"], atol=1e-3)


def test_estimators_agree(views: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    """The well-kept libraries, where they are installed, and our own: to a tenth of a degree."""
    xy_2 = views["xy_2"] + rng.normal(0, 0.3, views["xy_2"].shape)
    xy_2[::4] = rng.uniform(0, 640, xy_2[::4].shape)
    own = geometry.relative_pose(views["xy_1"], xy_2, K, K, sigma=0.3, estimator="geometry")
    assert own.pose is not None and own.estimator == "geometry" and 200 < len(own.inliers) < 240
    assert np.abs(own.pose[:3, :3] - views["r"]).max() < 3 * np.radians(own.turn_interval) + 1e-4
    for name in ("poselib", "pycolmap"):
        if importlib.util.find_spec(name) is None:
            with pytest.raises(errors.DependencyError, match=f"pip install {name}"):
                geometry.relative_pose(views["xy_1"], xy_2, K, K, estimator=name)
            continue
        other = geometry.relative_pose(views["xy_1"], xy_2, K, K, sigma=0.3, estimator=name)
        assert other.pose is not None and other.estimator == name
        np.testing.assert_allclose(other.pose, own.pose, atol=2e-3)


def test_dense_matches_tell_less(rng: np.random.Generator) -> None:
    """What a match counts for is what patches of the same noise say when they are laid over it."""
    assert geometry.dependence(np.zeros((0, 2))) == 1.0
    x, y = np.meshgrid(np.arange(20.0), np.arange(20.0))
    grid = np.stack([x, y], -1).reshape(-1, 2)
    assert abs(geometry.dependence(100 * grid) - 1) < 1e-9
    assert abs(geometry.dependence(np.zeros((50, 2))) - 50) < 1e-6
    # of many matches some are asked, and stand for all: those inside a grid count for 4 pi sigma^2 / 8^2
    x, y = np.meshgrid(np.arange(60.0), np.arange(60.0))
    many = geometry.dependence(8 * np.stack([x, y], -1).reshape(-1, 2))
    assert abs(many / (4 * np.pi * 5**2 / 8**2) - 1) < 0.05
    # the variance of a mean of Gaussian means of white noise, against that of as many independent ones
    noise = rng.normal(size=(4000, 96 + 60))
    at = np.arange(-30, 31)
    weights = np.exp(-(at**2) / 50.0)
    smooth = np.stack([np.convolve(row, weights, "valid") for row in noise])
    line = np.arange(0, 96, 8)
    means = smooth[:, line]
    seen = means.mean(1).var() / (means.var(0).mean() / len(line))
    assert abs(geometry.dependence(np.stack([line, 0 * line], 1)) / seen - 1) < 0.1


def test_unknown_focal_length(views: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    wrong = K.copy()
    wrong[:2, :2] *= 1.15
    xy_2 = views["xy_2"] + rng.normal(0, 0.2, views["xy_2"].shape)
    found = geometry.relative_pose(
        views["xy_1"], xy_2, wrong, wrong, sigma=0.2, focal_sigma=(0.22, 0.22), shared_focal=True
    )
    assert found.pose is not None and found.intrinsics_source == "estimated"
    ratio = found.intrinsics_1[0, 0] / 700
    assert abs(np.log(ratio)) < 3 * found.focal_sigma[0] < 0.3
    assert found.intrinsics_1[0, 0] / found.intrinsics_2[0, 0] == pytest.approx(1)
    known = geometry.relative_pose(views["xy_1"], xy_2, K, K, sigma=0.2)
    np.testing.assert_array_equal(known.intrinsics_1, K)
    assert known.focal_sigma == (0, 0) and known.intrinsics_source == "given"


def test_turn_only(views: dict[str, np.ndarray]) -> None:
    still = views["points"] @ views["r"]
    xy_2 = (still @ K.T)[:, :2] / still[:, 2:]
    found = geometry.relative_pose(views["xy_1"], xy_2, K, K)
    assert found.pose is not None and found.turn_only
    np.testing.assert_allclose(found.pose[:3, :3], views["r"], atol=1e-6)
    assert not found.pose[:3, 3].any() and found.points.shape == (0, 3) and found.scale is None
    assert any("only turned" in w for w in found.warnings)
    same = geometry.relative_pose(views["xy_1"], views["xy_1"], K, K)  # T11
    assert same.pose is not None and same.turn_only
    np.testing.assert_allclose(same.pose, np.eye(4), atol=1e-9)


def test_no_pose() -> None:
    """T12: nothing in common is no exception."""
    found = geometry.relative_pose(np.zeros((0, 2)), np.zeros((0, 2)), K, K)
    assert found.pose is None and found.reason == "too few matches" and found.metric_pose is None
    assert found.inliers.shape == (0,) and found.points.shape == (0, 3)


@pytest.mark.parametrize(
    "wrong", [np.eye(4), np.full((3, 3), np.nan), -np.eye(3), np.diag([700.0, 0, 1]), np.diag([1.0, 1, 2])]
)
def test_wrong_intrinsics(views: dict[str, np.ndarray], wrong: np.ndarray) -> None:
    """T27."""
    with pytest.raises(ValueError, match=r"intrinsics|focal"):
        geometry.relative_pose(views["xy_1"], views["xy_2"], wrong, K)
    with pytest.raises(ValueError, match=r"intrinsics|focal"):
        geometry.relative_pose(views["xy_1"], views["xy_2"], K, wrong)


def test_wrong_arguments(views: dict[str, np.ndarray]) -> None:
    good = {"xy_1": views["xy_1"], "xy_2": views["xy_2"], "intrinsics_1": K, "intrinsics_2": K}
    for wrong, kind in (
        ({"xy_1": views["xy_1"][1:]}, errors.ShapeError),
        ({"covariance": np.ones((3, 2, 2))}, errors.ShapeError),
        ({"depth": np.ones(3)}, errors.ShapeError),
        ({"tolerance": -1.0}, errors.ShapeError),
        ({"focal_sigma": (np.nan, 0)}, errors.ShapeError),
        ({"estimator": "magic"}, errors.ArgumentError),
        ({"estimator": "poselib", "focal_sigma": (0.2, 0.2)}, errors.ArgumentError),
    ):
        with pytest.raises(kind):
            geometry.relative_pose(**{**good, **wrong})


@pytest.fixture(scope="module")
def tiny() -> CPUEngine:
    """The model in the wheel at 256."""
    with CPUEngine("auto", resolution=256, num_threads=2) as engine:
        engine.load()
        yield engine


def test_unrelated_pictures(tiny: CPUEngine) -> None:
    """T12: next to no match, no pose, a verdict, no exception."""
    from PIL import Image

    pictures = m3r.__path__[0] + "/pictures/"
    one = np.asarray(Image.open(pictures + "coffee.png").convert("RGB"))
    two = np.random.default_rng(3).integers(0, 256, (300, 400, 3), np.uint8)
    result = tiny.infer_gpu(one, two)
    matches = tiny.match(result, top_k=None)
    assert matches.overlap is not None and matches.overlap.verdict == "NO" and not matches.overlap
    assert matches.pts2d_1.shape[1] == 2 and matches.original_1.dtype == np.float64
    cameras = result.cameras(matches)
    assert cameras.pose is None and cameras.reason
    empty = tiny.match(result, confidence_threshold=2.0)
    assert len(empty) == 0 and empty.original_2.shape == (0, 2) and empty.covariance.shape == (0, 2, 2)
    assert result.cameras(empty).reason == "too few matches"


def test_a_pair(tiny: CPUEngine) -> None:
    """The room that ships with the package: its exact cameras, K given and not."""
    from mast3r_runtime._commands import demo

    pair = next(p for p in demo.pairs() if p.name == "room")
    result = tiny.infer_gpu(pair.image_1, pair.image_2)
    k = np.array([[430.0, 0, 255.5], [0, 430.0, 191.5], [0, 0, 1]])
    found = tiny.relative_pose(result, intrinsics_1=k, intrinsics_2=k)
    assert found.pose is not None and found.intrinsics_source == "given"
    np.testing.assert_array_equal(found.intrinsics_1, k)
    assert found.turn_interval < 1 and found.direction_interval < 5 and found.scale is not None
    free = result.cameras()
    assert free.pose is not None and free.intrinsics_source == "network"
    assert abs(np.log(free.intrinsics_1[0, 0] / 430)) < 0.25 and free.focal_sigma[0] > 0
    turn = found.pose[:3, :3] @ free.pose[:3, :3].T
    assert np.degrees(np.arccos((np.trace(turn) - 1) / 2)) < 2
    exif = tiny.relative_pose(result, focal_1=430.0)
    assert exif.intrinsics_source == "exif" and abs(exif.intrinsics_1[0, 0] / 430 - 1) < 0.12
    with pytest.raises(ValueError, match="focal length -3"):
        result.cameras(focal_1=-3.0)


def test_maps_at_original_pixels(tiny: CPUEngine, rng: np.random.Generator) -> None:
    picture = rng.integers(0, 256, (200, 333, 3), np.uint8)
    result = tiny.infer_gpu(picture, picture[:, :300])
    way = result.transform_1
    conf = result.at_original("conf_1")
    assert conf.shape == (200, 333) and conf.dtype == np.float32
    xs, ys = np.meshgrid(np.arange(333), np.arange(200))
    places = way.to_network(np.stack([xs, ys], -1))
    inside = (places > -0.5).all(-1) & (places < (way.width - 0.5, way.height - 0.5)).all(-1)
    np.testing.assert_array_equal(np.isfinite(conf), inside)
    values = result.conf_1.numpy()
    y, x = 100, 160
    u, v = np.clip(places[y, x], 0, (way.width - 1, way.height - 1))
    i, j = int(v), int(u)
    a, b = v - i, u - j
    want = (1 - a) * ((1 - b) * values[i, j] + b * values[i, j + 1]) + a * (
        (1 - b) * values[i + 1, j] + b * values[i + 1, j + 1]
    )
    assert conf[y, x] == pytest.approx(want, rel=1e-4)
    points, depth = result.numpy().at_original("pts3d_2"), result.numpy().at_original("depth_2")
    assert points.shape == (200, 300, 3)
    np.testing.assert_array_equal(points[:, :, 2], depth)
    with pytest.raises(errors.ArgumentError, match="want pts3d_1"):
        result.at_original("colour_1")


def test_exif_focal(tmp_path) -> None:
    from PIL import Image

    picture = Image.new("RGB", (400, 300))
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0xA405] = 28
    picture.save(tmp_path / "phone.jpg", exif=exif)
    picture.save(tmp_path / "plain.jpg")
    assert geometry.exif_focal(tmp_path / "phone.jpg") == pytest.approx(28 * 500 / np.hypot(36, 24))
    assert geometry.exif_focal(tmp_path / "plain.jpg") is None
