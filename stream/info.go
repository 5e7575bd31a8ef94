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
		ID: s.spec.ID, UID: s.spec.Owner.UID, Files: len(s.plan.files), Bytes: s.plan.bytes, Units: int(s.plan.units),
		Committed: s.count[done], DealtBytes: s.emptyBytes,
	}
	for _, c := range s.consumers {
		in.Consumers = append(in.Consumers, ConsumerInfo{Units: len(c.units), Bytes: c.bytes})
		in.DealtBytes += c.bytes
	}
	if s.err != nil {
		in.Error = s.err.Error()
	}
	return in
}
