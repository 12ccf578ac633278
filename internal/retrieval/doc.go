// SPDX-License-Identifier: Apache-2.0

// Package retrieval finds which pictures of a collection are worth pairing
// (network.md 11 and 14).
//
// A Head turns encoder features into whitened local features with an attention
// each. An Index quantises the strongest of them with a codebook, aggregates
// what falls on one visual word into a binary code (ASMK), and scores pictures
// against each other. Pairs turns scores, or the order of the pictures alone,
// into the list of pairs to reconstruct.
package retrieval
