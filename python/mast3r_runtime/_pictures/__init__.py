# SPDX-License-Identifier: Apache-2.0
"""The door in: how every picture of the user's is found, opened and read."""
