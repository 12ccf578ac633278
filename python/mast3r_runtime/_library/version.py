# Code generated from capi/mast3r.h by go test ./tools/bindings -update. DO NOT EDIT.
# SPDX-License-Identifier: Apache-2.0
"""The version, which capi/mast3r.h gives; pyproject.toml reads it from here."""

__version__ = "0.1.0"
