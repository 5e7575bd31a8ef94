package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"

	"headrace"
)

// A Kind is what a task was doing during a segment.
type Kind uint8

// The kinds, in the order of a legend.
const (
	// Waiting: it has no processes yet, or no longer.
	Waiting Kind = iota
	// Running: doing work that counts in the end.
	Running
	// Suspended: stopped, still in memory or in swap.
	Suspended
	// Checkpointing: being written to storage.
	Checkpointing
	// Checkpointed: only on storage.
	Checkpointed
	// Restoring: being read from storage.
	Restoring
	// Lost: doing work that was thrown away later.
	Lost

	kinds = int(Lost) + 1
)

var kindNames = [kinds]string{"waiting", "running", "suspended", "checkpointing", "checkpointed", "restoring", "lost"}

// String returns the lower-case name.
func (k Kind) String() string {
	if int(k) < kinds {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// parseKind returns the inverse of Kind.String.
func parseKind(s string) (Kind, error) {
	for i, n := range kindNames {
		if n == s {
			return Kind(i), nil
		}
	}
	return 0, fmt.Errorf("unknown kind of segment %q", s)
}

// MarshalText returns String; a kind that does not exist is an error.
func (k Kind) MarshalText() ([]byte, error) {
	if int(k) >= kinds {
		return nil, fmt.Errorf("unknown kind of segment %d", uint8(k))
	}
	return []byte(k.String()), nil
}

// UnmarshalText does as parseKind.
func (k *Kind) UnmarshalText(text []byte) (err error) {
	*k, err = parseKind(string(text))
	return err
}

// KindOf returns the kind of segment that a state begins, and false for the states
// that end a task.
func KindOf(s headrace.TaskState) (Kind, bool) {
	switch s {
	case headrace.Pending:
		return Waiting, true
	case headrace.Running:
		return Running, true
	case headrace.Suspended:
		return Suspended, true
	case headrace.Checkpointed:
		return Checkpointed, true
	}
	return 0, false
}

// A Segment is one thing that a task did, from Start to End in seconds. An End
// that is NaN or +Inf means: not over yet; it is drawn up to the end of the
// chart. A segment that ends before it starts is listed but not drawn.
type Segment struct {
	Kind  Kind
	Start float64
	End   float64
	// Note is shown with the segment when the mouse rests on it.
	Note string
}

type segmentJSON struct {
	Kind  Kind   `json:"kind"`
	Start number `json:"start"`
	End   number `json:"end"`
	Note  string `json:"note,omitempty"`
}

// MarshalJSON writes times that are not finite as null.
func (s Segment) MarshalJSON() ([]byte, error) {
	return json.Marshal(segmentJSON{s.Kind, number(s.Start), number(s.End), s.Note})
}

// UnmarshalJSON reads null as NaN.
func (s *Segment) UnmarshalJSON(data []byte) error {
	j := segmentJSON{Start: number(math.NaN()), End: number(math.NaN())}
	err := json.Unmarshal(data, &j)
	*s = Segment{j.Kind, float64(j.Start), float64(j.End), j.Note}
	return err
}

func (s Segment) open() bool { return math.IsNaN(s.End) || math.IsInf(s.End, 1) }

// A Lane is the history of one task. Segments need not be sorted; where they
// overlap, the later in the list is on top.
type Lane struct {
	Name string `json:"name"`
	// Strong lanes stand out: the task that the rest makes room for.
	Strong   bool      `json:"strong,omitempty"`
	Segments []Segment `json:"segments"`
}

// Total returns the time spent in a kind of segment that is over, in seconds.
func (l Lane) Total(k Kind) float64 {
	sum := 0.0
	for _, s := range l.Segments {
		if d := s.End - s.Start; s.Kind == k && d > 0 && finite(d) {
			sum += d
		}
	}
	return sum
}

// A Marker is a named place on an axis.
type Marker struct {
	At    float64
	Label string
}

type markerJSON struct {
	At    number `json:"at"`
	Label string `json:"label"`
}

// MarshalJSON writes a place that is not finite as null.
func (m Marker) MarshalJSON() ([]byte, error) {
	return json.Marshal(markerJSON{number(m.At), m.Label})
}

// UnmarshalJSON reads null as NaN.
func (m *Marker) UnmarshalJSON(data []byte) error {
	j := markerJSON{At: number(math.NaN())}
	err := json.Unmarshal(data, &j)
	*m = Marker{float64(j.At), j.Label}
	return err
}

// A Panel is one run: what all tasks did under one policy.
type Panel struct {
	Name    string   `json:"name"`
	Note    string   `json:"note,omitempty"`
	Lanes   []Lane   `json:"lanes"`
	Markers []Marker `json:"markers,omitempty"`
}

// A Timeline is several runs under each other on one time axis.
type Timeline struct {
	Title  string  `json:"title,omitempty"`
	Note   string  `json:"note,omitempty"`
	Panels []Panel `json:"panels"`
}

func (t *Timeline) heading() (title, note string) { return t.Title, t.Note }

func (t *Timeline) summary() string {
	return summarise(t.Title, "Timelines", "of", t.Panels, func(p Panel) string {
		if p.Note != "" {
			return p.Name + " (" + p.Note + ")"
		}
		return p.Name
	})
}

// Data lists every segment.
func (t *Timeline) Data() *Table {
	table := &Table{Columns: []Column{
		{Title: "Run"}, {Title: "Task"}, {Title: "State"},
		{Title: "From", Align: Right}, {Title: "To", Align: Right}, {Title: "Lasted", Align: Right}, {Title: "Note", Flex: true},
	}}
	for _, p := range t.Panels {
		for _, l := range p.Lanes {
			for _, s := range l.Segments {
				table.Add(Str(p.Name), Str(l.Name), Str(s.Kind.String()), Num(s.Start, UnitSeconds),
					Num(s.End, UnitSeconds), Num(s.End-s.Start, UnitSeconds), Str(s.Note))
			}
		}
		for _, m := range p.Markers {
			table.Add(Str(p.Name), Str(""), Str(m.Label), Num(m.At, UnitSeconds))
		}
	}
	return table
}

// span returns the common time axis: from zero, or from the first thing before it.
func (t *Timeline) span() (from, to float64) {
	for _, p := range t.Panels {
		for _, m := range p.Markers {
			if drawable(m.At) {
				from, to = min(from, m.At), max(to, m.At)
			}
		}
		for _, l := range p.Lanes {
			for _, s := range l.Segments {
				for _, v := range [...]float64{s.Start, s.End} {
					if drawable(v) {
						from, to = min(from, v), max(to, v)
					}
				}
			}
		}
	}
	if to-from <= 0 {
		to = from + 1
	}
	return from, to
}

// visible returns the part of a segment that can be drawn.
func (s Segment) visible(to float64) (start, end float64, ok bool) {
	start, end = s.Start, s.End
	if s.open() {
		end = to
	}
	return start, end, drawable(start) && drawable(end) && end > start && int(s.Kind) < kinds
}

// kindsUsed tells for the legend which kinds appear.
func (t *Timeline) kindsUsed() (used [kinds]bool) {
	_, to := t.span()
	for _, p := range t.Panels {
		for _, l := range p.Lanes {
			for _, s := range l.Segments {
				if _, _, ok := s.visible(to); ok {
					used[s.Kind] = true
				}
			}
		}
	}
	return used
}

// flags returns the distinct labels of the markers, in order of appearance.
func (t *Timeline) flags() []string {
	var labels []string
	seen := map[string]bool{}
	for _, p := range t.Panels {
		for _, m := range p.Markers {
			if drawable(m.At) && !seen[m.Label] {
				seen[m.Label] = true
				labels = append(labels, m.Label)
			}
		}
	}
	return labels
}

// WriteSVG writes the timeline as a file of its own, width pixels wide.
func (t *Timeline) WriteSVG(w io.Writer, width int) error { return writeSVG(w, t, width) }
