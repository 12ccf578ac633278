# SPDX-License-Identifier: Apache-2.0
"""Why the shared library could not be loaded here, in one line that says what to do."""

import platform
import struct
import sys
import sysconfig
from pathlib import Path

_BUILD = (
    "or build it for this system with Go 1.26 and a C compiler: "
    "pip install --no-binary mast3r-runtime mast3r-runtime"
)


def why_not_loaded(path: Path, error: OSError) -> str:
    """Return the reason for ``error``, met while loading the library at ``path``, and the remedy.

    The text of the system's loader alone ("no such file", "invalid ELF header") seldom names the cause.
    """
    if struct.calcsize("P") != 8:
        return "this Python is a 32-bit program; install a 64-bit Python"
    if not path.exists():
        return f"the file is not there; install the wheel for {sysconfig.get_platform()} again, {_BUILD}"
    if sys.platform == "linux":
        if is_musl():
            return (
                "this system has musl (Alpine?), which cannot load Go shared libraries "
                "(golang/go issue 54805); use a system with glibc, for example the image python:3-slim"
            )
        if "GLIBC_" in str(error):
            have = platform.libc_ver()[1] or "an older one"
            return (
                f"the library needs a newer glibc than this system's {have}: {error}; "
                f"update the system, {_BUILD}"
            )
    if sys.platform == "darwin" and rosetta():
        return (
            "this Python runs as an Intel program under Rosetta on Apple silicon; install an arm64 Python "
            "(python.org's universal2 installer, or Homebrew in /opt/homebrew), then install the wheel again"
        )
    made_for, machine = machine_of(path), platform.machine().lower()
    if made_for and machine and made_for != {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine):
        return (
            f"the library is made for {made_for}, and this Python runs on {machine}; "
            f"install the wheel for it, {_BUILD}"
        )
    return f"{error}; install the wheel for this system, {_BUILD}"


def is_musl() -> bool:
    """Whether this Python was built for musl, as Alpine's is."""
    names = (sysconfig.get_config_var(name) or "" for name in ("SOABI", "HOST_GNU_TYPE"))
    return any("musl" in str(name) for name in names)


def rosetta() -> bool:
    """Whether this is an x86-64 Python on a Mac with Apple silicon; platform.machine() does not tell."""
    return platform.machine() == "x86_64" and "ARM64" in platform.version()


def machine_of(path: Path) -> str:
    """The processor a shared library is made for (x86_64, aarch64), or "" if the file does not say."""
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return ""
    if head[:4] == b"\x7fELF" and len(head) >= 20:
        return {62: "x86_64", 183: "aarch64"}.get(int.from_bytes(head[18:20], "little"), "")
    if head[:4] == b"\xcf\xfa\xed\xfe" and len(head) >= 8:
        return {0x01000007: "x86_64", 0x0100000C: "aarch64"}.get(int.from_bytes(head[4:8], "little"), "")
    if head[:2] == b"MZ" and len(head) >= 64:
        start = int.from_bytes(head[60:64], "little")
        if head[start : start + 4] == b"PE\0\0":
            return {0x8664: "x86_64", 0xAA64: "aarch64"}.get(
                int.from_bytes(head[start + 4 : start + 6], "little"), ""
            )
    return ""
