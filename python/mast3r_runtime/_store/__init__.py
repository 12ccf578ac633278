# SPDX-License-Identifier: Apache-2.0
"""What is kept on disk: files that are written whole, tensors in files, and the store of results by hash."""
