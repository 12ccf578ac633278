# SPDX-License-Identifier: Apache-2.0
"""Published models: where they are, how they are fetched and converted."""
