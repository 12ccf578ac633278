// SPDX-License-Identifier: Apache-2.0

// Package match finds reciprocal nearest neighbours between two descriptor
// maps: pixels i and j such that j is the best match of i in map 2 and i the
// best match of j in map 1 (network.md 12).
//
// # Exactness
//
// The score of two descriptors is their float32 dot product, accumulated with
// fused multiply-adds in the order of the components. Neighbours are exact
// under that score, ties go to the lowest pixel index, and neither the number
// of threads nor the processor changes any result bit. The reference computes
// the same maxima through a matrix product in blocks; its order of summation
// is not specified, so scores may differ in the last place, and a neighbour
// only where two candidates are that close.
//
// A descriptor with a component that is NaN, infinite or beyond 2^48 in
// magnitude is excluded: it matches nothing and nothing matches it. (The
// reference lets one NaN win every comparison of its block.) The bound keeps
// every sum of finite values finite, so that the inner loops need no test.
//
// # One pass
//
// A map of 512 x 384 has 196608 descriptors, hence 38.7 billion pairs. They
// are visited once, for both directions: the tile kernel folds each score into
// the maximum of its row and of its column. It keeps no index, only in which
// strip of columns (for a row) or block of rows (for a column) the maximum
// rose; each query then searches its one winning strip for the first score
// with exactly that value. That costs one hundredth of the pass, where
// carrying indices through the tile would have halved its speed.
//
// # Rounded first
//
// Where the processor multiplies bytes, the pass runs on descriptors rounded to
// bytes, at three to four times the speed. Its maxima bound the exact ones, so
// that nearly all strips of a query, and nearly all panels of the strips left,
// are known not to hold its neighbour; what remains is scored exactly. The
// seeded search does the same, for its queries only, and looks for no
// neighbour twice. See int8.go for the bound. On matrix tiles 16 rows share a maximum,
// see cells.go.
//
// # Blocks
//
// Descriptors of length 1 are searched by blocks of 4 x 4 pixels where a kernel for that
// is (AVX-512): a query looks only into those blocks whose direction is near enough to hold
// its best, which most often is one in thirty. What counts is that a good score is known
// beforehand: on the way back of a walk it is that of the way there; else that of the pixel
// beside the neighbour of a query nearby, or a score that most queries reach, guessed from
// a sample, and a second search where the guess was too high. See blocks.go. Between groups
// of queries and groups of descriptors such bounds were tried before and do not help: less
// than a third of the pairs of groups could be left out.
package match
