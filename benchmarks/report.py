# SPDX-License-Identifier: Apache-2.0
"""Tables and plots of what bench.py measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import scaling
from common import num, table

OURS, THEIRS = "#3b7dd8", "#b0b0b0"


def text(result: dict[str, Any]) -> str:
    m = result["machine"]
    load, after = result["load_average"][0], result["load_average_after"][0]
    lines = [
        f"{m['cpu']} ({m['instruction_sets']}), {m['cores']} processors"
        f"{', virtual: ' + m['hypervisor'] if m['hypervisor'] else ''}, {result['thread_count']} threads, "
        f"{m['system']}, Python {m['python']}; "
        f"load average {load:.1f} before and {after:.1f} after."
    ]
    if result["quick"]:
        lines.append("A quick run: small sizes, few rounds; these are no figures to quote.")
    for name, section in SECTIONS.items():
        if name in result:
            lines += ["", *section(result[name])]
    return "\n".join(lines) + "\n"


def _stage(row: dict[str, Any], stage: str) -> str:
    return num(row[stage]["median_s"]) if stage in row else ""


def _network(r: dict[str, Any]) -> list[str]:
    peak = ", ".join(f"{k} {v:.0f}" for k, v in r["peak_gflops"].items() if not k.endswith("_cpu"))
    lines = [
        f"### {r['variant']}, {r['width']}x{r['height']}",
        "",
        f"{r['pair_gflop']:.0f} GFLOP a pair, {r['rounds']} rounds. "
        f"Peak of the multiply-add loop in the same rounds ({r['isa']}), GFLOP/s: {peak}. "
        "Seconds, medians of the rounds; the ratio is the median of the rounds' ratios.",
        "",
        *_pairs(r["pair"]),
        "",
        "Sequence of 8 pictures (7 pairs), each picture encoded once:",
        "",
    ]
    lines += table(
        ("", "seconds", "a pair", "of a single pair", "ours / this"),
        (
            (
                c["name"],
                _stage(c, "total"),
                num(c["per_pair_s"]),
                num(c["of_a_single_pair"]),
                num(c["ours_over_this"]),
            )
            for c in r["sequence"]
        ),
    )
    lines += ["", "Retrieval features of one picture:", ""]
    lines += table(
        ("", "seconds", "p95", "GFLOP/s", "share of peak", "ours / this"),
        (
            (
                c["name"],
                _stage(c, "total"),
                num(c["total"]["p95_s"]),
                num(c["gflops"]),
                f"{c['share_of_peak']:.0%}",
                num(c["ours_over_this"]),
            )
            for c in r["retrieval"]
        ),
    )
    return lines


def _sizes(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["### Sizes", "", "Ours alone; sizes and kinds take turns.", ""]
    head = ("", "seconds", "p95", "TFLOP/s", "share of peak", "joules")
    return lines + table(
        head,
        (
            (
                r["name"],
                _stage(r, "total"),
                num(r["total"]["p95_s"]),
                f"{r['gflops'] / 1e3:.3g}",
                f"{r['share_of_peak']:.0%}",
                "not counted here" if r["joules"] is None else num(r["joules"]),
            )
            for r in rows
        ),
    )


def _pairs(rows: list[dict[str, Any]]) -> list[str]:
    return table(
        (
            "",
            "pair",
            "p95",
            "encoder",
            "decoder",
            "heads",
            "processor s",
            "first call",
            "GFLOP/s",
            "share of peak",
            "by processor time",
            "ours / this",
        ),
        (
            (
                c["name"],
                _stage(c, "total"),
                num(c["total"]["p95_s"]),
                *(_stage(c, s) for s in ("encoder", "decoder", "heads")),
                _stage(c, "processor"),
                num(c["first_s"]),
                num(c["gflops"]),
                f"{c['share_of_peak']:.0%} of {c['peak']}",
                f"{c['share_by_processor_time']:.0%}",
                num(c["ours_over_this"]),
            )
            for c in rows
        ),
    )


def _memory(r: dict[str, Any]) -> list[str]:
    rows = (
        (n, num(v["peak_mb"]), num(v["before_mb"]), num(v["load_s"]), num(v["first_s"])) for n, v in r.items()
    )
    return [
        "Each in a process of its own, one pair:",
        "",
        *table(("", "peak resident MiB", "MiB before the model", "load s", "first pair s"), rows),
    ]


def _threads(r: dict[str, Any]) -> list[str]:
    lines = [
        f"Threads, {r['variant']} {r['width']}x{r['height']}; a process is bound to as many processors:",
        "",
        *scaling.lines(r["counts"]),
    ]
    used = {name: text for part in r["counts"].values() for name, text in part["products"].items() if text}
    if used:
        lines += ["", "What multiplied:", "", *table(("", ""), used.items())]
    return lines


def _matching(r: dict[str, Any]) -> list[str]:
    rows = (
        (c["name"], _stage(c, "total"), c["measured"], num(1 / c["ours_over_this"]))
        for c in r["full"] + r["fast"]
    )
    return [
        f"### Matching, {r['width']}x{r['height']} descriptors of {r['dim']}, both directions",
        "",
        *table(("", "seconds", "how", "times ours"), rows),
    ]


def _small(r: dict[str, Any]) -> list[str]:
    p = r["pair"]
    lines = [
        f"### mast3r_tiny, {p['width']}x{p['height']}",
        "",
        *_pairs(p["rows"]),
        "",
        "Python to Go and back, with nothing to compute:",
        "",
    ]
    return lines + table(
        ("", "median us", "p95", "best"),
        ((k, num(v["median_us"]), num(v["p95_us"]), num(v["min_us"])) for k, v in r["calls"].items()),
    )


def _start(r: list[dict[str, Any]]) -> list[str]:
    i = r[0]["import"]
    lines = [
        "### Start",
        "",
        f"Import: {i['total_s']:.3f} s, of which NumPy {i['numpy_s']:.3f} s.",
        "",
        "From the interpreter's start to the first pair, fresh processes, the default precision:",
        "",
    ]
    keys = ("import_s", "load_s", "first_call_s", "second_call_s", "total_s", "peak_mb")
    rows = [
        (f"{s['model']} {s['size'][0]}x{s['size'][1]}", kind, *(num(v[k]) for k in keys))
        for s in r
        for kind, v in s["first_result"].items()
    ]
    return lines + table(
        (
            "",
            "packed weights",
            "import",
            "load",
            "first call",
            "second call",
            "to the first result",
            "peak MiB",
        ),
        rows,
    )


def _growth(r: dict[str, Any]) -> list[str]:
    lines = ["### Growth, mast3r_tiny", ""]
    for kind, label in (
        ("sizes", lambda p: f"{p['width']}x{p['height']}"),
        ("images", lambda p: f"{p['images']} images"),
    ):
        rows = (
            (
                label(p),
                p["contender"],
                num(p["best_s"]),
                num(p["processor_s"]),
                num(p["peak_mb"] - p["before_mb"]),
            )
            for p in r[kind]
        )
        lines += [
            *table(
                (
                    "pair" if kind == "sizes" else "sequence 256x192",
                    "",
                    "seconds",
                    "processor s",
                    "MiB above the empty process",
                ),
                rows,
            ),
            "",
        ]
    return lines[:-1]


SECTIONS = {
    "network": _network,
    "sizes": _sizes,
    "memory": _memory,
    "threads": _threads,
    "matching": _matching,
    "small": _small,
    "start": _start,
    "growth": _growth,
}


def plots(result: dict[str, Any], folder: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        print("no plots: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    who = f"{result['thread_count']} threads, {result['machine']['cpu']}"
    if "network" in result:
        r = result["network"]
        _bars(
            r["pair"],
            folder / "pair.png",
            f"{r['variant']}, {r['width']}x{r['height']}, {who}",
            "seconds a pair (bar: median, ticks: rounds)",
        )
    if "threads" in result:
        r = result["threads"]
        title = f"{r['variant']}, {r['width']}x{r['height']}, {result['machine']['cpu']}"
        _threads_plot(r["counts"], folder / "threads.png", title)
    if "matching" in result:
        r = result["matching"]
        title = f"reciprocal matching, {r['width']}x{r['height']}x{r['dim']}, {who}"
        _bars(
            r["full"] + r["fast"],
            folder / "matching.png",
            title,
            "seconds (bar: median, ticks: rounds; logarithmic)",
            log=True,
        )
    if "growth" in result:
        _curves(result["growth"], folder / "growth.png", f"mast3r_tiny, {who}")


def _bars(rows: list[dict[str, Any]], path: Path, title: str, label: str, log: bool = False) -> None:
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(9, 1.3 + 0.5 * len(rows)), layout="constrained")
    colors = [OURS if "mast3r" in r["name"] else THEIRS for r in rows]
    medians = [r["total"]["median_s"] for r in rows]
    ax.barh(range(len(rows)), medians, color=colors)
    ax.set_yticks(range(len(rows)), [r["name"] for r in rows])
    for i, r in enumerate(rows):
        ax.plot(r["total"]["all_s"], [i] * len(r["total"]["all_s"]), "k|", markersize=8, alpha=0.6)
        ax.text(max(r["total"]["all_s"]), i, f"  {num(medians[i])} s", va="center")
    if log:
        ax.set_xscale("log")
        ax.set_xlim(min(medians) / 3, max(max(r["total"]["all_s"]) for r in rows) * 4)
    else:
        ax.margins(x=0.12)
        ax.set_xlim(left=0)
    ax.invert_yaxis()
    ax.set_xlabel(label)
    ax.set_title(title, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def _threads_plot(counts: dict[str, Any], path: Path, title: str) -> None:
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["name"] for part in counts.values() for row in part["rows"]))
    fig, axes = plt.subplots(
        1,
        len(counts),
        figsize=(2 + 3.2 * len(counts), 1 + 0.42 * len(names)),
        layout="constrained",
        sharey=True,
    )
    for ax, (n, part) in zip(axes if len(counts) > 1 else [axes], counts.items(), strict=True):
        times = {row["name"]: row["total"]["median_s"] for row in part["rows"]}
        have = [i for i, name in enumerate(names) if name in times]
        ax.barh(
            have,
            [times[names[i]] for i in have],
            color=[OURS if "mast3r" in names[i] else THEIRS for i in have],
        )
        for i in have:
            ax.text(times[names[i]], i, f" {num(times[names[i]])}", va="center", fontsize=8)
        ax.set(title=f"{n} thread{'s' * (n != '1')}", xlabel="seconds a pair")
        ax.set_xlim(0, 1.2 * max(times.values()))
        ax.set_yticks(range(len(names)), names)
        ax.spines[["top", "right"]].set_visible(False)
    ax.invert_yaxis()
    fig.suptitle(title, fontsize=9)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def _curves(r: dict[str, Any], path: Path, title: str) -> None:
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
    kinds = (
        ("sizes", lambda p: p["width"] * p["height"] / 1e6, "megapixels of each picture"),
        ("images", lambda p: p["images"], "pictures of a sequence, 256x192"),
    )
    values = (
        (lambda p: p["best_s"], "seconds"),
        (lambda p: p["peak_mb"] - p["before_mb"], "peak MiB above the empty process"),
    )
    for column, (kind, x, xlabel) in enumerate(kinds):
        for line, (y, ylabel) in enumerate(values):
            ax = axes[line][column]
            for name in dict.fromkeys(p["contender"] for p in r[kind]):
                points = [p for p in r[kind] if p["contender"] == name]
                ours = name.startswith("ours")
                ax.plot(
                    [x(p) for p in points],
                    [y(p) for p in points],
                    "o-",
                    ms=4,
                    color=OURS if ours else "#808080",
                    label="mast3r-runtime" if ours else "PyTorch",
                )
            ax.set(xlabel=xlabel, ylabel=ylabel)
            ax.set_ylim(bottom=0)
            ax.set_xlim(left=0)
            ax.grid(alpha=0.25)
            ax.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False)
    fig.suptitle(title, fontsize=10)
    fig.savefig(path, dpi=130)
    plt.close(fig)
