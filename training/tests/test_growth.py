# SPDX-License-Identifier: Apache-2.0
"""A grown network computes the same, and what is new in it learns."""

from dataclasses import replace

import pytest
import torch

from mast3r_torch.growth import grow, spread
from mast3r_torch.model import Dims, Mast3r, init_weights

SMALL = Dims(
    enc_dim=32, enc_depth=2, enc_heads=1, dec_dim=32, dec_depth=6, dec_heads=1, dpt_feature_dim=16,
    dpt_last_dim=8, dpt_layer_dims=(8, 8, 16, 16), local_hidden=32,
)  # fmt: skip


def network(dims: Dims) -> Mast3r:
    torch.manual_seed(3)
    net = Mast3r(dims)
    init_weights(net)
    return net.eval()


@pytest.mark.parametrize(
    ("encoder", "decoder", "hidden"), [(2, 6, 32), (5, 6, 32), (2, 8, 33), (4, 12, 64), (3, 11, 32)]
)
def test_a_grown_network_computes_the_same(encoder, decoder, hidden):
    dims = replace(SMALL, enc_depth=encoder, dec_depth=decoder, local_hidden=hidden)
    small, large = network(SMALL), Mast3r(dims).eval()
    large.load_state_dict(grow(small.state_dict(), SMALL, dims), strict=True)
    images = torch.rand(2, 1, 3, 48, 64) * 2 - 1
    for want, got in zip(small.raw(*images), large.raw(*images), strict=True):
        torch.testing.assert_close(got.dpt, want.dpt)
        torch.testing.assert_close(got.local, want.local)
    sum(v.square().sum() for raw in large.raw(*images) for v in raw).backward()
    still = [n for n, p in large.named_parameters() if "mlp.fc2.weight" in n and p.grad.abs().max() == 0]
    assert not still
    for head in (large.downstream_head1, large.downstream_head2):
        assert (head.head_local_features.fc2.weight.grad[:, SMALL.local_hidden :] != 0).all()


def test_blocks_keep_their_order_between_the_levels_that_are_read():
    own = [source for source, itself in spread((0, 3, 4, 6), (0, 5, 7, 10)) if itself]
    assert own == list(range(6))
    assert spread((0, 3, 4, 6), (0, 5, 7, 10)) == [
        (0, True), (0, False), (1, True), (1, False), (2, True),
        (3, True), (3, False),
        (4, True), (4, False), (5, True),
    ]  # fmt: skip
    assert spread((0, 2), (0, 2)) == [(0, True), (1, True)]


@pytest.mark.parametrize(
    "change", [{"enc_dim": 64}, {"local_hidden": 16}, {"enc_depth": 1}, {"dec_depth": 5}]
)
def test_what_growing_cannot_do_is_an_error(change):
    with pytest.raises(ValueError, match="growth: .* want"):
        grow(network(SMALL).state_dict(), SMALL, replace(SMALL, **change))
