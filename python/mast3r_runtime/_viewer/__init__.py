# SPDX-License-Identifier: Apache-2.0
"""How a page is made; the public names are in :mod:`mast3r_runtime.viewer`."""
