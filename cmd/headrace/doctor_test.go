package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"headrace/cli"
	"headrace/doctor"
)

var ailing = []doctor.Finding{
	{Name: "kernel", Status: doctor.OK, What: "Linux 6.18", Why: "5.10 is needed"},
	{Name: "swap", Status: doctor.Warning, What: "there is none", Why: "Suspended tasks keep their memory.", How: "make a file:\nfallocate -l 8G /swapfile\n"},
	{Name: "criu", Status: doctor.Missing, What: "not found", Why: "Without it\nthere are no checkpoints."},
}

const ailingText = `status   what    found
ok       kernel  Linux 6.18
warning  swap    there is none
missing  criu    not found

swap: there is none
  Suspended tasks keep their memory.
    make a file:
    fallocate -l 8G /swapfile

criu: not found
  Without it; there are no checkpoints.
`

func TestDiagnosis(t *testing.T) {
	for _, c := range []struct {
		findings []doctor.Finding
		code     int
	}{{ailing, cli.ExitFailure}, {ailing[:2], 0}, {nil, 0}} {
		var out bytes.Buffer
		a := &app{App: cli.App{Format: cli.FormatTable, Out: &out}}
		if code, line := cli.Outcome(a.diagnosis(c.findings)); code != c.code || line != "" {
			t.Errorf("%d findings: exit code %d and %q, want %d", len(c.findings), code, line, c.code)
		}
		if len(c.findings) == len(ailing) && out.String() != ailingText {
			t.Errorf("got\n%s\nwant\n%s", out.String(), ailingText)
		}
	}
	var out bytes.Buffer
	a := &app{App: cli.App{Format: cli.FormatJSON, Out: &out}}
	if code, _ := cli.Outcome(a.diagnosis(ailing)); code != cli.ExitFailure {
		t.Errorf("JSON: exit code %d", code)
	}
	var back []doctor.Finding
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || len(back) != 3 || back[1] != ailing[1] {
		t.Errorf("JSON: %v, %+v", err, back)
	}
}
