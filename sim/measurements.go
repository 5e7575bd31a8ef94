package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// mediaFile is the form of Measurements in a file. Bandwidths are bytes per second,
// times are texts such as 77ms.
type mediaFile struct {
	Version int           `json:"version"`
	From    string        `json:"from"`
	Media   []mediumEntry `json:"media"`
	Swap    *MeasuredSwap `json:"swap,omitempty"`
	Costs   costsEntry    `json:"costs"`
}

type mediumEntry struct {
	Name            string   `json:"name"`
	Write           float64  `json:"write"`
	Read            float64  `json:"read"`
	DumpOverhead    fileTime `json:"dump_overhead"`
	RestoreOverhead fileTime `json:"restore_overhead"`
	Moving          float64  `json:"moving"`
	Source          string   `json:"source"`
}

type costsEntry struct {
	Start  fileTime `json:"start"`
	Stop   fileTime `json:"stop"`
	Kill   fileTime `json:"kill"`
	Resume fileTime `json:"resume"`
	Source string   `json:"source"`
}

const (
	mediaVersion = 1
	// mostMediaBytes is more than any file of measurements has.
	mostMediaBytes = 1 << 20
	mostMedia      = 100
	// Bounds of what can have been measured.
	leastBandwidth, mostBandwidth = 1e3, 1e13
	mostCost                      = time.Hour
	mostMoving                    = 1000
)

// fileTime is a duration as a text.
type fileTime time.Duration

// UnmarshalJSON takes a text such as "77ms".
func (t *fileTime) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("time %.40s: want a text such as \"77ms\"", b)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("time %.40q: want a text such as \"77ms\"", s)
	}
	*t = fileTime(d)
	return nil
}

// MarshalJSON is such a text.
func (t fileTime) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(t).String()) }

func readMediaFile(r io.Reader) (mediaFile, error) {
	var f mediaFile
	text, err := io.ReadAll(io.LimitReader(r, mostMediaBytes+1))
	if err != nil {
		return f, err
	}
	if len(text) > mostMediaBytes {
		return f, fmt.Errorf("more than %d bytes: this is not a file of measurements", mostMediaBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return f, explainJSON(text, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return f, fmt.Errorf("line %d: there is more after the end of the measurements", lineOf(text, dec.InputOffset()))
	}
	return f, nil
}

// explainJSON adds the line to an error of the decoder, where it tells the place.
func explainJSON(text []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the file ends before the measurements do; write it again with headrace-lab bench preempt --media")
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: %w", lineOf(text, syntax.Offset), err)
	case errors.As(err, &kind):
		return fmt.Errorf("line %d: %s is a %s, want a %s", lineOf(text, kind.Offset), kind.Field, kind.Value, kind.Type.Kind())
	}
	return err
}

func lineOf(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(max(offset, 0), int64(len(text)))], []byte("\n"))
}

// check says what is wrong with the values.
func (f mediaFile) check() error {
	if f.Version != mediaVersion {
		return fmt.Errorf("version %d: this program reads version %d", f.Version, mediaVersion)
	}
	if len(f.Media) == 0 {
		return errors.New("media: there is none")
	}
	if len(f.Media) > mostMedia {
		return fmt.Errorf("media: there are %d, want at most %d", len(f.Media), mostMedia)
	}
	seen := map[string]bool{}
	for i, m := range f.Media {
		where := fmt.Sprintf("media, entry %d (%q)", i+1, m.Name)
		if m.Name == "" {
			return fmt.Errorf("%s: it has no name", where)
		}
		if seen[m.Name] {
			return fmt.Errorf("%s: there are two of this name", where)
		}
		seen[m.Name] = true
		if err := m.check(); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	if s := f.Swap; s != nil {
		if err := errors.Join(checkBandwidth("out", s.Out), checkBandwidth("in", s.In)); err != nil {
			return fmt.Errorf("swap: %w", err)
		}
	}
	c := f.Costs
	err := errors.Join(checkTime("start", c.Start), checkTime("stop", c.Stop), checkTime("kill", c.Kill), checkTime("resume", c.Resume))
	if err != nil {
		return fmt.Errorf("costs: %w", err)
	}
	return nil
}

func (m mediumEntry) check() error {
	err := errors.Join(checkBandwidth("write", m.Write), checkBandwidth("read", m.Read),
		checkTime("dump_overhead", m.DumpOverhead), checkTime("restore_overhead", m.RestoreOverhead))
	if !(m.Moving >= 0 && m.Moving <= mostMoving) {
		err = errors.Join(err, fmt.Errorf("moving: %g processors: want 0 to %d", m.Moving, mostMoving))
	}
	return err
}

func checkBandwidth(name string, v float64) error {
	if v >= leastBandwidth && v <= mostBandwidth {
		return nil
	}
	return fmt.Errorf("%s: %g bytes per second: want %g to %g", name, v, leastBandwidth, mostBandwidth)
}

func checkTime(name string, t fileTime) error {
	if d := time.Duration(t); d < 0 || d > mostCost {
		return fmt.Errorf("%s: %v: want 0s to %v", name, d, mostCost)
	}
	return nil
}

func (f mediaFile) measurements() Measurements {
	m := Measurements{From: f.From}
	for _, e := range f.Media {
		m.Media = append(m.Media, MeasuredMedium{
			Medium: Medium{Name: e.Name, Write: e.Write, Read: e.Read,
				DumpOverhead: time.Duration(e.DumpOverhead), RestoreOverhead: time.Duration(e.RestoreOverhead)},
			Moving: e.Moving, Source: e.Source})
	}
	if f.Swap != nil {
		m.Swap = *f.Swap
	}
	c := f.Costs
	m.Costs = MeasuredCosts{Start: time.Duration(c.Start), Stop: time.Duration(c.Stop),
		Kill: time.Duration(c.Kill), Resume: time.Duration(c.Resume), Source: c.Source}
	return m
}

func mediaFileOf(m Measurements) mediaFile {
	f := mediaFile{Version: mediaVersion, From: m.From}
	for _, x := range m.Media {
		f.Media = append(f.Media, mediumEntry{Name: x.Name, Write: math.Round(x.Write), Read: math.Round(x.Read),
			DumpOverhead: fileTime(x.DumpOverhead), RestoreOverhead: fileTime(x.RestoreOverhead), Moving: x.Moving, Source: x.Source})
	}
	if s := m.Swap; s.Out != 0 || s.In != 0 {
		f.Swap = &MeasuredSwap{Out: math.Round(s.Out), In: math.Round(s.In), Source: s.Source}
	}
	c := m.Costs
	f.Costs = costsEntry{Start: fileTime(c.Start), Stop: fileTime(c.Stop), Kill: fileTime(c.Kill), Resume: fileTime(c.Resume), Source: c.Source}
	return f
}

func (f mediaFile) write(w io.Writer) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
