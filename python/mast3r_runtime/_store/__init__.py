# SPDX-License-Identifier: Apache-2.0
"""The store: where its bytes lie, what is in it, what keeps it in order."""
