// SPDX-License-Identifier: Apache-2.0

package stablehlo

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// fusedAttention is softmax(scale q k^T) v for q, k, v [B,N,H,hd] by cuDNN's
// fused kernel, which keeps no scores in memory: a custom call that XLA's
// compiler for GPUs knows. Its configuration is XLA's CudnnfMHABackendConfig as
// JSON, in which int64s are texts.
func (l *lowering) fusedAttention(q, k, v value, scale float64) value {
	s := q.shape
	out := value{shape: tensor.Shape{s[0], s[2], s[1], s[3]}, dtype: q.dtype}
	scratch := value{shape: tensor.Shape{0}, dtype: tensor.U8}
	type fields map[string]any
	list := func(dims ...int) []string {
		texts := make([]string, len(dims))
		for i, d := range dims {
			texts[i] = strconv.Itoa(d)
		}
		return texts
	}
	product := func(sumA, sumB int, batchA, batchB []string) fields {
		return fields{"lhs_contracting_dimensions": list(sumA), "rhs_contracting_dimensions": list(sumB),
			"lhs_batch_dimensions": batchA, "rhs_batch_dimensions": batchB}
	}
	config := fields{"operation_queue_id": "0", "cudnn_fmha_backend_config": fields{
		"algorithm": fields{"algo_id": "0", "math_type": "TENSOR_OP_MATH", "tuning_knobs": fields{"17": "1", "24": "0"},
			"is_cudnn_frontend": true, "workspace_size": "0"},
		"fmha_scale": scale,
		"intermediate_tensor_shape": fields{
			"element_type": strings.ToUpper(typeNames[q.dtype]), "dimensions": list(s[0], s[2], s[1], k.shape[1]),
			"layout":               fields{"minor_to_major": list(3, 2, 1, 0)},
			"is_dynamic_dimension": []bool{false, false, false, false},
		},
		"is_flash_attention": true, "mask_type": "NO_MASK", "dropout_rate": 0, "seed": 42,
		"sliding_window_length": 0, "max_seg_per_batch": 1, "is_paged_attention": false,
		"bmm1_dot_dimension_numbers": product(3, 3, list(0, 2), list(0, 2)),
		"bmm2_dot_dimension_numbers": product(3, 1, list(0, 1), list(0, 2)),
	}}
	data, err := json.Marshal(config) // keys in order: the text is the same each time
	if err != nil {
		panic(err) // texts, numbers and lists of them
	}
	name := fmt.Sprintf("%%%d", l.fresh)
	l.fresh++
	const rows = "dense<[3, 2, 1, 0]> : tensor<4xindex>"
	fmt.Fprintf(&l.body, "    %s:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%s, %s, %s) {api_version = 2 : i32, backend_config = \"%s\", "+
		"operand_layouts = [%s, %s, %s], result_layouts = [dense<[3, 1, 2, 0]> : tensor<4xindex>, dense<0> : tensor<1xindex>]} : "+
		"(%s, %s, %s) -> (%s, %s)\n", name, q.name, k.name, v.name, strings.ReplaceAll(string(data), `"`, `\22`),
		rows, rows, rows, q.typ(), k.typ(), v.typ(), out.typ(), scratch.typ())
	out.name = name + "#0"
	return l.transpose(out, 0, 2, 1, 3)
}
