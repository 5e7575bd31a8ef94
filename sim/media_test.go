package sim

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

const goodMedia = `{
 "version": 1, "from": "here",
 "media": [
  {"name": "ssd", "write": 1e8, "read": 9e7, "dump_overhead": "77ms", "restore_overhead": "48ms", "moving": 0.1, "source": "s"},
  {"name": "nvm", "write": 2e9, "read": 1e9, "dump_overhead": "70ms", "restore_overhead": "0s", "moving": 0.8, "source": ""}
 ],
 "swap": {"out": 5e8, "in": 4e8, "source": "w"},
 "costs": {"start": "12ms", "stop": "4.1ms", "kill": "34ms", "resume": "2ms", "source": "c"}
}`

func TestReadMeasurements(t *testing.T) {
	m, err := ReadMeasurements(strings.NewReader(goodMedia))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Medium{Name: "ssd", Write: 1e8, Read: 9e7, DumpOverhead: 77 * time.Millisecond, RestoreOverhead: 48 * time.Millisecond}); m.Media[0].Medium != want {
		t.Errorf("medium %+v, want %+v", m.Media[0].Medium, want)
	}
	if m.Swap.Out != 5e8 || m.Swap.In != 4e8 || m.From != "here" || m.Media[0].Source != "s" {
		t.Errorf("%+v", m)
	}
	c := Config{Nodes: 3}
	if err := m.Apply(&c, "nvm"); err != nil {
		t.Fatal(err)
	}
	costs := Costs{Start: 12 * time.Millisecond, Stop: 4100 * time.Microsecond, Kill: 34 * time.Millisecond, Resume: 2 * time.Millisecond, Moving: 0.8}
	if c.Medium.Name != "nvm" || c.Costs != costs || c.Nodes != 3 {
		t.Errorf("applied: %+v", c)
	}
	if err := m.Apply(&c, "tape"); err == nil || !strings.Contains(err.Error(), "ssd, nvm") {
		t.Errorf("%v, want an error that names the media there are", err)
	}
}

func TestReadMeasurementsErrors(t *testing.T) {
	swap := func(old, new string) string { return strings.Replace(goodMedia, old, new, 1) }
	for name, c := range map[string]struct{ text, want string }{
		"empty":        {"", "ends before"},
		"cut":          {goodMedia[:200], "ends before"},
		"no JSON":      {"\n\nhdd 30", "line 3"},
		"more":         {goodMedia + "{}", "line 9: there is more"},
		"other field":  {swap(`"read": 9e7`, `"raed": 9e7`), "raed"},
		"wrong kind":   {swap(`1e8`, `"fast"`), "line 4: media.write is a string, want a float64"},
		"version":      {swap(`"version": 1`, `"version": 2`), "reads version 1"},
		"no media":     {`{"version":1,"media":[]}`, "there is none"},
		"no name":      {swap(`"ssd"`, `""`), "entry 1"},
		"twice":        {swap(`"nvm"`, `"ssd"`), `entry 2 ("ssd"): there are two`},
		"no bandwidth": {swap(`"read": 1e9, `, ``), `entry 2 ("nvm"): read: 0 bytes per second`},
		"too fast":     {swap(`1e8`, `1e20`), `entry 1 ("ssd"): write`},
		"number":       {swap(`"77ms"`, `77`), `want a text such as "77ms"`},
		"no unit":      {swap(`"77ms"`, `"77"`), `want a text such as "77ms"`},
		"before":       {swap(`"77ms"`, `"-1ms"`), "dump_overhead: -1ms: want 0s"},
		"moving":       {swap(`0.8`, `-1`), `entry 2 ("nvm"): moving`},
		"swap":         {swap(`4e8`, `0`), "swap: in"},
		"costs":        {swap(`"34ms"`, `"34h"`), "costs: kill"},
		"too long":     {goodMedia + strings.Repeat(" ", mostMediaBytes), "not a file of measurements"},
	} {
		if _, err := ReadMeasurements(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}

func TestMeasurementsSurviveTheFile(t *testing.T) {
	for _, want := range []Measurements{DefaultMeasurements(), {Media: []MeasuredMedium{{Medium: Medium{Name: "m", Write: 1e6, Read: 1e6}}}}} {
		var b bytes.Buffer
		if err := want.Write(&b); err != nil {
			t.Fatal(err)
		}
		got, err := ReadMeasurements(&b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
		}
	}
	if err := (Measurements{}).Write(&bytes.Buffer{}); err == nil {
		t.Error("a file without media was written")
	}
}

// The media must be what the papers used, or comparing with them is idle:
// checkpoint-preemption, table 3, dumps 5 GB in 169, 43.7 and 2.92 s.
func TestDefaultMediaAreThoseOfThePaper(t *testing.T) {
	took := map[string]float64{"hdd": 169, "ssd": 43.7, "nvm": 2.92}
	for _, m := range DefaultMeasurements().Media {
		paper := took[m.Name]
		if got := m.DumpOverhead.Seconds() + 5e9/m.Write; paper > 0 && (got < paper*0.7 || got > paper*1.3) {
			t.Errorf("%s dumps 5 GB in %.1f s, the paper's in %.1f s", m.Name, got, paper)
		}
		delete(took, m.Name)
	}
	if len(took) > 0 {
		t.Errorf("missing: %v", took)
	}
}

func FuzzReadMeasurements(f *testing.F) {
	f.Add([]byte(goodMedia))
	f.Add(builtinMedia)
	f.Add([]byte(`{"version":1,"media":[{"name":"x","write":1e400}]}`))
	f.Add([]byte(`{"version":1,"media":null}[`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ReadMeasurements(bytes.NewReader(text))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := m.Write(&b); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if _, err := ReadMeasurements(&b); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	})
}
