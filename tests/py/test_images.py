# SPDX-License-Identifier: Apache-2.0
"""What users bring as a picture, and the 8-bit RGB it becomes."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mast3r_runtime import errors, read_image
from mast3r_runtime.images import as_rgb


@pytest.fixture
def photo(rng: np.random.Generator) -> np.ndarray:
    """A smooth picture, 24 x 36: JPEG hardly changes it."""
    coarse = rng.integers(0, 256, (4, 6, 3), np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((36, 24), Image.Resampling.BICUBIC))


def encoded(picture: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


# The value of EXIF tag 0x0112 and the operation that stores an upright picture that way.
STORED = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, 1),
    7: lambda a: np.rot90(a.swapaxes(0, 1), 2),
    8: lambda a: np.rot90(a, -1),
}


@pytest.mark.parametrize("portrait", [False, True], ids=["landscape", "portrait"])
@pytest.mark.parametrize("orientation", STORED)
def test_exif_turns_files(photo: np.ndarray, orientation: int, portrait: bool, tmp_path: Path) -> None:
    upright = np.rot90(photo) if portrait else photo
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](upright)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    png = encoded(stored, "PNG", exif=exif)
    np.testing.assert_array_equal(read_image(png), upright)
    jpeg = tmp_path / f"{orientation}.jpg"
    stored.save(jpeg, quality=95, subsampling=0, exif=exif)
    got = read_image(jpeg)
    assert got.shape == upright.shape
    assert np.abs(got.astype(int) - upright).mean() < 6


@pytest.mark.parametrize("orientation", STORED)
def test_exif_leaves_arrays_and_pil(photo: np.ndarray, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = Image.open(io.BytesIO(encoded(Image.fromarray(photo), "PNG", exif=exif)))
    np.testing.assert_array_equal(read_image(picture), photo)
    np.testing.assert_array_equal(read_image(np.asarray(picture)), photo)


def over_white(rgba: np.ndarray) -> np.ndarray:
    colour, alpha = rgba[..., :-1].astype(float), rgba[..., -1:].astype(float) / 255
    return np.floor(colour * alpha + 255 * (1 - alpha) + 0.5).astype(np.uint8)


def three(grey: np.ndarray) -> np.ndarray:
    return np.repeat(grey[..., None] if grey.ndim == 2 else grey, 3, axis=2)


def test_modes_of_arrays(rng: np.random.Generator) -> None:
    grey = rng.integers(0, 256, (9, 7), np.uint8)
    np.testing.assert_array_equal(read_image(grey), three(grey))
    np.testing.assert_array_equal(read_image(grey[..., None]), three(grey))
    la = rng.integers(0, 256, (9, 7, 2), np.uint8)
    np.testing.assert_array_equal(read_image(la), three(over_white(la)))
    rgba = rng.integers(0, 256, (9, 7, 4), np.uint8)
    np.testing.assert_array_equal(read_image(rgba), over_white(rgba))
    flag = grey > 100
    np.testing.assert_array_equal(read_image(flag), three(flag.astype(np.uint8) * 255))


@pytest.mark.parametrize("order", ["<", ">"])
def test_sixteen_bit_arrays(rng: np.random.Generator, order: str) -> None:
    values = rng.integers(0, 65536, (9, 7, 3)).astype(order + "u2")
    values[0, 0] = 0, 65535, 128  # 128 / 257 rounds to 0, 129 / 257 to 1
    want = np.floor(values.astype(float) / 257 + 0.5).astype(np.uint8)
    np.testing.assert_array_equal(read_image(values), want)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_float_arrays(dtype: type) -> None:
    values = np.linspace(0, 1, 256).reshape(16, 16).astype(dtype)
    want = np.rint(values.astype(float) * 255).astype(np.uint8)
    np.testing.assert_array_equal(read_image(values), three(want))


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(0.0, 255.0, ["0", "255", "[0, 1]"]), (-0.5, 0.5, ["-0.5", "0.5"]), (0.0, 1.01, ["1.01"])],
)
def test_floats_out_of_range(low: float, high: float, words: list[str]) -> None:
    values = np.linspace(low, high, 27, dtype=np.float32).reshape(3, 3, 3)
    with pytest.raises(ValueError) as caught:
        read_image(values)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_floats_not_finite(bad: float) -> None:
    values = np.zeros((4, 4, 3), np.float32)
    values[1, 2, 0] = bad
    with pytest.raises(errors.ImageError, match="finite"):
        read_image(values)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((4, 4, 5), "HWC expected, got (4, 4, 5)"),
        ((3, 40, 50), "HWC expected, got (3, 40, 50), which looks like CHW"),
        ((1, 40, 50), "which looks like CHW"),
        ((2, 4, 4, 3), "HWC expected, got (2, 4, 4, 3)"),
        ((12,), "HWC expected, got (12,)"),
        ((0, 4, 3), "empty"),
        ((4, 0), "empty"),
        ((), "HWC expected, got ()"),
    ],
)
def test_wrong_shapes(shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_image(np.zeros(shape, np.uint8))
    assert words in str(caught.value)
    assert isinstance(caught.value, errors.ImageError)


@pytest.mark.parametrize("dtype", [object, np.int64, np.int8, np.uint32, np.complex64, "S3", "M8[s]"])
def test_wrong_element_types(dtype: object) -> None:
    with pytest.raises(TypeError, match="want uint8, uint16, bool or float"):
        read_image(np.zeros((4, 4, 3)).astype(dtype))


@pytest.mark.parametrize("thing", [None, 5, {"a": 1}, object()])
def test_things_that_are_no_picture(thing: object) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        read_image(thing)  # type: ignore[arg-type]
    assert isinstance(caught.value, errors.ImageError)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "strided": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "mirrored": lambda a: np.ascontiguousarray(a[:, ::-1])[:, ::-1],
    "upside down": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "bgr view": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
    "fortran": np.asfortranarray,
    "planes": lambda a: np.ascontiguousarray(a.transpose(2, 0, 1)).transpose(1, 2, 0),
    "cropped": lambda a: np.pad(a, ((2, 2), (3, 3), (0, 0)))[2:-2, 3:-3],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(photo: np.ndarray, layout: str) -> None:
    array = LAYOUTS[layout](photo)
    array.flags.writeable = False  # an input is never written to
    got = read_image(array)
    np.testing.assert_array_equal(got, photo)
    assert got.flags.c_contiguous


def test_memory_mapped(photo: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "photo.npy", photo)
    mapped = np.load(tmp_path / "photo.npy", mmap_mode="r")
    np.testing.assert_array_equal(read_image(mapped), photo)


def test_no_copy_where_none_is_needed(photo: np.ndarray) -> None:
    assert np.shares_memory(read_image(photo), photo)


def test_other_arrays(photo: np.ndarray) -> None:
    class Interface:
        __array_interface__ = photo.__array_interface__

    class Convertible:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return photo

    class Capsule:
        def __dlpack__(self, **options: object) -> object:
            return photo.copy().__dlpack__(**options)  # older numpy exports no read-only arrays

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    for thing in (Interface(), Convertible(), Capsule(), photo.view(np.recarray)):
        np.testing.assert_array_equal(read_image(thing), photo)  # type: ignore[arg-type]


def test_modes_of_files(photo: np.ndarray, rng: np.random.Generator) -> None:
    picture = Image.fromarray(photo)
    alpha = rng.integers(0, 256, photo.shape[:2], np.uint8)
    rgba = np.dstack([photo, alpha])
    np.testing.assert_array_equal(read_image(encoded(Image.fromarray(rgba), "PNG")), over_white(rgba))
    grey = np.asarray(picture.convert("L"))
    np.testing.assert_array_equal(read_image(encoded(Image.fromarray(grey), "PNG")), three(grey))
    la = np.dstack([grey, alpha])
    np.testing.assert_array_equal(read_image(encoded(Image.fromarray(la), "PNG")), three(over_white(la)))
    bits = picture.convert("1")
    want = three(np.asarray(bits).astype(np.uint8) * 255)
    np.testing.assert_array_equal(read_image(encoded(bits, "PNG")), want)
    palette = picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=16)
    np.testing.assert_array_equal(read_image(encoded(palette, "PNG")), np.asarray(palette.convert("RGB")))


def test_palette_with_transparency(photo: np.ndarray) -> None:
    palette = Image.fromarray(photo).convert("P", palette=Image.Palette.ADAPTIVE, colors=4)
    index = np.asarray(palette)
    got = read_image(encoded(palette, "PNG", transparency=2))
    want = np.asarray(palette.convert("RGB")).copy()
    want[index == 2] = 255
    assert (index == 2).any()
    np.testing.assert_array_equal(got, want)


def test_colour_key_transparency(photo: np.ndarray) -> None:
    key = tuple(int(v) for v in photo[3, 4])
    got = read_image(encoded(Image.fromarray(photo), "PNG", transparency=key))
    want = photo.copy()
    want[(photo == key).all(2)] = 255
    np.testing.assert_array_equal(got, want)


def test_cmyk_jpeg(photo: np.ndarray) -> None:
    jpeg = encoded(Image.fromarray(photo).convert("CMYK"), "JPEG", quality=95)
    want = np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"))
    np.testing.assert_array_equal(read_image(jpeg), want)


@pytest.mark.parametrize("order", ["<", ">"])
def test_sixteen_bit_grey_files(rng: np.random.Generator, order: str) -> None:
    values = rng.integers(0, 65536, (9, 7)).astype("<u2")
    want = three(np.floor(values / 257 + 0.5).astype(np.uint8))
    if order == "<":
        np.testing.assert_array_equal(read_image(encoded(Image.fromarray(values), "PNG")), want)
    mode = "I;16" if order == "<" else "I;16B"
    picture = Image.frombytes(mode, (7, 9), values.astype(order + "u2").tobytes())
    np.testing.assert_array_equal(read_image(picture), want)


def test_wide_integer_pictures() -> None:
    good = Image.fromarray(np.array([[0, 65535]], np.int32))
    np.testing.assert_array_equal(read_image(good), [[[0] * 3, [255] * 3]])
    with pytest.raises(errors.ImageError, match="from 0 to 70000"):
        read_image(Image.fromarray(np.array([[0, 70000]], np.int32)))


def test_float_pictures() -> None:
    good = Image.fromarray(np.array([[0.0, 1.0]], np.float32))
    np.testing.assert_array_equal(read_image(good), [[[0] * 3, [255] * 3]])
    with pytest.raises(errors.ImageError, match="255"):
        read_image(Image.fromarray(np.array([[0.0, 255.0]], np.float32)))


def test_ways_to_name_a_file(photo: np.ndarray, tmp_path: Path) -> None:
    folder = tmp_path / "with space and ümlaut 漢字"
    folder.mkdir()
    path = folder / "photo.png"
    Image.fromarray(photo).save(path)
    with open(path, "rb") as file:
        np.testing.assert_array_equal(read_image(file), photo)
    for source in (
        path,
        str(path),
        path.read_bytes(),
        bytearray(path.read_bytes()),
        io.BytesIO(path.read_bytes()),
    ):
        np.testing.assert_array_equal(read_image(source), photo)


def truncated_jpeg(photo: np.ndarray) -> bytes:
    data = encoded(Image.fromarray(photo), "JPEG")
    return data[: len(data) * 2 // 3]


def bad_crc_png(photo: np.ndarray) -> bytes:
    data = bytearray(encoded(Image.fromarray(photo), "PNG"))
    at = data.index(b"IHDR") + 17  # the header chunk's checksum
    data[at] ^= 0xFF
    return bytes(data)


BROKEN: dict[str, Callable[[np.ndarray], bytes]] = {
    "truncated": truncated_jpeg,
    "crc": bad_crc_png,
    "empty": lambda photo: b"",
    "text": lambda photo: b"This is not a picture.\n" * 10,
    "zeros": lambda photo: bytes(5000),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files(photo: np.ndarray, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "broken file.jpg"
    path.write_bytes(BROKEN[kind](photo))
    with pytest.raises(errors.ImageError, match="broken file.jpg"):
        read_image(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere.png"):
        read_image(tmp_path / "nowhere.png")
    with pytest.raises(errors.ImageError, match="a folder, want a file"):
        read_image(tmp_path)
    with pytest.raises(errors.ImageError):
        read_image("a\0b.png")


def test_decompression_bomb(tmp_path: Path) -> None:
    """20000 x 20000 in a header: refused by Pillow's guard, nothing of that size allocated."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 20000, 20000, 8, 2, 0, 0, 0)
    path = tmp_path / "bomb.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")))
    with pytest.raises(errors.ImageError, match="bomb.png.*exceeds limit"):
        read_image(path)


@pytest.mark.filterwarnings("ignore")  # Pillow warns of odd metadata and large sizes
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "TIFF", "WEBP"])
def test_damaged_bytes_are_an_error_or_a_picture(
    photo: np.ndarray, kind: str, rng: np.random.Generator
) -> None:
    """Whatever a decoder makes of damaged bytes: a picture, or our error; nothing else comes out."""
    good = encoded(Image.fromarray(photo), kind)
    refused = 0
    for _ in range(60):
        data = bytearray(good)
        for at in rng.integers(0, len(data), 4):
            data[at] = rng.integers(256)
        try:
            got = read_image(bytes(data))
        except errors.ImageError:
            refused += 1
        else:
            assert got.dtype == np.uint8 and got.ndim == 3 and got.shape[2] == 3
    assert refused > 0


def test_as_rgb_is_what_read_image_does_with_arrays(photo: np.ndarray) -> None:
    np.testing.assert_array_equal(as_rgb(photo), read_image(photo))


def test_32_bit_grey_below_zero() -> None:
    with pytest.raises(errors.ImageError, match="from -1 to 5"):
        read_image(Image.fromarray(np.array([[-1, 5]], np.int32)))


@pytest.mark.parametrize(("photometric", "white"), [(0, 0), (1, 65535)])
def test_white_of_sixteen_bits(tmp_path: Path, photometric: int, white: int) -> None:
    """A TIFF says whether 0 is white or black; both are read white on black."""
    path = tmp_path / "grey.tif"
    grey = np.array([[white, 65535 - white, 40000]], np.uint16)
    Image.fromarray(grey).save(path, tiffinfo={262: photometric})
    got = read_image(path)[0, :, 0].tolist()
    assert got[:2] == [255, 0]
    assert got[2] == (round(40000 / 257) if photometric else round(25535 / 257))


@pytest.mark.parametrize("shape", [(6, 6, 5), (4, 4, 5), (6, 6, 0), (2, 2, 2, 3), (4,), ()])
def test_shapes_that_are_none(shape: tuple[int, ...]) -> None:
    with pytest.raises(errors.ImageError, match="expected|empty"):
        read_image(np.zeros(shape, np.uint8))
