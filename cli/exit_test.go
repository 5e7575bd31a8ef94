package cli

import "testing"

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\tc":     "a; b c",
		"\x1b[2Jx":    "\uFFFD[2Jx",
		"caf\u00e9\n": "caf\u00e9",
		"\u009b1m":    "\uFFFD1m",
	} {
		if got := OneLine(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
