package store

import (
	"context"
	"time"

	"headrace/solo/journal"
)

const (
	// measureValid is how long a measured bandwidth is used by later daemons.
	measureValid = 24 * time.Hour
	// guessStore is the bandwidth, in bytes per second, of a store that could not
	// be measured.
	guessStore = 100e6
	// The fixed costs before any dump has been seen, as measured for CRIU on small
	// processes.
	guessDumpOverhead    = 150 * time.Millisecond
	guessRestoreOverhead = 150 * time.Millisecond
	// Dumps below smallDump tell about the overhead, those above bigDump about the
	// bandwidth.
	smallDump = 8 << 20
	bigDump   = 32 << 20
)

// speed returns the bandwidths of a store that is there: what is known of them, when that is recent, else what comes of
// trying. It may be called from anywhere.
func (a *Stores) speed(ctx context.Context, c Config, known journal.Measure, measure func(context.Context, string) (write, read float64, err error)) journal.Measure {
	age := a.daemon.Wall().Sub(time.UnixMilli(known.MeasuredMs))
	if known.Write > 0 && known.Read > 0 && age >= 0 && age < measureValid {
		return known
	}
	write, read, err := measure(ctx, c.Dir)
	if err != nil || write <= 0 || read <= 0 {
		a.daemon.Log.Warn("a checkpoint store could not be measured", "store", c.Name, "dir", c.Dir, "err", err)
		write, read = guessStore, guessStore
	}
	a.daemon.Log.Info("checkpoint store", "store", c.Name, "dir", c.Dir, "write", int64(write), "read", int64(read))
	return journal.Measure{
		Write: write, Read: read, DumpOverhead: guessDumpOverhead, RestoreOverhead: guessRestoreOverhead, MeasuredMs: a.daemon.Wall().UnixMilli(),
	}
}

// estimate returns how long a dump of so many bytes takes.
func (s *Store) estimate(dirty int64) time.Duration {
	return s.DumpOverhead + transfer(dirty, s.Write)
}

func transfer(bytes int64, bandwidth float64) time.Duration {
	if bandwidth <= 0 {
		return time.Hour
	}
	return time.Duration(float64(bytes) / bandwidth * float64(time.Second))
}

// LearnDump corrects the measured values by a dump that happened. Dumps that
// wrote little of a large memory say nothing about the bandwidth.
func (s *Store) LearnDump(stored, total int64, took time.Duration) {
	switch {
	case total <= smallDump:
		s.DumpOverhead = learnOverhead(s.DumpOverhead, took-transfer(stored, s.Write))
	case stored >= bigDump && stored >= total/2:
		s.Write = learnBandwidth(s.Write, stored, took-s.DumpOverhead, took)
	}
}

// LearnRestore is LearnDump for a restore that has read so many bytes.
func (s *Store) LearnRestore(read int64, took time.Duration) {
	switch {
	case read <= smallDump:
		s.RestoreOverhead = learnOverhead(s.RestoreOverhead, took-transfer(read, s.Read))
	case read >= bigDump:
		s.Read = learnBandwidth(s.Read, read, took-s.RestoreOverhead, took)
	}
}

func learnOverhead(known, sample time.Duration) time.Duration {
	return time.Duration(Average(float64(known), float64(max(sample, time.Millisecond))))
}

func learnBandwidth(known float64, bytes int64, net, gross time.Duration) float64 {
	if net = max(net, gross/4); net <= 0 {
		return known
	}
	return Average(known, float64(bytes)/net.Seconds())
}

// Average moves an average towards a new sample; the first one is taken as it is. It keeps nothing: what the daemon has learned of each store, of swap and
// of each task's dumps are numbers of their own.
func Average(average, sample float64) float64 {
	if average == 0 {
		return sample
	}
	return 0.7*average + 0.3*sample
}
