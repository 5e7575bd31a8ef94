package synthetic

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// TestGoogleDayFile checks that the file that comes along can be read, written and
// read again.
func TestGoogleDayFile(t *testing.T) {
	d, err := ReadDay(strings.NewReader(GoogleDayFile()))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadDay(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, d) {
		t.Errorf("written and read again:\n%+v\nwant\n%+v", again, d)
	}
}

// TestReadDayRefuses changes one place of a good file.
func TestReadDayRefuses(t *testing.T) {
	good := compactDay(t)
	for _, c := range []struct{ old, replacement, want string }{
		{good, "", "parameters of a day: the file is empty"},
		{good, "{", "the file ends too early"},
		{good, "{\n\n]", "line 3: invalid character"},
		{good, "[]", "want synthetic.Day, not a array"},
		{good, good + " {}", "something comes after the last brace"},
		{good, strings.Repeat(" ", MaxDayFile+1), "longer than 1048576 bytes"},
		{`"jobs":15000`, `"jbos":15000`, `unknown field "jbos"`},
		{`"jobs":15000`, `"jobs":"many"`, "line 1: jobs: want int, not a string"},
		{`"jobs":15000`, `"jobs":0`, "parameters of a day: jobs: 0: want 1 to"},
		{`"jobs":15000`, `"jobs":700000`, "tasks: 600000: want 700000 to"},
		{`"hours":24`, `"hours":-1`, "hours: -1: want 0.01 to"},
		{`"name":"google-day"`, `"name":""`, `name: "": want a name`},
		{`"name":"free"`, `"name":"middle"`, `bands[0].name: "middle": want free`},
		{`"nodes":200`, `"nodes":0`, "cluster.nodes: 0: want 1 to"},
		{`"single":`, `"single":1`, "bands[0].size.single: "},
		{`"rates":[`, `"rates":[-1,`, "bands[0].arrival.rates[0]: -1: want 0 to"},
		{`"jitter":`, `"jitter":3`, "bands[0].arrival.jitter: "},
		{`"waves":`, `"waves":10000`, "bands[0].arrival.waves: "},
		{`"priorities":[`, `"priorities":[0,`, "bands[0].priorities: ["},
		{`"classes":[`, `"classes":[1e-9,`, "bands[0].classes: ["},
		{`"classes":[`, `"classes":[2,`, "bands[0].classes: 2: want shares from 0 to 1"},
		{`"tasks":0.`, `"tasks":0.9`, "tasks of all bands: ["},
		{`"with_run":`, `"with_run":-2`, "bands[0].cpus.with_run: "},
		{`"mean":`, `"mean":9`, "bands[0].memory.mean: "},
	} {
		bad := strings.Replace(good, c.old, c.replacement, 1)
		if bad == good {
			t.Errorf("%s is not there", c.old)
			continue
		}
		_, err := ReadDay(strings.NewReader(bad))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: %v\nwant ...%s", c.replacement, err, c.want)
		}
	}
	bands := GoogleDay()
	bands.Bands = bands.Bands[:2]
	if err := bands.Validate(); err == nil || !strings.Contains(err.Error(), "bands: 2: want three") {
		t.Errorf("two bands: %v", err)
	}
}

// compactDay returns the file without notes and white space, so that places in it can
// be named.
func compactDay(t testing.TB) string {
	d := GoogleDay()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestValidateNamesEachField makes every number of the parameters NaN, and infinite,
// in turn. None may pass, and the message says which it was.
func TestValidateNamesEachField(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1e300} {
		tried := 0
		d := GoogleDay()
		eachFloat("", reflect.ValueOf(&d).Elem(), func(path string, v reflect.Value) {
			good := v.Float()
			v.SetFloat(bad)
			err := d.Validate()
			v.SetFloat(good)
			tried++
			field, _, _ := strings.Cut(path[strings.LastIndexByte(path, '.')+1:], "[")
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s: %v: %v", path, bad, err)
			}
		})
		if tried < 80 {
			t.Errorf("only %d numbers", tried)
		}
		if err := d.Validate(); err != nil {
			t.Errorf("put back: %v", err)
		}
	}
}

func eachFloat(path string, v reflect.Value, do func(path string, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Float64:
		do(path, v)
	case reflect.Slice:
		for i := range v.Len() {
			eachFloat(fmt.Sprintf("%s[%d]", path, i), v.Index(i), do)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			eachFloat(path+"."+name, v.Field(i), do)
		}
	}
}

// FuzzReadDay generates a small workload from whatever is accepted.
func FuzzReadDay(f *testing.F) {
	good := compactDay(f)
	f.Add(good)
	f.Add(`{"name":"x"}`)
	f.Add(strings.Replace(good, `"rates":[`, `"rates":[0,0,`, 1))
	f.Add(strings.Replace(good, `"single":0.`, `"single":0.99`, 1))
	f.Add(strings.Replace(good, `"waves":`, `"waves":1`, 1))
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ReadDay(strings.NewReader(text))
		if err != nil {
			return
		}
		scale := min(1, 1000/float64(d.Tasks))
		w, err := d.Generate(1, scale)
		if err != nil {
			if !strings.Contains(err.Error(), "scale") {
				t.Fatal(err)
			}
			return
		}
		if want := int(math.Round(float64(d.Tasks) * scale)); len(w.Tasks) != want {
			t.Fatalf("%d tasks, want %d", len(w.Tasks), want)
		}
		for i := range w.Tasks {
			k := &w.Tasks[i]
			if k.Submit < 0 || k.Submit.Hours() > d.Hours || k.Run < 0 || !(k.CPUs > 0) || k.Memory <= 0 || !(k.Dirty >= 0) {
				t.Fatalf("task %d: %+v", i, *k)
			}
			if i > 0 && k.Submit < w.Tasks[i-1].Submit {
				t.Fatalf("task %d: submitted before the one before", i)
			}
		}
	})
}
