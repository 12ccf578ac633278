# SPDX-License-Identifier: Apache-2.0
"""Collections of pictures: which pairs to run, and running them by any number of machines into a store."""
