# SPDX-License-Identifier: Apache-2.0
"""The MASt3R two-view network in PyTorch, and what it takes to train a small one.

Written from the project's model specification. `model` holds the one
definition of the network (training, evaluation and benchmarks share it),
`weights` its files, `scenes` the procedural training data, `losses` the
objective and `photometry` what a camera does to a picture.
"""
