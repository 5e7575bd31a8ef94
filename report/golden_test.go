package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files of testdata")

func golden(t *testing.T, name string, write func(io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s differs; run with -rewrite and look at the difference. Got:\n%.4000s", path, got.Bytes())
	}
}

func TestGolden(t *testing.T) {
	colour := Terminal{Width: 72, Colour: true}
	ascii := Terminal{Width: 72, ASCII: true}
	cases := []struct {
		name  string
		write func(io.Writer) error
	}{
		{"page.html", examplePage().WriteHTML},
		{"page.json", func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", " ")
			return e.Encode(examplePage())
		}},
		{"table.txt", exampleTable().WriteText},
		{"table.md", exampleTable().WriteMarkdown},
		{"table.html", exampleTable().WriteHTML},
		{"ps.txt", examplePS().WriteText},
		{"ps-colour.txt", func(w io.Writer) error { return examplePS().WriteTerminal(w, colour) }},
		{"ps-ascii.txt", func(w io.Writer) error { return examplePS().WriteTerminal(w, ascii) }},
		{"timeline.txt", func(w io.Writer) error { return exampleTimeline().WriteText(w, Terminal{Width: 100}) }},
		{"timeline-colour.txt", func(w io.Writer) error { return exampleTimeline().WriteText(w, colour) }},
		{"timeline-ascii.txt", func(w io.Writer) error { return exampleTimeline().WriteText(w, ascii) }},
		{"timeline.svg", func(w io.Writer) error { return exampleTimeline().WriteSVG(w, 900) }},
		{"bars.svg", func(w io.Writer) error { return exampleBars().WriteSVG(w, 900) }},
		{"stacks.svg", func(w io.Writer) error { return exampleStacks().WriteSVG(w, 900) }},
		{"stacks.txt", exampleStacks().Data().WriteText},
		{"panes.svg", func(w io.Writer) error { return examplePanes().WriteSVG(w, 900) }},
		{"panes.txt", examplePanes().Data().WriteText},
		{"load.svg", func(w io.Writer) error { return exampleLoad().WriteSVG(w, 500) }},
		{"load.txt", exampleLoad().Data().WriteText},
		{"targets.svg", func(w io.Writer) error { return exampleTargets().WriteSVG(w, 600) }},
		{"lines.svg", func(w io.Writer) error { return exampleLines("Urgent task", true, true).WriteSVG(w, 640) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { golden(t, c.name, c.write) })
	}
}
