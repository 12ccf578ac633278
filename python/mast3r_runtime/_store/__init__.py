# SPDX-License-Identifier: Apache-2.0
"""What is kept on disk: tensors in files, and the store of results by hash."""
