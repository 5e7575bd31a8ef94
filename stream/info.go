package stream

// Info is the state of a stream.
type Info struct {
	ID, Name  string
	UID       uint32
	Rule      Rule
	Files     int
	Bytes     int64
	Units     int
	External  bool
	Consumers []ConsumerInfo
	// Dealt is what consumers have been given or have committed, Committed the
	// latter alone, in units; DealtBytes is what they have consumed of it.
	Dealt, Committed int
	DealtBytes       int64
	// CommittedBytes is what consumers that are through consumed.
	CommittedBytes int64
	// Readers counts the streams that take part in the reading now, this one
	// included; 0: nothing is being read.
	Readers int
	// Error is why it deals nothing any more; empty: it does.
	Error string
	// Waiting is why it deals nothing at the moment, for a person.
	Waiting string
}

// ConsumerInfo is the state of one consumer.
type ConsumerInfo struct {
	Attempt int
	// State is waiting (has not connected), connected, gone (may come back),
	// finished (has committed its units) or failed.
	State string
	Units int
	Bytes int64
	// Code is that of Finish.
	Code int
}

func (s *stream) info() Info {
	in := Info{
		ID: s.spec.ID, Name: s.spec.Name, UID: s.spec.Owner.UID, Rule: s.spec.Rule, Files: len(s.plan.files),
		Bytes: s.plan.bytes, Units: int(s.plan.units), External: s.spec.External,
	}
	in.Committed = s.count[done]
	in.Dealt = s.count[leased] + s.count[done] + s.count[empty]
	for _, a := range s.source.attached {
		in.Readers = max(in.Readers, len(a.sc.attached))
	}
	in.DealtBytes, in.CommittedBytes = s.emptyBytes, s.emptyBytes
	for _, c := range s.consumers {
		in.Consumers = append(in.Consumers, ConsumerInfo{
			Attempt: int(c.attempt), State: c.phase.String(), Units: len(c.units), Bytes: c.bytes, Code: int(c.code),
		})
		in.DealtBytes += c.bytes
		if c.phase == committed {
			in.CommittedBytes += c.bytes
		}
	}
	if s.err != nil {
		in.Error = s.err.Error()
	}
	if s.unknown > 0 {
		in.Waiting = "consumers of before the daemon's restart have not come back yet"
	}
	return in
}
