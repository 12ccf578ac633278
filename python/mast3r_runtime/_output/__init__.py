# SPDX-License-Identifier: Apache-2.0
"""What is made of results: npz, PLY and GLB, drawings, and pages for a browser."""
