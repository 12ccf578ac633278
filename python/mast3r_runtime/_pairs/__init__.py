# SPDX-License-Identifier: Apache-2.0
"""Pairs of a collection, kept in a store: the work on one, on a tile of them, on any number of machines."""
