# SPDX-License-Identifier: Apache-2.0
"""How a scene is made; the public names are in :mod:`mast3r_runtime.scene`."""
