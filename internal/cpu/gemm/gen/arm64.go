// SPDX-License-Identifier: Apache-2.0

package main

func arm64(a *asm) {}
