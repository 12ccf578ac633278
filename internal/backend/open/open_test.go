// SPDX-License-Identifier: Apache-2.0

package open

import (
	"errors"
	"strings"
	"testing"
)

// TestEnvironment: the variable of the backend acts where the Config leaves the
// choice, and nowhere else.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct{ field, env, want string }{
		{"", "", "auto"}, {"auto", "cpu", "cpu"}, {"", " CPU ", "cpu"}, {"", "metal", "metal"},
		{"cpu", "metal", "cpu"}, {"metal", "cpu", "metal"}, {"cpu", "abacus", "cpu"},
	} {
		t.Setenv(EnvBackend, c.env)
		if got, err := (Config{Backend: c.field}).wanted(); got != c.want || err != nil {
			t.Errorf("Backend %q, %s=%q: %q, %v, want %q", c.field, EnvBackend, c.env, got, err, c.want)
		}
	}
	t.Setenv(EnvBackend, "abacus")
	var e *SettingError
	if _, _, err := Device(Config{}); !errors.As(err, &e) || e.Name != EnvBackend || !strings.Contains(e.Error(), "abacus") {
		t.Errorf("%s=abacus: %v", EnvBackend, err)
	}
	for _, c := range []Config{{Backend: "abacus"}, {Threads: -1}, {Threads: 1 << 20}} {
		if _, _, err := Device(c); !errors.As(err, &e) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestDevice(t *testing.T) {
	t.Setenv(EnvBackend, "cpu")
	d, fallback, err := Device(Config{Threads: 1})
	if err != nil || fallback != "" || d.Device().Backend != "cpu" {
		t.Fatalf("%v, %q, %v", d, fallback, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
