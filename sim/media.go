package sim

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Measurements are the speeds of storage and the costs of mechanisms as a machine
// has shown them. `headrace-lab bench preempt --media FILE` writes them to a file.
type Measurements struct {
	// From says what was run, where and when.
	From  string
	Media []MeasuredMedium
	// Swap is the paging of the machine; its bandwidths are 0 when it was not
	// measured.
	Swap  MeasuredSwap
	Costs MeasuredCosts
}

// MeasuredMedium is a Medium and how it was measured.
type MeasuredMedium struct {
	Medium
	// Moving is how many processors a dump to it or a restore from it keeps busy: the
	// slower the medium, the fewer.
	Moving float64
	// Source says how it was measured, for people.
	Source string
}

// MeasuredSwap is paging, in bytes per second.
type MeasuredSwap struct {
	Out    float64 `json:"out"`
	In     float64 `json:"in"`
	Source string  `json:"source"`
}

// MeasuredCosts are the times that do not depend on the medium.
type MeasuredCosts struct {
	Start, Stop, Kill, Resume time.Duration
	Source                    string
}

//go:embed media.json
var builtinMedia []byte

// DefaultMeasurements returns those of the machine on which this simulator was written.
func DefaultMeasurements() Measurements {
	m, err := ReadMeasurements(bytes.NewReader(builtinMedia))
	if err != nil {
		panic("sim/media.json: " + err.Error())
	}
	return m
}

// ReadMeasurements reads a file of measurements. An error names the line, or the
// entry and the field, and what is wrong with it, not the file.
func ReadMeasurements(r io.Reader) (Measurements, error) {
	f, err := readMediaFile(r)
	if err != nil {
		return Measurements{}, err
	}
	if err := f.check(); err != nil {
		return Measurements{}, err
	}
	return f.measurements(), nil
}

// Write writes a file of measurements.
func (m Measurements) Write(w io.Writer) error {
	f := mediaFileOf(m)
	if err := f.check(); err != nil {
		return err
	}
	return f.write(w)
}

// Names returns those of the media, in the order of the file.
func (m Measurements) Names() []string {
	var names []string
	for _, x := range m.Media {
		names = append(names, x.Name)
	}
	return names
}

// Apply sets in c what was measured: the medium of that name and the costs. It leaves
// swap alone: where that lies is a matter of the cluster.
func (m Measurements) Apply(c *Config, medium string) error {
	i := slices.IndexFunc(m.Media, func(x MeasuredMedium) bool { return x.Name == medium })
	if i < 0 {
		return fmt.Errorf("storage %q: it was not measured; there are %s", medium, strings.Join(m.Names(), ", "))
	}
	x := m.Media[i]
	c.Medium = x.Medium
	c.Costs = Costs{Start: m.Costs.Start, Stop: m.Costs.Stop, Kill: m.Costs.Kill, Resume: m.Costs.Resume, Moving: x.Moving}
	return nil
}
