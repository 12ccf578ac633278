// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"strings"
	"testing"
)

func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		`C:\models\café.pth`:     `"C:\models\café.pth"`,
		"two\nlines\x1b[31m":     `"two\nlines\x1b[31m"`,
		`with "quotes"`:          `"with \"quotes\""`,
		strings.Repeat("a", 300): `"` + strings.Repeat("a", 200) + `"...`,
	} {
		if got := Quoted(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
