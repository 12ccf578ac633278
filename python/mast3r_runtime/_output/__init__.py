# SPDX-License-Identifier: Apache-2.0
"""Writing files that are whole or absent, and drawing pictures."""
