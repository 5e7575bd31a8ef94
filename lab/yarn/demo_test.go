package yarn

import (
	"bytes"
	"io"
	"path/filepath"
	"regexp"
	"testing"

	"headrace/internal/testkit"
	"headrace/policy"
)

func TestDemo(t *testing.T) {
	testkit.Long(t)
	parallel(t, 60)
	if testing.Short() {
		t.Skip("starts YARN clusters; not with -short")
	}
	if _, err := Find(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	var out bytes.Buffer
	err := Demo(t.Context(), DemoOptions{Stdout: &out, Stderr: io.Discard, Dir: dir,
		Binary: testkit.Headrace(t), Policy: string(policy.Suspend)})
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{`container \S+ is killed; task \d has to start over`, `container \S+ is suspended`, `container \S+ goes on`,
		`(?m)^kill +\S+s +\S+s +[3-9] +[1-9]\S*s$`, `(?m)^headrace +\S+s +\S+s +0 +0\.0s$`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the output lacks %s:\n%s", want, &out)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
