package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

type testID struct{ pkg, test string }

type subtests struct{ any, failed bool }

// pkgState is what is known of a package that has not ended.
type pkgState struct {
	failed bool // one of its tests failed
	tests  int
	output []string
}

// counter turns events into lines for a person and counts tests.
type counter struct {
	out     io.Writer
	outputs map[testID][]string
	// running holds the tests that have begun and not ended, with what is known
	// of their subtests.
	running  map[testID]subtests
	packages map[string]*pkgState
	builds   map[string][]string

	passed, failed, skipped int
}

func newCounter(out io.Writer) *counter {
	return &counter{
		out:      out,
		outputs:  map[testID][]string{},
		running:  map[testID]subtests{},
		packages: map[string]*pkgState{},
		builds:   map[string][]string{},
	}
}

// read takes everything up to the end of the input. Lines that are not JSON are
// passed through: the go command writes some of its own complaints that way.
func (c *counter) read(r io.Reader) error {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadString('\n')
		if line != "" {
			c.line(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the test output: %w", err)
		}
	}
}

func (c *counter) line(line string) {
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil {
		fmt.Fprint(c.out, line)
		return
	}
	switch {
	case e.Action == "build-output":
		c.builds[e.ImportPath] = append(c.builds[e.ImportPath], e.Output)
	case e.Package == "":
	case e.Test == "":
		c.pkgEvent(e)
	default:
		c.testEvent(e)
	}
}

func (c *counter) pkg(name string) *pkgState {
	p := c.packages[name]
	if p == nil {
		p = &pkgState{}
		c.packages[name] = p
	}
	return p
}

func (c *counter) pkgEvent(e event) {
	p := c.pkg(e.Package)
	switch e.Action {
	case "output":
		p.output = append(p.output, e.Output)
	case "pass", "skip":
		note := ""
		if p.tests == 0 {
			note = "  [no tests]"
		}
		fmt.Fprintf(c.out, "ok    %-40s %7.2fs%s\n", e.Package, e.Elapsed, note)
		delete(c.packages, e.Package)
	case "fail":
		if !p.failed {
			c.failed++
			c.print(c.builds[e.FailedBuild])
			c.print(p.output)
		}
		fmt.Fprintf(c.out, "FAIL  %-40s %7.2fs\n", e.Package, e.Elapsed)
		delete(c.packages, e.Package)
	}
}

func (c *counter) testEvent(e event) {
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "run":
		c.running[id] = subtests{}
	case "output":
		c.outputs[id] = append(c.outputs[id], e.Output)
	case "pass", "fail", "skip":
		c.end(id, e.Action)
	}
}

func (c *counter) end(id testID, action string) {
	p := c.pkg(id.pkg)
	kids := c.running[id]
	delete(c.running, id)
	counts := !kids.any || (action == "fail" && !kids.failed)
	if counts {
		p.tests++
	}
	switch action {
	case "pass":
		if counts {
			c.passed++
		}
	case "skip":
		if counts {
			c.skipped++
			c.print(withoutFrame(c.outputs[id]))
		}
	case "fail":
		p.failed = true
		if counts {
			c.failed++
		}
		c.print(c.outputs[id])
	}
	delete(c.outputs, id)
	c.tellParent(id, action)
}

// tellParent finds the nearest test that is still running: the name of a
// subtest may itself hold slashes.
func (c *counter) tellParent(id testID, action string) {
	parent := id
	for {
		i := strings.LastIndexByte(parent.test, '/')
		if i < 0 {
			return
		}
		parent.test = parent.test[:i]
		if k, ok := c.running[parent]; ok {
			k.any = true
			k.failed = k.failed || action == "fail"
			c.running[parent] = k
			return
		}
	}
}

// withoutFrame leaves out the "=== RUN" lines.
func withoutFrame(lines []string) []string {
	var kept []string
	for _, l := range lines {
		if !strings.HasPrefix(l, "=== ") {
			kept = append(kept, l)
		}
	}
	return kept
}

func (c *counter) print(lines []string) {
	for _, l := range lines {
		fmt.Fprint(c.out, l)
	}
}

// finish writes the closing line and reports whether all is well. A package
// that began and never ended counts as failed.
func (c *counter) finish() bool {
	for name, p := range c.packages {
		c.failed++
		c.print(p.output)
		fmt.Fprintf(c.out, "FAIL  %s did not end\n", name)
	}
	fmt.Fprintf(c.out, "%d passed, %d failed, %d skipped\n", c.passed, c.failed, c.skipped)
	return c.failed == 0 && c.passed > 0
}
