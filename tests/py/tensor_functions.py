# SPDX-License-Identifier: Apache-2.0
"""Writes python/mast3r_runtime/tensor/_operations.py from the library's signatures.

    python tests/py/tensor_functions.py

A test compares the file with what this makes.
"""

from __future__ import annotations

import re
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "python" / "mast3r_runtime" / "tensor" / "_operations.py"

DOCS = {
    "abs": "Absolute values.",
    "activation_backward": "gy times the derivative of the named activation at its input x.",
    "adam_step": "One step of Adam with decoupled weight decay, for step = 1, 2, ...",
    "add": "a + b.",
    "add_": "t += u.",
    "add_bias": "Add a vector to every row.",
    "add_relu": "relu(a + b) in one dispatch.",
    "add_scalar": "x + value.",
    "affine": "x * scale + shift in one dispatch.",
    "argmax": "Positions of the largest elements along an axis, the lowest on ties.",
    "argmax_all": "Position of the largest element of the flattened tensor.",
    "argmin": "Positions of the smallest elements along an axis, the lowest on ties.",
    "argmin_all": "Position of the smallest element of the flattened tensor.",
    "attention": "softmax(scale q k^T + mask) v for q, k, v [B,H,N,d]; the mask is added.",
    "attention_scores": "softmax(scale q k^T) in one dispatch.",
    "avg_pool2d": "Average pooling of maps [B,C,H,W].",
    "batch_norm": "Normalise channels (NCHW), or features of rows, with running statistics.",
    "broadcast": "Repeat dimensions of size 1, and missing leading ones.",
    "cast": "Convert to f32, f16 or i32.",
    "chunk": "Cut into n equal parts.",
    "col2im": "Add columns back into maps: the gradient of im2col.",
    "concat": "Join along an axis.",
    "conv2d": "Convolution of maps [B,C,H,W] with w [O,C/groups,kh,kw].",
    "conv2d_backward": "Gradients of conv2d: input, weight, bias (a sum, not a mean).",
    "copy": "A new tensor with the same elements.",
    "cos": "Cosines.",
    "div": "a / b.",
    "div_": "t /= u.",
    "div_relu": "relu(a / b) in one dispatch.",
    "dropout": "Zero elements with probability p, scale the rest by 1/(1-p); also the mask.",
    "dropout_linear": "dropout(x) w^T + b in one dispatch; also the mask.",
    "einsum": 'Einstein\'s summation, as einsum("ij,jk->ik", a, b).',
    "embedding": "Rows of a table by index.",
    "exp": "Exponentials.",
    "gather": "Entries along an axis by index.",
    "gelu": "x Phi(x), the erf form.",
    "gelu_linear": "gelu(x) w^T + b in one dispatch.",
    "gelu_tanh": "The tanh approximation of gelu.",
    "im2col": "Patches of maps [B,C,H,W] as columns [B,C*kernel*kernel,positions].",
    "layer_norm": "Normalise the last dimension.",
    "layer_norm_backward": "Gradients of layer_norm: input, gamma, beta.",
    "layer_norm_linear": "layer_norm(x) w^T + b in one dispatch.",
    "linear": "activation(x w^T + b), w [out,in].",
    "linear_add": "x w^T + b + r in one dispatch.",
    "linear_add_gelu": "gelu(x w^T + b + r) in one dispatch.",
    "linear_backward": "Add the gradients of linear to gw and gb; return the input's. y is the output.",
    "linear_batch_norm_relu": "relu(batch_norm(x w^T + b)) in one dispatch.",
    "linear_residual_relu": "relu(x w^T + b + r) in one dispatch.",
    "log": "Natural logarithms.",
    "matmul": "a b; leading dimensions broadcast.",
    "matmul_activation": "activation(a b) in one dispatch.",
    "matmul_bias": "a b + bias in one dispatch.",
    "matmul_transposed": "a b^T.",
    "max": "Maxima over the given axes, or all.",
    "max_pool2d": "Max pooling of maps [B,C,H,W]; also the positions of the maxima.",
    "max_pool2d_backward": "Gradient of max_pool2d; overlapping windows add up.",
    "maximum": "The larger of two elements.",
    "mean": "Means over the given axes, or all.",
    "min": "Minima over the given axes, or all.",
    "minimum": "The smaller of two elements.",
    "mse_grad": "scale (p - t).",
    "mul": "a * b.",
    "mul_": "t *= u.",
    "mul_relu": "relu(a * b) in one dispatch.",
    "mul_scalar": "x * value.",
    "nchw_to_nhwc": "Channels from second to last.",
    "neg": "-x.",
    "nhwc_to_nchw": "Channels from last to second.",
    "pad": "Surround with a value.",
    "permute": "Reorder the dimensions.",
    "pow": "a to the power of b.",
    "pow_scalar": "x to the power of value.",
    "relu": "max(x, 0).",
    "relu_": "t = max(t, 0).",
    "reshape": "Other dimensions, the same order of elements; one may be -1.",
    "rms_norm": "x / sqrt(mean(x^2) + eps) gamma over the last dimension.",
    "rope": "Rotary position embedding of x [B,rows*cols,heads*d] on a grid.",
    "scatter": "x with the rows at index replaced by those of src.",
    "scatter_add": "Add rows at their indices to zeros: the gradient of embedding.",
    "sigmoid": "1 / (1 + exp(-x)).",
    "sin": "Sines.",
    "slice": "begin, begin+step, ... up to end, on every axis; steps may be negative.",
    "softmax": "exp(x - max) / sum along an axis.",
    "softmax_backward": "Gradient of softmax at its input x.",
    "softmax_cross_entropy": "Mean loss of scores [N,K] and labels [N]; also the gradient.",
    "split": "Cut into parts of the given sizes.",
    "sqrt": "Square roots.",
    "sub": "a - b.",
    "sub_": "t -= u.",
    "sub_relu": "relu(a - b) in one dispatch.",
    "sum": "Sums over the given axes, or all.",
    "tan": "Tangents.",
    "tanh": "Hyperbolic tangents.",
    "topk": "The k largest of the last dimension, descending; also their positions.",
    "transpose": "Exchange the last two dimensions.",
    "update_confusion_matrix": "Count (target, argmax of preds) into cm [K,K].",
    "zero_": "t = 0.",
}

HEAD = '''# Code generated by tests/py/tensor_functions.py. DO NOT EDIT.
# ruff: noqa: E501
# SPDX-License-Identifier: Apache-2.0
"""The tensor operations, one function each; in-place ones end in an underscore or return None.

Where a tensor is wanted, a numpy array does too: it is copied to the device first.
"""

from __future__ import annotations

from collections.abc import Sequence

from ._context import Tensor, TensorLike, apply

__all__ = [
NAMES
]
'''

KINDS = {"int": "int", "float": "float", "string": "str", "ints": "Sequence[int]"}


def function(signature: str) -> str:
    """Return the Python function of one signature."""
    match = re.fullmatch(r"(\w+)\(([^;)]*)(?:; ([^)]*))?\)(?: -> (.*))?", signature)
    assert match, signature
    name, operands, attributes, results = match.groups()
    parameters, passed, keyword_only = [], [], False
    listed = operands.endswith("...")
    for operand in operands.split(", "):
        plain = operand.rstrip("?!.")
        passed.append(plain)
        if operand.endswith("!"):
            parameters.append(f"{plain}: Tensor")
        elif operand.endswith("?"):
            last = operand == operands.split(", ")[-1]
            keyword_only |= last
            parameters.append(f"{plain}: TensorLike | None" + (" = None" if last else ""))
        elif not listed:
            parameters.append(f"{plain}: TensorLike")
    given = []
    settings = []
    for attribute in (attributes or "").split(", ") if attributes else []:
        key, kind, *value = attribute.split()
        text = f"{key}: {KINDS[kind]}"
        if value:
            text += " = " + {"[]": "()"}.get(value[1], f'"{value[1]}"' if kind == "string" else value[1])
        settings.append(text)
        given.append(f'"{key}": {key}')
    if name == "einsum":
        parameters = [*settings, "*x: TensorLike"]
    elif listed:
        parameters = ["x: Sequence[TensorLike]", *settings]
    else:
        parameters += (["*"] if keyword_only and settings else []) + settings
    values = "x" if listed else f"({', '.join(passed)}{',' if len(passed) == 1 else ''})"
    call = f'apply("{name}", {values}, {{{", ".join(given)}}})'
    if results is None or results == "gx":
        kind, body = "Tensor", f"return {call}[0]"
    elif results == "":
        kind, body = "None", call
    elif results.endswith("..."):
        kind, body = "list[Tensor]", f"return {call}"
    else:
        names = results.split(", ")
        kind = "tuple[" + ", ".join(["Tensor"] * len(names)) + "]"
        body = f"{', '.join(names)} = {call}\n    return {', '.join(names)}"
    doc = DOCS[name]
    return f'def {name}({", ".join(parameters)}) -> {kind}:\n    """{doc}"""\n    {body}\n'


def render(signatures: list[str]) -> str:
    names = ",\n".join(f'    "{signature.split("(")[0]}"' for signature in signatures)
    return HEAD.replace("NAMES", names + ",") + "".join("\n\n" + function(s) for s in signatures)


if __name__ == "__main__":
    from mast3r_runtime.tensor import _context

    PATH.write_text(render(_context.operations()))
