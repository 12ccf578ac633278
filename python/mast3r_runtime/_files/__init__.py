# SPDX-License-Identifier: Apache-2.0
"""The door out: how every file of every command is written."""
