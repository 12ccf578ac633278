// SPDX-License-Identifier: Apache-2.0

//go:build !noasm

package kernel

//go:noescape
func cellsAMX(p *CellArgs)

//go:noescape
func askCellsAVX512(p *AskArgs)
