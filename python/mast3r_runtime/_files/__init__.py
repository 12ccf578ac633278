# SPDX-License-Identifier: Apache-2.0
"""The door out: how every file of every command is written.

``whole`` writes one file so that no half-written one is ever seen; ``folder`` holds a folder that a
command fills, so that nothing of the user's is lost in it; ``manifest`` is the list of what was
written there, ``lock`` keeps a second run out, ``single`` decides what a file that is named alone
may replace.
"""
