// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"errors"
	"testing"
)

// Labels and indices outside their range are one error, wherever they are taken, also
// at the exact ends.
func TestLabelsOutsideTheirRange(t *testing.T) {
	c, err := Open(Config{Backend: "cpu", Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	must := func(x *Tensor, err error) *Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	const k = 3
	scores := must(c.FromFloat32s([]float32{1, 2, 3, 6, 5, 4}, 2, k))
	calls := map[string]func(label *Tensor) error{
		"softmax_cross_entropy": func(l *Tensor) error { _, _, err := c.SoftmaxCrossEntropy(scores, l); return err },
		"confusion matrix": func(l *Tensor) error {
			return c.UpdateConfusionMatrix(scores, l, must(c.FromFloat32s(make([]float32, k*k), k, k)))
		},
		"gather":      func(l *Tensor) error { _, err := c.Gather(scores, l, 1); return err },
		"embedding":   func(l *Tensor) error { _, err := c.Embedding(must(c.Reshape(scores, k, 2)), l); return err },
		"scatter_add": func(l *Tensor) error { _, err := c.ScatterAdd(scores, l, k); return err },
		"scatter": func(l *Tensor) error {
			_, err := c.Scatter(must(c.Reshape(scores, k, 2)), l, must(c.FromFloat32s(make([]float32, 4), 2, 2)))
			return err
		},
	}
	for name, call := range calls {
		for label, fine := range map[int32]bool{0: true, k - 1: true, -1: false, k: false, -100: false, 255: false} {
			host := must(c.FromInt32s([]int32{0, label}, 2))
			// The same as the result of an operation, which the host has not seen.
			computed := must(c.Reshape(must(c.Concat(0, must(c.FromInt32s([]int32{0}, 1)), must(c.FromInt32s([]int32{label}, 1)))), 2))
			for _, l := range []*Tensor{host, computed} {
				if err := call(l); fine != (err == nil) || err != nil && !errors.Is(err, ErrOption) {
					t.Errorf("%s with label %d of %d: %v", name, label, k, err)
				}
			}
		}
	}
	if _, err := c.Chunk(must(c.FromFloat32s(make([]float32, 2*maxParts), 2*maxParts)), 0, 2*maxParts); !errors.Is(err, ErrShape) {
		t.Errorf("%d chunks: %v", 2*maxParts, err)
	}
}
