# SPDX-License-Identifier: Apache-2.0
"""What the calls give back: results, matches, and the cameras that follow from them."""
