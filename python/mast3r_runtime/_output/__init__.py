# SPDX-License-Identifier: Apache-2.0
"""What is made of results: whole files, drawings, maps at the pixels of the pictures."""
