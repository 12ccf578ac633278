# SPDX-License-Identifier: Apache-2.0
"""What is made of results: files, drawings, and pages for a browser."""
