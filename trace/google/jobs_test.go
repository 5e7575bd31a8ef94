package google

import (
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/trace/workload"
)

func TestReadGoogleJobs(t *testing.T) {
	var got []JobEvent
	for e, err := range ReadJobs(strings.NewReader(googleJobLines)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	want := []JobEvent{
		{Job: 7, Class: 3, Name: "jobhash1=", LogicalName: "program+1=", Inferred: true},
		{Job: 7, Kind: Schedule, Class: 3, Name: "jobhash1=", LogicalName: "program+1="},
		{At: 100 * time.Second, Job: 8, Name: "jobhash2="},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for text, says := range map[string]string{
		"0,,7,0,u,3,a":        "trace: line 1: 7 fields, want 8, separated by commas",
		"0,,7,9,u,3,a,b":      `trace: line 1: event type "9": more than 8`,
		"0,,7,0,u,4,a,b":      `trace: line 1: scheduling class "4": more than 3`,
		"0,,7,0,u,3,a,b\x00c": `trace: line 1: logical job name "b\x00c": has a control character`,
	} {
		for _, err := range ReadJobs(strings.NewReader(text)) {
			if err == nil || err.Error() != says {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}

func TestReadGoogleMachines(t *testing.T) {
	for text, says := range map[string]string{
		"0,1,0,p,1":       "trace: line 1: 5 fields, want 6, separated by commas",
		"0,1,3,p,1,1":     `trace: line 1: event type "3": more than 2`,
		"0,x,0,p,1,1":     `trace: line 1: machine ID "x": want a whole number, 0 or more`,
		"0,1,0,p,1.5,1":   `trace: line 1: CPUs "1.5": want a number from 0 to 1`,
		"0,1,0,p,1,1,1,1": "trace: line 1: 8 fields, want 6, separated by commas",
	} {
		for _, err := range ReadMachines(strings.NewReader(text)) {
			if err == nil || err.Error() != says {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}

func FuzzReadGoogleMachines(f *testing.F) {
	f.Add("0,1,0,p,1,1\n600000000,3,1,p,,\n")
	f.Fuzz(func(t *testing.T, text string) {
		for e, err := range ReadMachines(strings.NewReader(text)) {
			if err == nil && (e.At < 0 || e.Kind >= machineKinds || !(e.CPUs >= 0 && e.Memory <= 1)) {
				t.Fatalf("%+v", e)
			}
		}
	})
}

func FuzzReadGoogleJobs(f *testing.F) {
	f.Add(googleJobLines)
	f.Fuzz(func(t *testing.T, text string) {
		for e, err := range ReadJobs(strings.NewReader(text)) {
			if err == nil && (e.At < 0 || e.Kind >= kinds || e.Class >= workload.Classes) {
				t.Fatalf("%+v", e)
			}
		}
	})
}

const googleJobLines = `0,2,7,0,userhash=,3,jobhash1=,program+1=
600000000,,7,1,userhash=,3,jobhash1=,program+1=
700000000,,8,0,userhash=,,jobhash2=,
`
