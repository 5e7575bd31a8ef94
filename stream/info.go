package stream

// Info is the state of a stream.
type Info struct {
	ID        string
	UID       uint32
	Files     int
	Bytes     int64
	Units     int
	Consumers []ConsumerInfo
	// Committed units are those of consumers that are through; DealtBytes is what
	// all have consumed.
	Committed  int
	DealtBytes int64
	// Error is why it deals nothing any more; empty: it does.
	Error string
}

// ConsumerInfo is what one consumer has been given and, of that, has consumed.
type ConsumerInfo struct {
	Units int
	Bytes int64
}

func (s *stream) info() Info {
	in := Info{
		ID: s.spec.ID, UID: s.spec.Owner.UID, Files: len(s.plan.Files), Bytes: s.plan.Bytes, Units: int(s.plan.Units),
		Committed: s.deal.Units.Committed(), DealtBytes: s.deal.DealtBytes(),
	}
	for i := range s.seats {
		units, bytes := s.deal.Given(i)
		in.Consumers = append(in.Consumers, ConsumerInfo{Units: units, Bytes: bytes})
	}
	if err := s.deal.Err(); err != nil {
		in.Error = err.Error()
	}
	return in
}
