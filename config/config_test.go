package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	f, err := Parse("f", strings.NewReader(`
# a comment
[daemon]
  slots=4
store = a=/x,zstd
store = b=/y
metrics =
; another
[ limits   user  alice ]
waiting = 10 20
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Section{
		{"daemon", 3, []Entry{{"slots", "4", 4}, {"store", "a=/x,zstd", 5}, {"store", "b=/y", 6}, {"metrics", "", 7}}},
		{"limits user alice", 9, []Entry{{"waiting", "10 20", 10}}},
	}
	if !reflect.DeepEqual(f.Sections, want) {
		t.Errorf("got %v, want %v", f.Sections, want)
	}
	if err := f.Repeated("store"); err != nil {
		t.Error(err)
	}
	if err := f.Repeated(); err == nil || err.Error() != "f:6: store is there already, in line 5: write it once" {
		t.Error(err)
	}
}

func TestParseSaysAllThatIsWrong(t *testing.T) {
	_, err := Parse("f", strings.NewReader("slots = 4\n[daemon\n[daemon]\nslots\n= 3\n[]\na = \x01\nb = \xff\n"))
	if err == nil {
		t.Fatal("accepted")
	}
	var lines []string
	for _, line := range strings.Split(err.Error(), "\n") {
		place, _, _ := strings.Cut(line, ": ")
		lines = append(lines, place)
	}
	if want := []string{"f:1", "f:2", "f:4", "f:5", "f:6", "f:7", "f:8"}; !reflect.DeepEqual(lines, want) {
		t.Errorf("complaints about %v, want %v: %v", lines, want, err)
	}
	if _, err := Parse("f", strings.NewReader("#"+strings.Repeat("x", maxLine))); err == nil || !strings.Contains(err.Error(), "longer") {
		t.Errorf("a line without end: %v", err)
	}
}

func TestSectionsOnce(t *testing.T) {
	f, err := Parse("f", strings.NewReader("[a]\n[b]\n[a]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Repeated(); err == nil || err.Error() != "f:3: [a] is there already, in line 1: write it once" {
		t.Error(err)
	}
}

func TestUnknownSuggests(t *testing.T) {
	known := []string{"slots", "memory", "waiting"}
	for word, want := range map[string]string{
		"slot": "slots", "Memory": "memory", "wating": "waiting", "memmory": "memory",
	} {
		if err := Unknown(word, known).Error(); !strings.HasSuffix(err, "did you mean "+want+"?") {
			t.Errorf("%s: %s", word, err)
		}
	}
	if err := Unknown("colour", known).Error(); err != "colour is unknown; there are slots, memory, waiting" {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("[a]\nb = c\n")
	f.Fuzz(func(t *testing.T, s string) {
		file, err := Parse("f", strings.NewReader(s))
		if err != nil {
			return
		}
		for _, section := range file.Sections {
			for _, e := range section.Entries {
				if e.Key == "" || e.Line <= section.Line || strings.ContainsAny(e.Key+e.Value, "\n\x00") {
					t.Errorf("%q: %+v", s, e)
				}
			}
		}
	})
}
