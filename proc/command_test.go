package proc

import (
	"slices"
	"strings"
	"testing"
)

func TestCheckCommand(t *testing.T) {
	longest := strings.Repeat("x", maxArgument)
	if err := CheckCommand([]string{"true", longest}, []string{"A=b"}); err != nil {
		t.Error(err)
	}
	for want, command := range map[string][2][]string{
		"no command":                  {},
		"there is no command":         {{""}},
		"131072 bytes is longer than": {{"true", longest + "x"}},
		"of 131073 bytes":             {{"true"}, {longest + "xx"}},
		"NUL":                         {{"true", "a\x00b"}},
		"NUL byte":                    {{"true"}, {"A=\x00"}},
		"more than 2097152":           {{"true"}, slices.Repeat([]string{"A=123456789"}, 150_000)},
	} {
		if err := CheckCommand(command[0], command[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
