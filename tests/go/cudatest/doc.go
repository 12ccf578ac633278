// SPDX-License-Identifier: Apache-2.0

// Package cudatest holds the tests that need an NVIDIA GPU: the suites of
// operations and models on it, in every precision. They run with MAST3R_CUDA=1
// (`make cuda-test`) and are skipped, with a line that says so, without.
package cudatest
